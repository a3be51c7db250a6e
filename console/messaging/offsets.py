"""Moving the progress of a group: what a reset would skip or repeat, and the reset (consumer/resetoffset)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from brokercore.client import Admin
from console.accounts.actor import Actor
from console.audit import services as audit
from console.instances import broker
from console.messaging.status import online_clients
from console.topics.models import Group, Topic
from console.web.errors import Refused

Target = int | Literal["begin", "end"]
"""A time in epoch milliseconds, or one of the ends."""
_NOW = -1
"""What the wire says for "the end of every queue"."""


@dataclass(frozen=True)
class QueueMove:
    """What a reset does in one queue: from the committed offset to another; None when nothing was committed."""

    broker_name: str
    queue_id: int
    current: int | None
    target: int

    @property
    def skipped(self) -> int:
        """Messages that will not be consumed."""
        return max(0, self.target - self.current) if self.current is not None else 0

    @property
    def repeated(self) -> int:
        """Messages that will be consumed again."""
        return max(0, self.current - self.target) if self.current is not None else 0


@dataclass(frozen=True)
class ResetPreview:
    """What a reset would do."""

    moves: list[QueueMove]

    @property
    def skipped(self) -> int:
        """Messages that will not be consumed, over all queues."""
        return sum(m.skipped for m in self.moves)

    @property
    def repeated(self) -> int:
        """Messages that will be consumed again, over all queues."""
        return sum(m.repeated for m in self.moves)


def preview_reset(group: Group, topic: Topic, target: Target) -> ResetPreview:
    """What resetting would skip or repeat in each queue; changes nothing.

    Raises Refused for a time in the future or a broadcasting group, ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    _check(admin, group, target)
    committed = admin.consumer_offsets().get((topic.physical_name, group.physical_name), {})
    moves = []
    for queue, stats in sorted(admin.topic_stats(topic.physical_name).items()):
        if target == "begin":
            offset = stats.min_offset
        elif target == "end" or target > stats.last_update_ms:
            offset = stats.max_offset
        else:
            offset = max(stats.min_offset, admin.search_offset(queue, target))
        moves.append(QueueMove(queue.broker_name, queue.queue_id, committed.get(queue), offset))
    return ResetPreview(moves)


def reset_offset(actor: Actor, group: Group, topic: Topic, target: Target) -> dict[str, int]:
    """Move every queue of `topic` to the first message stored at or after `target`; works for offline groups too.

    Online clients jump within about ten seconds. Returns the new offset per queue (`broker-a:0`). Raises Refused
    for a time in the future or a broadcasting group, ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    _check(admin, group, target)
    timestamp = _NOW if target == "end" else 0 if target == "begin" else target
    moved = admin.reset_offset(group.physical_name, topic.physical_name, timestamp)
    offsets = {f"{queue.broker_name}:{queue.queue_id}": offset for queue, offset in sorted(moved.items())}
    audit.record(
        actor,
        "messaging.offset.reset",
        group.physical_name,
        detail={"topic": topic.physical_name, "to": target, "offsets": offsets},
    )
    return offsets


def _check(admin: Admin, group: Group, target: Target) -> None:
    if isinstance(target, int) and target > time.time() * 1000:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "The time lies in the future.", "reset_time")
    connection = online_clients(admin, group)
    if connection is not None and connection.message_model == "BROADCASTING":
        message = "The group is in broadcasting mode: its offsets are kept by its clients and cannot be reset here."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "group_id")
