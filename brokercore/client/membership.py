"""Memberships in consumer and producer groups: heartbeats, the member list, leaving."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from brokercore.client.errors import BadResponse, ClientError, SystemFault
from brokercore.client.session import Call, Session
from brokercore.client.threads import Periodic
from brokercore.protocol.bodies.clients import ConsumerData, Heartbeat
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import read_object

log = logging.getLogger(__name__)

HEARTBEAT_S = 30.0
"""Interval of Java clients."""


class ConsumerMembership:
    """Tells brokers that this client consumes; they key it by the connection it also pulls on."""

    def __init__(self, session: Session, client_id: str, data: Callable[[], ConsumerData]) -> None:
        self.client_id = client_id
        self._session = session
        self._data = data
        self._lock = threading.Lock()
        self._brokers: set[str] = set()

    def join(self, addresses: Iterable[str]) -> None:
        """Send a heartbeat to brokers that have not had one. The first error is raised when none could be reached."""
        with self._lock:
            fresh = [address for address in addresses if address not in self._brokers]
        self._beat(fresh)

    def beat(self) -> None:
        """A heartbeat to every broker joined."""
        with self._lock:
            brokers = list(self._brokers)
        self._beat(brokers)

    def lost(self, address: str) -> bool:
        """The connection to a broker broke: it does not know us any more. False when that was known already."""
        with self._lock:
            known = address in self._brokers
            self._brokers.discard(address)
            return known

    def members(self, address: str, group: str) -> list[str]:
        """Client ids of the group as one broker knows them; [] when it knows none."""
        call = Call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        try:
            ids = read_object(self._session.call(call).body).get("consumerIdList")
        except SystemFault:  # "no consumer for this group"
            return []
        except LenientJsonError as error:
            raise BadResponse(address, str(error)) from error
        return [str(item) for item in ids] if isinstance(ids, list) else []

    def leave(self, group: str) -> None:
        """Unregister from every broker; one that cannot be reached notices by itself."""
        with self._lock:
            brokers, self._brokers = list(self._brokers), set()
        calls = _goodbyes(brokers, {"clientID": self.client_id, "consumerGroup": group})
        for call, result in zip(calls, self._session.call_all(calls), strict=True):
            if isinstance(result, ClientError):
                log.info("leaving %s at %s: %s", group, call.address, result)

    def _beat(self, addresses: list[str]) -> None:
        if not addresses:
            return
        results = self._session.call_all(_heartbeats(addresses, Heartbeat(self.client_id, [], [self._data()])))
        failed: ClientError | None = None
        reached = False
        for address, result in zip(addresses, results, strict=True):
            if isinstance(result, ClientError):
                log.warning("heartbeat to %s: %s", address, result)
                failed = failed or result
                self.lost(address)
            else:
                reached = True
                with self._lock:
                    self._brokers.add(address)
        if failed is not None and not reached:
            raise failed


class ProducerMembership:
    """Registers a producer group with brokers, and again every 30 s."""

    def __init__(self, session: Session, client_id: str, group: str) -> None:
        self.client_id = client_id
        self._session = session
        self._group = group
        self._heartbeat = Heartbeat(client_id, [group])
        self._brokers: set[str] = set()
        self._periodic = Periodic(f"heartbeat of {group}", HEARTBEAT_S, self._beat)
        self._periodic.start()

    def join(self, addresses: Iterable[str]) -> None:
        """Register with brokers before anything goes there that they ask about on this connection later.

        One that this connection does not reach any more is registered with anew. Raises ClientError.
        """
        for address in addresses:
            if address not in self._brokers or not self._session.is_connected(address):
                (heartbeat,) = _heartbeats([address], self._heartbeat)
                self._session.call(heartbeat)
                self._brokers.add(address)

    def leave(self) -> None:
        """Stop the heartbeats and unregister; a broker that cannot be reached notices by itself."""
        self._periodic.signal()
        connected = [address for address in self._brokers if self._session.is_connected(address)]
        self._session.call_all(_goodbyes(connected, {"clientID": self.client_id, "producerGroup": self._group}))
        self._periodic.stop()

    def _beat(self) -> None:
        self._session.call_each(_heartbeats(list(self._brokers), self._heartbeat))


def _heartbeats(addresses: Iterable[str], heartbeat: Heartbeat) -> list[Call]:
    body = heartbeat.to_json()
    return [Call(address, RequestCode.HEART_BEAT, {}, body) for address in addresses]


def _goodbyes(addresses: Iterable[str], member: dict[str, str]) -> list[Call]:
    return [Call(address, RequestCode.UNREGISTER_CLIENT, member) for address in addresses]
