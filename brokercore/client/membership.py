"""A consumer's membership in its group: heartbeats, the member list, leaving."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from brokercore.client.errors import BadResponse, ClientError, SystemFault
from brokercore.client.session import Call, Session
from brokercore.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from brokercore.protocol.bodies.reading import read_object
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import LenientJsonError

log = logging.getLogger(__name__)


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
        ext = {"clientID": self.client_id, "consumerGroup": group}
        calls = [Call(address, RequestCode.UNREGISTER_CLIENT, ext) for address in brokers]
        for call, result in zip(calls, self._session.call_all(calls), strict=True):
            if isinstance(result, ClientError):
                log.info("leaving %s at %s: %s", group, call.address, result)

    def _beat(self, addresses: list[str]) -> None:
        if not addresses:
            return
        body = Heartbeat(self.client_id, [], [self._data()]).to_json()
        results = self._session.call_all([Call(address, RequestCode.HEART_BEAT, {}, body) for address in addresses])
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
