"""Where the queue of an inflow task stands: what was delivered last, how many messages wait and since when.

A queue has no positions, so that of a task is the id of the last message that was delivered and deleted. What waits is
what the queue would give to anybody now, and what the task has received and not deleted yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analytics.pipelines import reaches
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.receiver import Receiver
from analytics.pipelines.reports import Reached
from analytics.pipelines.spool import Spool
from brokercore.smq.client import Delivered, QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import SmqError

log = logging.getLogger(__name__)

#: How often the queue is asked how many messages it has, s.
_TELL_S = 2.0


@dataclass(frozen=True, slots=True)
class _Batch:
    """When the first and the last message of a batch came into the queue, epoch ms."""

    first_ms: int
    last_ms: int


class Standing:
    """Of one source, by the process that leads its spool; tells nothing for a source that is no inflow task's."""

    def __init__(self, source: QueueSource, client: QueueClient, spool: Spool, receiver: Receiver) -> None:
        self._source, self._client, self._spool, self._receiver = source, client, spool, receiver
        #: Batches that are not deleted, as far as this process has received them.
        self._batches: dict[int, _Batch] = {}
        self._told = reaches.reached(source.state, source.name) or Reached()
        self._told_at = float("-inf")
        self._has_moved = False

    def add(self, number: int, messages: Sequence[Delivered]) -> None:
        """A batch was received."""
        if messages:
            times = [message.enqueued_ms for message in messages]
            self._batches[number] = _Batch(min(times), max(times))

    def delivered(self, number: int, message: str) -> None:
        """A batch was delivered and deleted, the message is its last one."""
        batch = self._batches.pop(number, None)
        self._told = replace(self._told, position=message, time_ms=None if batch is None else batch.last_ms)
        self._has_moved = True

    def tell(self, *, at_once: bool = False) -> None:
        """Write down where it stands, now and then. Raises OSError where the state is gone."""
        recent = time.monotonic() - self._told_at < _TELL_S
        if self._source.events is None or (recent and not at_once and not self._has_moved):
            return
        try:
            active = self._client.queue(self._source.queue).active
        except (QueueServiceUnavailable, SmqError) as error:
            log.info("how many messages %s has is not known: %s", self._source.queue, error)
            active = 0
        self._told = self._now(active)
        self._told_at, self._has_moved = time.monotonic(), False
        reaches.tell(self._source.state, self._source.name, self._told)

    def _now(self, active: int) -> Reached:
        ahead, first_ms, last_ms = self._receiver.waiting()
        batches = list(self._batches.values())
        pending = active + ahead + sum(len(batch.handles) for batch in list(self._spool.batches.values()))
        since = [one for one in (first_ms, *(batch.first_ms for batch in batches)) if one is not None]
        known = (last_ms, self._told.time_ms, *(batch.last_ms for batch in batches))
        done = self._spool.counters()["deletedMessages"]
        return replace(
            self._told,
            sequence=done,
            last=done + pending,
            last_ms=max((one for one in known if one is not None), default=None),
            since_ms=min(since, default=None),
        )
