"""The leading process of a source `mns`: makes batches of what was received, and deletes what was committed.

Deleting has a thread of its own, as receiving has: so a batch of Spark's costs neither polls nor deletions.
"""

from __future__ import annotations

import logging
import queue
import resource
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from analytics.inflow.delivery import text_of
from analytics.pipelines import decoding
from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.queue_standing import Standing
from analytics.pipelines.receiver import FINAL, MOST_BYTES, PASSING, PAUSE_S, Receiver
from analytics.pipelines.spool import Spool
from brokercore.smq.client import Delivered, QueueServiceUnavailable
from brokercore.smq.wire.errors import SmqError

log = logging.getLogger(__name__)

#: What the process may take beside what it has when it begins: a body that unpacks to more is refused, and the machine
#: keeps its memory.
MOST_MEMORY = 2 << 30
#: Handles in one request.
_AT_ONCE = 16
#: How long the process of a pipeline that was stopped may take to end, and how often to look, s.
_END_S, _LOOK_S = 20.0, 0.02
#: How often to look for what was committed, s.
_SETTLE_S = 0.1
#: How long a deletion that is under way may take to end with its process, s.
_LAST_DELETE_S = 5.0
#: How long a thread may keep another one waiting, s: whoever has an answer is to send the next request soon.
_SWITCH_S = 0.0005


class _Stopped(Exception):  # noqa: N818
    """What could not be deleted is left to who leads next."""


