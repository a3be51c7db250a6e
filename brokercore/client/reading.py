"""Reads a range of a queue from end to end, with several pulls in flight: for exports and scans, not for consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

from brokercore.client.admin.base import AdminBase
from brokercore.client.admin.messages import TOOLS_GROUP
from brokercore.client.errors import BrokerUnreachable
from brokercore.client.pulling import PULL_CODES, PullResult, PullStatus, pull_call, read_pull
from brokercore.protocol.command import Command
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue

IN_FLIGHT = 12
"""Pulls under way at a time: enough to hide the way to a broker, few enough to be fair to its consumers."""

MAX_MESSAGES = 32
"""A broker gives no more at a time."""


def read_range(admin: AdminBase, queue: MessageQueue, begin: int, end: int) -> Iterator[list[StoredMessage]]:
    """The messages with offsets from `begin` to before `end`, in order, a list for each pull that found some.

    What the broker has dropped meanwhile is left out. Nothing is committed. Raises ClientError; an outage never looks
    like the end of the range.
    """
    return _Range(admin, queue, begin, end).lists()


class _Range:
    """Blocks of offsets asked for in advance, `[start, stop)` each; a block that came in part is asked for again."""

    def __init__(self, admin: AdminBase, queue: MessageQueue, begin: int, end: int) -> None:
        self._admin, self._queue = admin, queue
        self._ahead, self._end = begin, end
        self._size = MAX_MESSAGES
        self._asked: deque[tuple[int, int, Future[Command]]] = deque()

    def lists(self) -> Iterator[list[StoredMessage]]:
        while self._asked or self._ahead < self._end:
            self._ask()
            start, stop, answer = self._asked.popleft()
            while start < stop:
                found, start_next = self._taken(answer, start, stop)
                if found:
                    yield found
                start = start_next
                if start < stop:
                    answer = self._submit(start, stop)

    def _ask(self) -> None:
        while len(self._asked) < IN_FLIGHT and self._ahead < self._end:
            stop = min(self._ahead + self._size, self._end)
            self._asked.append((self._ahead, stop, self._submit(self._ahead, stop)))
            self._ahead = stop

    def _submit(self, start: int, stop: int) -> Future[Command]:
        session, queue = self._admin.session, self._queue
        address = self._admin.routes.address(queue.broker_name)
        return session.submit(pull_call(address, queue, TOOLS_GROUP, start, max_messages=stop - start))

    def _taken(self, answer: Future[Command], start: int, stop: int) -> tuple[list[StoredMessage], int]:
        """Messages of the block, and the offset to go on from."""
        result = self._result(answer, start, stop)
        found = [message for message in result.messages if start <= message.queue_offset < stop]
        if found:
            after = found[-1].queue_offset + 1
            # An answer holds 256 KiB: of large messages fewer fit, so ask for as many as come.
            self._size = len(found) if after < stop else min(MAX_MESSAGES, 2 * self._size)
            return found, after
        if result.status is PullStatus.NO_NEW_MSG:
            return [], stop
        after = max(result.next_offset, result.min_offset)
        return [], after if after > start else stop

    def _result(self, answer: Future[Command], start: int, stop: int) -> PullResult:
        session = self._admin.session
        address = self._admin.routes.address(self._queue.broker_name)
        try:
            return read_pull(session.wait(answer, address, session.timeout_ms), address)
        except BrokerUnreachable:
            # The connection broke with many pulls under way; this one is asked for once more, on a new one.
            call = pull_call(address, self._queue, TOOLS_GROUP, start, max_messages=stop - start)
            return read_pull(session.call(call, accept=PULL_CODES), address)
