"""Offsets of single queues at their broker: first, last, by time, committed."""

from __future__ import annotations

from collections.abc import Mapping

from brokercore.client.errors import ClientError, QueryNotFound
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session, integer
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message_queue import MessageQueue


class QueueOffsets:
    """One request each. Methods raise ClientError."""

    def __init__(self, session: Session, routes: Routes) -> None:
        self._session = session
        self._routes = routes

    def min_offset(self, queue: MessageQueue) -> int:
        """Offset of the first message still stored."""
        return self._ask(queue, RequestCode.GET_MIN_OFFSET)

    def max_offset(self, queue: MessageQueue) -> int:
        """Offset of the next message to be written."""
        return self._ask(queue, RequestCode.GET_MAX_OFFSET)

    def search_offset(self, queue: MessageQueue, timestamp_ms: int, boundary: str = "LOWER") -> int:
        """Offset of the first message stored at or after a time (epoch ms); `UPPER`: of the last one at it."""
        ext = {"timestamp": str(timestamp_ms), "boundaryType": boundary}
        return self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group has committed, None when it has not."""
        ext = {"consumerGroup": group, "setZeroIfNotFound": "false"}
        try:
            return self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, ext)
        except QueryNotFound:
            return None

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of a group, all at once, and wait until they are kept."""
        calls = [commit_call(self._routes, group, queue, offset) for queue, offset in offsets.items()]
        for result in self._session.call_all(calls):
            if isinstance(result, ClientError):
                raise result

    def _ask(self, queue: MessageQueue, code: RequestCode, ext: dict[str, str] | None = None) -> int:
        address = self._routes.address(queue.broker_name)
        return integer(self._session.call(Call(address, code, _fields(queue) | (ext or {}))), "offset", address)


def commit_call(routes: Routes, group: str, queue: MessageQueue, offset: int) -> Call:
    """UPDATE_CONSUMER_OFFSET. Raises ClientError when the broker is not known."""
    ext = _fields(queue) | {"consumerGroup": group, "commitOffset": str(offset)}
    return Call(routes.address(queue.broker_name), RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def _fields(queue: MessageQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