class Intake:
    """For one source, by the process that leads its spool."""

    def __init__(self, source: QueueSource, spool: Spool) -> None:
        self._source, self._spool = source, spool
        self._decode = source.body.decoder()
        self._client = source.client()
        self._receiver = Receiver(source, self._client, spool.seen)
        self._stopped = threading.Event()
        self._standing = Standing(source, self._client, spool, self._receiver)
        #: Messages that came again after they were committed, with their new handles.
        self._again: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._deleting = threading.Thread(target=self._delete, name=f"delete {source.name}", daemon=True)

    def start(self) -> None:
        """Begin to receive and to delete, in a process that does nothing else."""
        bound_memory()
        sys.setswitchinterval(_SWITCH_S)
        self._receiver.start()
        self._deleting.start()

    def close(self) -> None:
        """Stop receiving, give back what is in no batch, and note what was deleted.

        Whoever leads next would be refused what is deleted and still in the spool, and count it as failed. What waits
        for another try is left to that one.
        """
        self._stopped.set()
        self._receiver.close(lambda message: self._spool.has(message) or self._spool.is_done(message))
        if self._deleting.is_alive():
            self._deleting.join(_LAST_DELETE_S)

    def latest(self, start: int) -> int:
        """The number of the last batch there is, after a wait for one when none is behind `start`.

        Raises ConnectorFailed.
        """
        newest = max(self._spool.batches, default=0)
        if newest > start:
            return newest
        messages, until = self._receiver.take()
        rows, handles, left = self._rows(messages)
        self._receiver.put_back(left)
        if not left:
            self._spool.forget_gone(until)
        if messages:
            if rows:
                number = self._spool.add(decoding.batch_of(rows, self._source.body.schema), handles, above=start)
                self._standing.add(number, [message for message in messages if message.id in handles])
                self._renew(messages, handles)
                return number
            for message, handle in handles.items():
                self._again.put((message, handle))
            self._spool.keep()
        return start

    def _renew(self, messages: list[Delivered], handles: Mapping[str, str]) -> None:
        """Let the batch have the handles of what was hidden again while it was made."""
        for message in messages:
            if (handle := self._receiver.latest(message.id, message.handle)) != handles.get(message.id, handle):
                self._spool.seen(message.id, handle)

    def _rows(self, messages: list[Delivered]) -> tuple[list[decoding.Row], dict[str, str], list[Delivered]]:
        """The rows of what is new, the handles of all that is theirs, and the messages that are too much for a batch.

        Raises ConnectorFailed.
        """
        rows: list[decoding.Row] = []
        handles: dict[str, str] = {}
        size, left = 0, iter(messages)
        for message in self._new(left):
            if message.id in handles:  # twice in the buffer: its invisibility ended there
                self._spool.count("duplicateMessages")
            elif self._source.start_ms is not None and message.enqueued_ms < self._source.start_ms:
                self._spool.count("skippedMessages")
            else:
                found, unpacked = self._decoded(message)
                rows += found
                size += unpacked
            handles[message.id] = self._receiver.latest(message.id, message.handle)
            if size >= MOST_BYTES or (self._source.most_in_batch and len(rows) >= self._source.most_in_batch):
                break
        return rows, handles, list(left)

    def _new(self, messages: Iterable[Delivered]) -> Iterator[Delivered]:
        for message in messages:
            if self._spool.seen(message.id, message.handle) or self._spool.is_gone(message.id):
                self._spool.count("duplicateMessages")
            elif self._spool.is_done(message.id):
                self._spool.count("duplicateMessages")
                self._again.put((message.id, message.handle))
            else:
                yield message

    def _decoded(self, message: Delivered) -> tuple[list[decoding.Row], int]:
        if self._source.events is not None:
            event = text_of(self._source.events.event(message))
            return [(event,)], len(event)
        try:
            rows = self._decode(message.body)
            size = self._source.body.unpacked(rows, message.body)
            if self._source.body.is_event and (further := decoding.further_events(message.body)):
                log.warning("the message %s of %s has %s further events", message.id, self._source.queue, further)
                self._spool.count("droppedEvents", further)
            return rows, size
        except decoding.BadBody as error:
            self._spool.count("deserializationErrors")
            if self._source.body.skips_errors:
                return [], 0
            self._spool.keep()
            raise ConnectorFailed(
                f"The message {message.id} of the queue {self._source.queue} cannot be read: {error}."
            ) from None

    # Deleting

    def _delete(self) -> None:
        """Look for what was committed, not when Spark asks for more: a batch that waits for rows would keep it."""
        while not self._stopped.wait(_SETTLE_S):
            try:
                self._delete_committed()
            except _Stopped:
                return
            except FileNotFoundError as error:
                self._receiver.fail(f"The state of the pipeline is not here any more: {error}")
                return
            except OSError as error:
                self._receiver.fail(f"The state of the pipeline cannot be read or written: {error}")
                return

    def _delete_committed(self) -> None:
        until = self._source.committed()
        for number in sorted(number for number in list(self._spool.batches) if number <= until):
            if self._stopped.is_set():
                return
            self.delete_batch(number)
        came_again = not self._again.empty()
        while not self._again.empty() and not self._stopped.is_set():
            message, handle = self._again.get()
            if not self._deleted({message: self._receiver.latest(message, handle)}):
                self._spool.forget(message, self._receiver.asked)
        if came_again:
            self._spool.keep()
        self._standing.tell()

    def delete_batch(self, number: int) -> None:
        """Delete the messages of a batch in the queue, then the batch. Raises OSError and _Stopped."""
        handles = self._spool.batches[number].handles
        undeleted = self._deleted(handles)
        self._spool.remove(number, undeleted, self._receiver.asked)
        self._standing.delivered(number, list(handles)[-1])

    def tell(self) -> None:
        """Where the source stands, at once. Raises OSError where the state is gone."""
        self._standing.tell(at_once=True)

    def _deleted(self, handles: Mapping[str, str]) -> list[str]:
        """Delete messages; returns the ids of those that are still there. Raises _Stopped before another try."""
        left = list(handles)
        failures: dict[str, bool] = {}
        used: dict[str, str] = {}
        for attempt in range(self._source.delete_retries + 1):
            if attempt and self._stopped.wait(PAUSE_S):
                raise _Stopped
            now = {message: handles[message] for message in left}
            used |= now
            # What is refused for good stays a failure while others are tried again.
            failures = {name: False for name in failures if name not in now} | self._try(now)
            # What cannot be deleted by its handle can be by a newer one, which came with it meanwhile.
            left = [name for name, may_pass in failures.items() if may_pass or handles[name] != used[name]]
            if not left:
                break
        self._receiver.forget(handles)
        self._spool.count("deletedMessages", len(handles) - len(failures))
        self._spool.count("failedDeletes", len(failures))
        return list(failures)

    def _try(self, handles: Mapping[str, str]) -> dict[str, bool]:
        """Delete once; gives the ids that failed, and whether another try may help."""
        failed: dict[str, bool] = {}
        names = list(handles)
        for begin in range(0, len(names), _AT_ONCE):
            chunk = names[begin : begin + _AT_ONCE]
            by_handle = {handles[name]: name for name in chunk}
            try:
                refused = self._client.delete(self._source.queue, list(by_handle))
            except QueueServiceUnavailable as error:
                log.info("messages of %s are not deleted yet: %s", self._source.queue, error)
                failed |= dict.fromkeys(chunk, True)
            except SmqError as error:
                log.warning("messages of %s cannot be deleted: %s", self._source.queue, error)
                failed |= dict.fromkeys(chunk, error.code in PASSING)
            else:
                failed |= {by_handle[handle]: error.code not in FINAL for handle, error in refused}
        return failed


def bound_memory() -> None:
    """Let this process take MOST_MEMORY more and then no more: what asks for it gets MemoryError."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])  # data and stack
    most = pages * resource.getpagesize() + MOST_MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def settle(source: QueueSource) -> None:
    """Delete what is committed, after the pipeline's queries have ended and their process has too.

    A process that is still there would receive what the next one is to read. Raises OSError.
    """
    spool = Spool(source.spool)
    deadline = time.monotonic() + _END_S
    while not spool.lead():
        if time.monotonic() >= deadline:
            log.warning("what reads the queue %s does not end", source.queue)
            return
        time.sleep(_LOOK_S)
    try:
        until = source.committed()
        intake = Intake(source, spool)
        for number in [number for number in sorted(spool.batches) if number <= until]:
            intake.delete_batch(number)
        intake.tell()
    finally:
        spool.release()
