"""Positions of queues: TopicStatsTable (202), ConsumeStats (208), reset tables (220, 222), time spans (303)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import (
    by_queue,
    dumps_object_keyed,
    dumps_with,
    integer,
    mapping,
    number,
    objects,
    read_object,
)
from brokercore.protocol.message_queue import MessageQueue


class QueueStats(NamedTuple):
    """Offsets of a queue; `max_offset` is the next to be written; `last_update_ms` is epoch ms, 0 when empty."""

    min_offset: int
    max_offset: int
    last_update_ms: int


class QueueProgress(NamedTuple):
    """How far a group is in a queue: offsets, and the store time (epoch ms) of the last consumed message."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp_ms: int


class TimeSpan(NamedTuple):
    """Store times (epoch ms) of a queue's first and last message and of the group's next; delay in ms."""

    min_ms: int
    max_ms: int
    consume_ms: int
    delay_ms: int


@dataclass(slots=True)
class TopicStats:
    """Answer of GET_TOPIC_STATS_INFO."""

    queues: dict[MessageQueue, QueueStats] = field(default_factory=dict)
    put_tps: float = 0.0

    def to_json(self) -> bytes:
        table = dumps_object_keyed(
            (
                queue.to_dict(),
                {"lastUpdateTimestamp": s.last_update_ms, "maxOffset": s.max_offset, "minOffset": s.min_offset},
            )
            for queue, s in self.queues.items()
        )
        return dumps_with({"topicPutTps": self.put_tps}, {"offsetTable": table})

    @classmethod
    def from_json(cls, data: bytes) -> TopicStats:
        fields = read_object(data)
        queues = {
            queue: QueueStats(
                integer(item, "minOffset"), integer(item, "maxOffset"), integer(item, "lastUpdateTimestamp")
            )
            for queue, item in by_queue(fields, "offsetTable")
        }
        return cls(queues, number(fields, "topicPutTps"))


@dataclass(slots=True)
class ConsumeStats:
    """Answer of GET_CONSUME_STATS: `tps` in messages a second, progress per queue."""

    tps: float = 0.0
    queues: dict[MessageQueue, QueueProgress] = field(default_factory=dict)

    @property
    def backlog(self) -> int:
        """Messages not yet consumed, over all queues."""
        return sum(max(progress.broker_offset - progress.consumer_offset, 0) for progress in self.queues.values())

    def to_json(self) -> bytes:
        table = dumps_object_keyed((queue.to_dict(), _progress(item)) for queue, item in self.queues.items())
        return dumps_with({"consumeTps": self.tps}, {"offsetTable": table})

    @classmethod
    def from_json(cls, data: bytes) -> ConsumeStats:
        fields = read_object(data)
        queues = {
            queue: QueueProgress(
                integer(item, "brokerOffset"),
                integer(item, "consumerOffset"),
                integer(item, "pullOffset"),
                integer(item, "lastTimestamp"),
            )
            for queue, item in by_queue(fields, "offsetTable")
        }
        return cls(number(fields, "consumeTps"), queues)


def _progress(item: QueueProgress) -> dict[str, int]:
    return {
        "brokerOffset": item.broker_offset,
        "consumerOffset": item.consumer_offset,
        "lastTimestamp": item.last_timestamp_ms,
        "pullOffset": item.pull_offset,
    }


def offsets_to_json(offsets: Mapping[MessageQueue, int], name: str = "offsetTable") -> bytes:
    """A body with one map from queue to offset (220, 222; `messageQueueTable` in 221)."""
    table = dumps_object_keyed((queue.to_dict(), offset) for queue, offset in offsets.items())
    return dumps_with({}, {name: table})


def offsets_from_json(data: bytes, name: str = "offsetTable") -> dict[MessageQueue, int]:
    """Read such a body. Raises LenientJsonError."""
    try:
        return {queue: int(offset) for queue, offset in by_queue(read_object(data), name)}
    except (TypeError, ValueError):
        raise LenientJsonError(f"an offset in {name} is not a whole number") from None


def group_offsets_from_json(data: bytes) -> dict[tuple[str, str], dict[int, int]]:
    """Read GET_ALL_CONSUMER_OFFSET: (topic, group) → queue id → committed offset. Raises LenientJsonError."""
    table: dict[tuple[str, str], dict[int, int]] = {}
    for key, queues in mapping(read_object(data), "offsetTable").items():
        topic, separator, group = key.partition("@")
        if separator and isinstance(queues, dict):
            try:
                table[topic, group] = {int(queue): int(offset) for queue, offset in queues.items()}
            except (TypeError, ValueError):
                raise LenientJsonError(f"the offsets of {key[:80]!r} are not whole numbers") from None
    return table


def time_spans_to_json(spans: Mapping[MessageQueue, TimeSpan]) -> bytes:
    """Answer of QUERY_CONSUME_TIME_SPAN."""
    items: list[dict[str, Any]] = [
        {
            "consumeTimeStamp": span.consume_ms,
            "delayTime": span.delay_ms,
            "maxTimeStamp": span.max_ms,
            "messageQueue": queue.to_dict(),
            "minTimeStamp": span.min_ms,
        }
        for queue, span in spans.items()
    ]
    return dumps_with({"consumeTimeSpanSet": items}, {})


def time_spans_from_json(data: bytes) -> dict[MessageQueue, TimeSpan]:
    """Read the answer of QUERY_CONSUME_TIME_SPAN."""
    return {
        MessageQueue.from_dict(mapping(item, "messageQueue")): TimeSpan(
            integer(item, "minTimeStamp"),
            integer(item, "maxTimeStamp"),
            integer(item, "consumeTimeStamp"),
            integer(item, "delayTime"),
        )
        for item in objects(read_object(data), "consumeTimeSpanSet")
    }
