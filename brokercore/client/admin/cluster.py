"""Brokers, clusters and routes."""

from __future__ import annotations

from dataclasses import dataclass

from brokercore.client.admin.base import AdminBase, read
from brokercore.client.errors import BrokerUnreachable, ClientError, RequestTimeout
from brokercore.client.session import Call
from brokercore.protocol.bodies.reading import read_object, texts
from brokercore.protocol.bodies.route import MASTER, TopicRoute
from brokercore.protocol.codes import RequestCode


@dataclass(frozen=True, slots=True)
class Cluster:
    """`brokers`: master address by broker name; `clusters`: broker names by cluster name."""

    brokers: dict[str, str]
    clusters: dict[str, list[str]]


class ClusterAdmin(AdminBase):
    """What the name server and the brokers tell about themselves."""

    def cluster(self) -> Cluster:
        """All masters and clusters (GET_BROKER_CLUSTER_INFO)."""
        info = self.routes.cluster()
        brokers = {name: data.addresses[MASTER] for name, data in info.brokers.items() if MASTER in data.addresses}
        return Cluster(brokers, info.clusters)

    def route(self, topic: str) -> TopicRoute:
        """The route of a topic, asked anew. Raises TopicNotExist."""
        return self.routes.route(topic, fresh=True)

    def runtime_info(self) -> dict[str, dict[str, str]]:
        """Each broker's runtime table (GET_BROKER_RUNTIME_INFO): version, counters, rates, all as text.

        Brokers that cannot be reached are left out, unless all are: then the error of one is raised.
        """
        calls = {name: Call(at, RequestCode.GET_BROKER_RUNTIME_INFO, {}) for name, at in self.masters().items()}
        tables: dict[str, dict[str, str]] = {}
        unreachable: ClientError | None = None
        for (name, call), result in zip(calls.items(), self.session.call_all(calls.values()), strict=True):
            if isinstance(result, BrokerUnreachable | RequestTimeout):
                unreachable = result
            elif isinstance(result, ClientError):
                raise result
            else:
                tables[name] = texts(read(read_object, result.body, call.address).get("table"))
        if unreachable is not None and not tables:
            raise unreachable
        return tables
