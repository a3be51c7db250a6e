"""Where topics and brokers are: TopicRouteData (105) and ClusterInfo (106)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from brokercore.protocol.fastjson import integer, mapping, objects, read_object, text, texts

MASTER = "0"
"""Broker id of a master, as it stands in `addresses`."""

PERM_READ, PERM_WRITE = 4, 2


@dataclass(slots=True)
class QueueData:
    """How many queues a topic has on one broker; `perm` are the bits PERM_*."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    system_flag: int = 0


@dataclass(slots=True)
class BrokerData:
    """A broker with the `host:port` of its master ("0") and replicas."""

    cluster: str
    broker_name: str
    addresses: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "brokerAddrs": self.addresses,
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": False,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BrokerData:
        return cls(text(data, "cluster"), text(data, "brokerName"), texts(data.get("brokerAddrs")))


@dataclass(slots=True)
class TopicRoute:
    """The route of a topic. A non-empty `order_conf` (`broker-a:8`) makes clients treat it as ordered."""

    queues: list[QueueData] = field(default_factory=list)
    brokers: list[BrokerData] = field(default_factory=list)
    order_conf: str = ""

    def to_json(self) -> bytes:
        route: dict[str, Any] = {
            "brokerDatas": [broker.to_dict() for broker in self.brokers],
            "filterServerTable": {},
            "queueDatas": [
                {
                    "brokerName": item.broker_name,
                    "perm": item.perm,
                    "readQueueNums": item.read_queues,
                    "topicSysFlag": item.system_flag,
                    "writeQueueNums": item.write_queues,
                }
                for item in self.queues
            ],
        }
        if self.order_conf:
            route["orderTopicConf"] = self.order_conf
        return orjson.dumps(route)

    @classmethod
    def from_json(cls, data: bytes) -> TopicRoute:
        fields = read_object(data)
        queues = [
            QueueData(
                text(item, "brokerName"),
                integer(item, "readQueueNums"),
                integer(item, "writeQueueNums"),
                integer(item, "perm"),
                integer(item, "topicSysFlag"),
            )
            for item in objects(fields, "queueDatas")
        ]
        brokers = [BrokerData.from_dict(item) for item in objects(fields, "brokerDatas")]
        return cls(queues, brokers, text(fields, "orderTopicConf"))


@dataclass(slots=True)
class ClusterInfo:
    """All brokers by name, and the broker names of each cluster."""

    brokers: dict[str, BrokerData] = field(default_factory=dict)
    clusters: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> bytes:
        return orjson.dumps(
            {
                "brokerAddrTable": {name: broker.to_dict() for name, broker in self.brokers.items()},
                "clusterAddrTable": self.clusters,
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> ClusterInfo:
        fields = read_object(data)
        brokers = mapping(fields, "brokerAddrTable")
        clusters = mapping(fields, "clusterAddrTable")
        return cls(
            {name: BrokerData.from_dict(item) for name, item in brokers.items() if isinstance(item, dict)},
            {name: [str(broker) for broker in names or []] for name, names in clusters.items()},
        )
