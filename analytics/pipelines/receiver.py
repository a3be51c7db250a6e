"""Receives messages of a queue ahead of Spark, and keeps them hidden from others until they are deleted.

One thread has a request under way all the time, and a second one reads the answers meanwhile. A third hides again what
would become visible while its batch is still under way. What is in no batch when the pipeline ends is given back.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.queue_source import QueueSource
from brokercore.smq.client import Delivered, QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import Code, SmqError

log = logging.getLogger(__name__)

#: Messages and bytes received ahead, and so in a batch at most.
MOST_MESSAGES, MOST_BYTES = 10_000, 64 << 20
#: What may pass when it is tried again.
PASSING = frozenset({Code.INTERNAL_ERROR, Code.QPS_LIMIT_EXCEEDED})
#: What a handle is refused with that is not the message's latest one, or whose message has gone.
FINAL = frozenset({Code.MESSAGE_NOT_EXIST, Code.RECEIPT_HANDLE_ERROR})
#: How long the service may be out of reach before the pipeline fails, s, and how long to wait between two tries.
PATIENCE_S, PAUSE_S = 60.0, 0.5
#: How often to look for what becomes visible, s, and how many times at least while a message is hidden.
_HOLD_S, _HOLD_LOOKS = 1.0, 8
#: The shortest that a queue hides a message again, s: what is given back comes again after it.
_SHORTEST_S = 1
#: How long giving back may take, s, and how long the request that is under way may take to end before it.
_GIVE_BACK_S, _LAST_ANSWER_S = 5.0, 0.5


@dataclass(slots=True)
class _Hidden:
    """A message that was received and is not deleted: its latest handle, and until when it is hidden (monotonic)."""

    handle: str
    until: float


class Receiver:
    """For one queue. `renewed` is told the handle of a message that was hidden again."""

    def __init__(self, source: QueueSource, client: QueueClient, renewed: Callable[[str, str], object]) -> None:
        self._source, self._client, self._renewed = source, client, renewed
        #: Answers with the numbers of their requests, which are those of the order in which they are asked; then None.
        self._unread: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._kept = 0
        #: The number of the last request: a message that is deleted from now on is in no answer to a later one.
        self.asked = 0
        self._ahead: deque[Delivered] = deque()
        self._size = 0
        #: When the first of them came, monotonic; zero for what was taken before.
        self._since = 0.0
        #: By message, the one first that becomes visible first.
        self._hidden: dict[str, _Hidden] = {}
        self._changed = threading.Condition()
        self._failure: str | None = None
        self._silent_since: float | None = None
        self._stopped = threading.Event()
        self._receiving, self._reading, self._holding = (
            threading.Thread(target=work, name=f"{work.__name__} {source.name}", daemon=True)
            for work in (self._receive, self._read, self._hold)
        )

    def start(self) -> None:
        """Begin to receive."""
        self._receiving.start()
        self._reading.start()
        if self._source.hidden_s:
            self._holding.start()

    def close(self, is_kept: Callable[[str], bool]) -> None:
        """Stop receiving, and give back what is not kept elsewhere."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._receiving.join(_LAST_ANSWER_S)
        self._unread.put(None)
        self._reading.join(_LAST_ANSWER_S)
        with self._changed:
            self._give_back([message for message in self._ahead if not is_kept(message.id)])

    def fail(self, sentence: str) -> None:
        """Let whoever asks for messages fail with this sentence."""
        with self._changed:
            self._failure = sentence
            self._changed.notify_all()

    def take(self) -> tuple[list[Delivered], int]:
        """All that was received, after a wait for a first message when there is none, and up to which request.

        Nothing, and 0, while more of them are waited for. Raises ConnectorFailed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_due() or self._failure, self._source.batch_wait_ms / 1000)
            if self._failure is not None:
                raise ConnectorFailed(self._failure)
            if self._ahead and not self._is_due():
                return [], 0
            messages = list(self._ahead)
            self._ahead.clear()
            self._size = 0
            self._changed.notify_all()
            return messages, self._kept

    def _is_due(self) -> bool:
        """Whether there are as many as are waited for, or the first of them has waited for the others."""
        if not self._ahead or not self._source.messages_at_once:
            return bool(self._ahead)
        waited = time.monotonic() - self._since
        return len(self._ahead) >= self._source.messages_at_once or waited >= self._source.interval_ms / 1000

    def waiting(self) -> tuple[int, int | None, int | None]:
        """How many were received ahead, and when the first and the last of them came into the queue, epoch ms."""
        with self._changed:
            if not self._ahead:
                return 0, None, None
            return len(self._ahead), self._ahead[0].enqueued_ms, self._ahead[-1].enqueued_ms

    def put_back(self, messages: list[Delivered]) -> None:
        """Of what was taken, the last messages: they come first when more is taken."""
        with self._changed:
            self._ahead.extendleft(reversed(messages))
            self._since = 0.0 if messages else self._since
            self._size += sum(len(message.body) for message in messages)

    def latest(self, message: str, handle: str) -> str:
        """The latest handle of a message that came with this one."""
        hidden = self._hidden.get(message)
        return handle if hidden is None else hidden.handle

    def forget(self, messages: Iterable[str]) -> None:
        """Messages were deleted, or cannot be: they need not be hidden any more."""
        with self._changed:
            for message in messages:
                self._hidden.pop(message, None)

    # Receiving

    def _receive(self) -> None:
        wait_s = -(-self._source.polling_wait_ms // 1000)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped.is_set() or self._has_room())
            if self._stopped.is_set():
                return
            answer = b""
            self.asked += 1
            try:
                answer = self._client.receive_unread(self._source.queue, self._source.most, wait_s)
            except QueueServiceUnavailable as error:
                self._is_silent(f"The queue service at {self._source.endpoint} cannot be reached: {error}")
            except SmqError as error:
                if error.code not in PASSING:
                    self.fail(f"The queue {self._source.queue} cannot be read: {error}")
                    return
                self._is_silent(f"The queue {self._source.queue} cannot be read: {error}")
            else:
                self._silent_since = None
                if not answer and wait_s == 0:
                    self._stopped.wait(PAUSE_S)
            self._unread.put((self.asked, answer))

    def _is_silent(self, sentence: str) -> None:
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if now - self._silent_since >= PATIENCE_S:
            self.fail(sentence)
        self._stopped.wait(PAUSE_S)

    def _read(self) -> None:
        while (found := self._unread.get()) is not None:
            number, answer = found
            try:
                self._keep(self._client.deliveries_of(answer), number)
            except QueueServiceUnavailable as error:
                self.fail(f"The queue {self._source.queue} cannot be read: {error}")

    def _has_room(self) -> bool:
        return len(self._ahead) < MOST_MESSAGES and self._size < MOST_BYTES

    def _keep(self, found: list[Delivered], number: int) -> None:
        until = time.monotonic() + self._source.hidden_s
        with self._changed:
            if found and not self._ahead:
                self._since = time.monotonic()
            self._ahead.extend(found)
            self._size += sum(len(message.body) for message in found)
            for message in found:
                self._hide_until(message.id, message.handle, until)
            self._kept = number
            if found:
                self._changed.notify_all()

    def _hide_until(self, message: str, handle: str, until: float) -> None:
        self._hidden.pop(message, None)  # it goes to the end
        self._hidden[message] = _Hidden(handle, until)

    # Hiding

    def _hold(self) -> None:
        while not self._stopped.wait(min(_HOLD_S, self._source.hidden_s / _HOLD_LOOKS)):
            try:
                self._hide_again()
            except QueueServiceUnavailable as error:
                log.info("messages of %s are not hidden again: %s", self._source.queue, error)
            except SmqError as error:
                log.warning("messages of %s are not hidden again, and may come twice: %s", self._source.queue, error)
                if error.code not in PASSING:
                    return

    def _hide_again(self) -> None:
        """All of which more than half of the time has passed. Raises SmqError and QueueServiceUnavailable."""
        with self._changed:
            due = time.monotonic() + self._source.hidden_s / 2
            soon = [(message, hidden.handle) for message, hidden in self._hidden.items() if hidden.until < due]
        for message, handle in soon:
            if self._stopped.is_set():
                return
            new = self._changed_visibility(handle, self._source.hidden_s)
            with self._changed:
                hidden = self._hidden.get(message)
                if hidden is None or hidden.handle != handle:  # deleted meanwhile, or it came again
                    continue
                if new is None:
                    del self._hidden[message]
                    continue
                self._hide_until(message, new, time.monotonic() + self._source.hidden_s)
                self._renewed(message, new)

    def _give_back(self, messages: list[Delivered]) -> None:
        deadline = time.monotonic() + _GIVE_BACK_S
        try:
            for given, message in enumerate(messages):
                if time.monotonic() >= deadline:
                    log.info("%s messages of %s come when they are visible", len(messages) - given, self._source.queue)
                    return
                self._changed_visibility(self.latest(message.id, message.handle), _SHORTEST_S)
        except (SmqError, QueueServiceUnavailable) as error:
            log.info("messages of %s are not given back: %s", self._source.queue, error)

    def _changed_visibility(self, handle: str, seconds: int) -> str | None:
        """The new handle; None for a message that has gone, or has come again."""
        try:
            return self._client.hide(self._source.queue, handle, seconds)[0]
        except SmqError as error:
            if error.code in FINAL:
                return None
            raise
