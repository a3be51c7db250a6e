"""The broker's locks on queues: a queue of an ordered group is consumed by one client at a time."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

import orjson

from brokercore.client.errors import BadResponse, ClientError
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session
from brokercore.protocol.bodies.reading import objects, read_object
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

RENEW_S = 20.0
"""How often Java clients lock again; a broker frees a lock that was not renewed for 60 s."""


class QueueLocks:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ, one request for each broker."""

    def __init__(self, session: Session, routes: Routes, group: str, client_id: str) -> None:
        self._session = session
        self._routes = routes
        self._group = group
        self._client_id = client_id

    def lock(self, queues: Iterable[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """What is ours now, and what another client holds. A broker that does not answer says neither."""
        calls = self._calls(RequestCode.LOCK_BATCH_MQ, queues)
        ours: set[MessageQueue] = set()
        others: set[MessageQueue] = set()
        results = self._session.call_all([call for call, _ in calls])
        for (call, asked), result in zip(calls, results, strict=True):
            if isinstance(result, ClientError):
                log.warning("locking queues of %s: %s", self._group, result)
                continue
            try:
                locked = {MessageQueue.from_dict(item) for item in objects(read_object(result.body), "lockOKMQSet")}
            except (LenientJsonError, TypeError, ValueError) as error:
                raise BadResponse(call.address, str(error)) from error
            ours |= locked & asked
            others |= asked - locked
        return ours, others

    def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Let other clients have them; a broker that cannot be reached frees them by itself."""
        for result in self._session.call_all([call for call, _ in self._calls(RequestCode.UNLOCK_BATCH_MQ, queues)]):
            if isinstance(result, ClientError):
                log.info("unlocking queues of %s: %s", self._group, result)

    def _calls(self, code: RequestCode, queues: Iterable[MessageQueue]) -> list[tuple[Call, set[MessageQueue]]]:
        by_broker: defaultdict[str, set[MessageQueue]] = defaultdict(set)
        for queue in queues:
            by_broker[queue.broker_name].add(queue)
        calls = []
        for broker_name, asked in by_broker.items():
            try:
                address = self._routes.address(broker_name)
            except ClientError as error:
                log.warning("locking queues of %s: %s", self._group, error)
                continue
            body = {
                "clientId": self._client_id,
                "consumerGroup": self._group,
                "mqSet": [queue.to_dict() for queue in sorted(asked)],
                "onlyThisBroker": False,
            }
            calls.append((Call(address, code, {}, orjson.dumps(body)), asked))
        return calls
