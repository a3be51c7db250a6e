"""HeartbeatData (request 34): who a client is, what it produces for and what it subscribes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from brokercore.protocol.bodies.reading import (
    boolean,
    integer,
    integers,
    objects,
    read_object,
    strings,
    text,
)
from brokercore.protocol.filters import parse_tags

CONSUME_ACTIVELY, CONSUME_PASSIVELY = "CONSUME_ACTIVELY", "CONSUME_PASSIVELY"
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
