"""A producer group's heartbeats: brokers that know the group ask it about transactions and push replies to it."""

from __future__ import annotations

from collections.abc import Iterable

from brokercore.client.errors import ClientError
from brokercore.client.periodic import Periodic
from brokercore.client.session import Call, Session
from brokercore.protocol.bodies.heartbeat import Heartbeat
from brokercore.protocol.codes import RequestCode

HEARTBEAT_S = 30.0


class ProducerMembership:
    """Registers a producer group with brokers, and again every 30 s."""

    def __init__(self, session: Session, client_id: str, group: str) -> None:
        self.client_id = client_id
        self._session = session
        self._group = group
        self._heartbeat = Heartbeat(client_id, [group]).to_json()
        self._brokers: set[str] = set()
        self._periodic = Periodic(f"heartbeat of {group}", HEARTBEAT_S, self._beat)
        self._periodic.start()

    def join(self, addresses: Iterable[str]) -> None:
        """Register with brokers before anything goes there that they ask about on this connection later.

        One that this connection does not reach any more is registered with anew. Raises ClientError.
        """
        for address in addresses:
            if address not in self._brokers or not self._session.is_connected(address):
                self._session.call(Call(address, RequestCode.HEART_BEAT, {}, self._heartbeat))
                self._brokers.add(address)

    def stop(self) -> None:
        """Stop the heartbeats and leave; a broker that cannot be reached notices by itself."""
        self._periodic.signal()
        ext = {"clientID": self.client_id, "producerGroup": self._group}
        self._session.call_all(
            [
                Call(address, RequestCode.UNREGISTER_CLIENT, ext)
                for address in self._brokers
                if self._session.is_connected(address)
            ],
        )
        self._periodic.stop()

    def _beat(self) -> None:
        brokers = list(self._brokers)
        calls = [Call(address, RequestCode.HEART_BEAT, {}, self._heartbeat) for address in brokers]
        failed = [result for result in self._session.call_all(calls) if isinstance(result, ClientError)]
        if failed:
            raise failed[0]
