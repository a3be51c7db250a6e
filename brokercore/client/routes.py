"""Where the queues of a topic are: name-server lookups, kept for a while, and longer while no name server answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from brokercore.client.errors import BadResponse, BrokerNotExist, BrokerUnreachable, RequestTimeout
from brokercore.client.session import Session
from brokercore.protocol.bodies.route import MASTER, PERM_READ, PERM_WRITE, BrokerData, ClusterInfo, TopicRoute
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

KEEP_S = 30.0
"""Routes are asked for again after this time, the interval of Java clients' polls."""

_LONG_AGO = float("-inf")


class Routes:
    """Routes with a cache. Methods raise TopicNotExist for a topic without a route, and what Session raises."""

    def __init__(self, session: Session, *, keep_s: float = KEEP_S) -> None:
        self._session = session
        self._keep_s = keep_s
        self._known: dict[str, tuple[float, TopicRoute]] = {}
        self._addresses: dict[str, tuple[float, str]] = {}

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """The route of a topic; `fresh` asks the name server whatever is known."""
        known = self._known.get(topic)
        if known is not None and not fresh and time.monotonic() - known[0] < self._keep_s:
            return known[1]
        try:
            return self._ask(topic)
        except (BrokerUnreachable, RequestTimeout) as error:
            if known is None or fresh:
                raise
            log.warning("the old route of %s is used: %s", topic, error)
            self._known[topic] = (time.monotonic(), known[1])
            return known[1]

    def _ask(self, topic: str) -> TopicRoute:
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        response = self._session.call_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
        try:
            route = TopicRoute.from_json(response.body)
        except LenientJsonError as error:
            raise BadResponse(self._session.name_servers[0], str(error)) from error
        self._known[topic] = (time.monotonic(), route)
        self._keep_addresses(route.brokers)
        return route

    def forget(self, topic: str) -> None:
        """Ask again at the next use."""
        self._known.pop(topic, None)

    def forget_all(self) -> None:
        """Ask for everything again: a broker may have come back at another address."""
        self._known = {topic: (_LONG_AGO, route) for topic, (_, route) in self._known.items()}
        self._addresses = {name: (_LONG_AGO, address) for name, (_, address) in self._addresses.items()}

    def cluster(self) -> ClusterInfo:
        """All brokers and clusters."""
        response = self._session.call_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        try:
            cluster = ClusterInfo.from_json(response.body)
        except LenientJsonError as error:
            raise BadResponse(self._session.name_servers[0], str(error)) from error
        self._keep_addresses(cluster.brokers.values())
        return cluster

    def masters(self, topic: str) -> dict[str, str]:
        """Address of each master that has queues of the topic, by broker name."""
        route = self.route(topic)
        with_queues = {queue.broker_name for queue in route.queues}
        return {
            broker.broker_name: broker.addresses[MASTER]
            for broker in route.brokers
            if MASTER in broker.addresses and broker.broker_name in with_queues
        }

    def address(self, broker_name: str) -> str:
        """Address of a broker's master. Raises BrokerNotExist."""
        known = self._addresses.get(broker_name)
        if known is not None and time.monotonic() - known[0] < self._keep_s:
            return known[1]
        try:
            self.cluster()
        except (BrokerUnreachable, RequestTimeout):
            if known is None:
                raise
            self._addresses[broker_name] = (time.monotonic(), known[1])
        if broker_name not in self._addresses:
            text = f"there is no broker {broker_name}"
            raise BrokerNotExist(ResponseCode.BROKER_NOT_EXIST, text, self._session.name_servers[0])
        return self._addresses[broker_name][1]

    def write_queues(self, topic: str, *, fresh: bool = False) -> list[MessageQueue]:
        """The queues a producer may choose from, in the order all producers agree on."""
        route = self.route(topic, fresh=fresh)
        if route.order_conf:
            return _ordered_queues(topic, route.order_conf)
        masters = self.masters(topic)
        return sorted(
            MessageQueue(topic, queue.broker_name, number)
            for queue in route.queues
            if queue.perm & PERM_WRITE and queue.broker_name in masters
            for number in range(queue.write_queues)
        )

    def read_queues(self, topic: str, *, fresh: bool = False) -> list[MessageQueue]:
        """The queues a consumer shares out."""
        route = self.route(topic, fresh=fresh)
        if route.order_conf:
            return _ordered_queues(topic, route.order_conf)
        return sorted(
            MessageQueue(topic, queue.broker_name, number)
            for queue in route.queues
            if queue.perm & PERM_READ
            for number in range(queue.read_queues)
        )

    def _keep_addresses(self, brokers: Iterable[BrokerData]) -> None:
        now = time.monotonic()
        for broker in brokers:
            if MASTER in broker.addresses:
                self._addresses[broker.broker_name] = (now, broker.addresses[MASTER])


def _ordered_queues(topic: str, order_conf: str) -> list[MessageQueue]:
    """Queues of an ordered topic (`broker-a:8;broker-b:8`): fixed, whichever broker is up."""
    queues: list[MessageQueue] = []
    for part in order_conf.split(";"):
        broker_name, _, count = part.partition(":")
        if count.isdecimal():
            queues += [MessageQueue(topic, broker_name, number) for number in range(int(count))]
    return sorted(queues)
