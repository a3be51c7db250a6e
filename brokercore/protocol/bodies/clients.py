"""Clients: what they say in heartbeats (34), what brokers know of them (203, 204, 328), what consumers tell (307, 309).

A heartbeat says who a client is, what it produces for and what it subscribes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from brokercore.protocol.fastjson import (
    boolean,
    by_queue,
    dumps_object_keyed,
    dumps_with,
    integer,
    integers,
    mapping,
    number,
    objects,
    read_object,
    strings,
    text,
    texts,
)
from brokercore.protocol.filters import parse_tags
from brokercore.protocol.message_queue import MessageQueue

CONSUME_ACTIVELY, CONSUME_PASSIVELY = "CONSUME_ACTIVELY", "CONSUME_PASSIVELY"
CONSUME_POP = "CONSUME_POP"
_CONSUME_TYPE = "PROP_CONSUME_TYPE"
CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"
CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(slots=True)
class SubscriptionData:
    """What a group wants of a topic; `version` is the epoch ms of the last change."""

    topic: str
    expression: str = "*"
    version: int = 0
    expression_type: str = "TAG"
    tags: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    class_filter: bool = False

    @classmethod
    def of_tags(cls, topic: str, expression: str, version: int) -> SubscriptionData:
        """A tag subscription. Raises SubscriptionError."""
        tags = parse_tags(expression)
        return cls(topic, expression or "*", version, "TAG", sorted(tags.tags), sorted(tags.codes))

    def to_dict(self) -> dict[str, Any]:
        return {
            "classFilterMode": self.class_filter,
            "codeSet": self.codes,
            "expressionType": self.expression_type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": self.tags,
            "topic": self.topic,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SubscriptionData:
        return cls(
            text(data, "topic"),
            text(data, "subString", "*"),
            integer(data, "subVersion"),
            text(data, "expressionType", "TAG"),
            strings(data, "tagsSet"),
            integers(data, "codeSet"),
            boolean(data, "classFilterMode"),
        )


@dataclass(slots=True)
class ConsumerData:
    """One consumer group of a client."""

    group: str
    subscriptions: list[SubscriptionData] = field(default_factory=list)
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = CONSUME_FROM_LAST_OFFSET
    unit_mode: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "consumeFromWhere": self.consume_from_where,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.message_model,
            "subscriptionDataSet": [item.to_dict() for item in self.subscriptions],
            "unitMode": self.unit_mode,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConsumerData:
        return cls(
            text(data, "groupName"),
            [SubscriptionData.from_dict(item) for item in objects(data, "subscriptionDataSet")],
            text(data, "consumeType", CONSUME_PASSIVELY),
            text(data, "messageModel", CLUSTERING),
            text(data, "consumeFromWhere", CONSUME_FROM_LAST_OFFSET),
            boolean(data, "unitMode"),
        )


@dataclass(slots=True)
class Heartbeat:
    """A whole heartbeat. `without_subscriptions` beats (heartbeat V2) must not clear the known subscriptions."""

    client_id: str
    producer_groups: list[str] = field(default_factory=list)
    consumers: list[ConsumerData] = field(default_factory=list)
    fingerprint: int = 0
    without_subscriptions: bool = False

    def to_json(self) -> bytes:
        return orjson.dumps(
            {
                "clientID": self.client_id,
                "consumerDataSet": [item.to_dict() for item in self.consumers],
                "heartbeatFingerprint": self.fingerprint,
                "producerDataSet": [{"groupName": group} for group in self.producer_groups],
                "withoutSub": self.without_subscriptions,
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> Heartbeat:
        fields = read_object(data)
        return cls(
            text(fields, "clientID"),
            [text(item, "groupName") for item in objects(fields, "producerDataSet")],
            [ConsumerData.from_dict(item) for item in objects(fields, "consumerDataSet")],
            integer(fields, "heartbeatFingerprint"),
            boolean(fields, "withoutSub"),
        )


class Connection(NamedTuple):
    """One client connected to a broker; `address` is ip:port, `version` the ordinal of its release."""

    client_id: str
    address: str
    language: str
    version: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "clientAddr": self.address,
            "clientId": self.client_id,
            "language": self.language,
            "version": self.version,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Connection:
        return cls(text(data, "clientId"), text(data, "clientAddr"), text(data, "language"), integer(data, "version"))


def connections_to_json(connections: list[Connection]) -> bytes:
    """Answer of GET_PRODUCER_CONNECTION_LIST."""
    return orjson.dumps({"connectionSet": [item.to_dict() for item in connections]})


def connections_from_json(data: bytes) -> list[Connection]:
    """Read the answer of GET_PRODUCER_CONNECTION_LIST."""
    return [Connection.from_dict(item) for item in objects(read_object(data), "connectionSet")]


class ProducerInfo(NamedTuple):
    """One client that produces; `address` is ip:port, `last_seen_ms` the time of its last heartbeat (epoch ms)."""

    client_id: str
    address: str
    language: str
    version: int
    last_seen_ms: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "clientId": self.client_id,
            "language": self.language,
            "lastUpdateTimestamp": self.last_seen_ms,
            "remoteIP": f"/{self.address}",
            "version": self.version,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProducerInfo:
        return cls(
            text(data, "clientId"),
            text(data, "remoteIP").rpartition("/")[2],
            text(data, "language"),
            integer(data, "version"),
            integer(data, "lastUpdateTimestamp"),
        )


def producers_to_json(producers: Mapping[str, Iterable[ProducerInfo]]) -> bytes:
    """Answer of GET_ALL_PRODUCER_INFO: the clients of each producer group."""
    return orjson.dumps({"data": {group: [item.to_dict() for item in items] for group, items in producers.items()}})


def producers_from_json(data: bytes) -> dict[str, list[ProducerInfo]]:
    """Read the answer of GET_ALL_PRODUCER_INFO."""
    table = mapping(read_object(data), "data")
    return {group: [ProducerInfo.from_dict(item) for item in objects(table, group)] for group in table}


@dataclass(slots=True)
class ConsumerConnection:
    """Answer of GET_CONSUMER_CONNECTION_LIST: the online clients of a group and what they subscribe to."""

    connections: list[Connection] = field(default_factory=list)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""

    def to_json(self) -> bytes:
        return orjson.dumps(
            {
                "connectionSet": [item.to_dict() for item in self.connections],
                "consumeFromWhere": self.consume_from_where,
                "consumeType": self.consume_type,
                "messageModel": self.message_model,
                "subscriptionTable": {topic: item.to_dict() for topic, item in self.subscriptions.items()},
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> ConsumerConnection:
        fields = read_object(data)
        table = mapping(fields, "subscriptionTable")
        return cls(
            [Connection.from_dict(item) for item in objects(fields, "connectionSet")],
            {topic: SubscriptionData.from_dict(item) for topic, item in table.items() if isinstance(item, dict)},
            text(fields, "consumeType"),
            text(fields, "messageModel"),
            text(fields, "consumeFromWhere"),
        )


class ConsumeStatus(NamedTuple):
    """A consumer's own figures for a topic: times in ms, rates in messages a second, failures of the last hour."""

    pull_ms: float = 0.0
    pull_tps: float = 0.0
    consume_ms: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_messages: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "consumeFailedMsgs": self.consume_failed_messages,
            "consumeFailedTPS": self.consume_failed_tps,
            "consumeOKTPS": self.consume_ok_tps,
            "consumeRT": self.consume_ms,
            "pullRT": self.pull_ms,
            "pullTPS": self.pull_tps,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConsumeStatus:
        return cls(
            number(data, "pullRT"),
            number(data, "pullTPS"),
            number(data, "consumeRT"),
            number(data, "consumeOKTPS"),
            number(data, "consumeFailedTPS"),
            integer(data, "consumeFailedMsgs"),
        )


@dataclass(slots=True)
class RunningInfo:
    """Answer of GET_CONSUMER_RUNNING_INFO. `queues` holds ProcessQueueInfo objects as the client wrote them."""

    properties: dict[str, str] = field(default_factory=dict)
    subscriptions: list[SubscriptionData] = field(default_factory=list)
    queues: dict[MessageQueue, dict[str, Any]] = field(default_factory=dict)
    status: dict[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str = ""
    #: Whether it pops: then it holds no queues, and receives from all of them.
    pops: bool = False

    def to_json(self) -> bytes:
        plain: dict[str, Any] = {
            "mqPopTable": {},
            "properties": self.properties,
            "statusTable": {topic: item.to_dict() for topic, item in self.status.items()},
            "subscriptionSet": [item.to_dict() for item in self.subscriptions],
            "userConsumerInfo": {},
        }
        if self.jstack:
            plain["jstack"] = self.jstack
        table = dumps_object_keyed((queue.to_dict(), item) for queue, item in self.queues.items())
        return dumps_with(plain, {"mqTable": table})

    @classmethod
    def from_json(cls, data: bytes) -> RunningInfo:
        fields = read_object(data)
        status = mapping(fields, "statusTable")
        return cls(
            texts(fields.get("properties")),
            [SubscriptionData.from_dict(item) for item in objects(fields, "subscriptionSet")],
            {queue: item for queue, item in by_queue(fields, "mqTable") if isinstance(item, dict)},
            {topic: ConsumeStatus.from_dict(item) for topic, item in status.items() if isinstance(item, dict)},
            text(fields, "jstack"),
            bool(fields.get("mqPopTable")) or texts(fields.get("properties")).get(_CONSUME_TYPE) == CONSUME_POP,
        )


@dataclass(slots=True)
class DirectResult:
    """Answer of CONSUME_MESSAGE_DIRECTLY; `result` is one of CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION, …"""

    result: str
    remark: str = ""
    spent_ms: int = 0
    order: bool = False
    auto_commit: bool = True

    def to_json(self) -> bytes:
        fields = {
            "autoCommit": self.auto_commit,
            "consumeResult": self.result,
            "order": self.order,
            "spentTimeMills": self.spent_ms,
        }
        return orjson.dumps(fields | {"remark": self.remark} if self.remark else fields)

    @classmethod
    def from_json(cls, data: bytes) -> DirectResult:
        fields = read_object(data)
        return cls(
            text(fields, "consumeResult"),
            text(fields, "remark"),
            integer(fields, "spentTimeMills"),
            boolean(fields, "order"),
            boolean(fields, "autoCommit", True),
        )
