"""TopicConfig and SubscriptionGroupConfig (requests 17, 18, 21, 351 and 200, 201, 352)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from brokercore.protocol.fastjson import boolean, dumps_with, integer, mapping, objects, read_object, text, texts

MAX_CONFIG = 8 << 10
"""Bytes of a topic's or group's configuration as JSON: all of it is kept in memory and in Redis."""

MESSAGE_TYPE_ATTRIBUTE = "message.type"
"""Attribute of a topic: NORMAL, FIFO, DELAY, TRANSACTION, MIXED or UNSPECIFIED."""


@dataclass(slots=True)
class TopicConfig:
    """A topic on one broker. `perm`: 4 read, 2 write, 1 inherit.

    `keeps_attributes` is False for what a broker told that keeps none, as those of RocketMQ 4 do: it has no message
    types then. That is not sent.
    """

    topic: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = 6
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    system_flag: int = 0
    filter_type: str = "SINGLE_TAG"
    keeps_attributes: bool = True

    @property
    def message_type(self) -> str:
        """The message type; a topic made without one is NORMAL."""
        return self.attributes.get(MESSAGE_TYPE_ATTRIBUTE, "NORMAL")

    @property
    def has_message_type(self) -> bool:
        """Whether it was made with a message type."""
        return MESSAGE_TYPE_ATTRIBUTE in self.attributes

    def to_dict(self) -> dict[str, Any]:
        return {
            "attributes": self.attributes,
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.topic,
            "topicSysFlag": self.system_flag,
            "writeQueueNums": self.write_queues,
        }

    def to_json(self) -> bytes:
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TopicConfig:
        return cls(
            text(data, "topicName"),
            integer(data, "readQueueNums", 8),
            integer(data, "writeQueueNums", 8),
            integer(data, "perm", 6),
            boolean(data, "order"),
            texts(data.get("attributes")),
            integer(data, "topicSysFlag"),
            text(data, "topicFilterType", "SINGLE_TAG"),
            "attributes" in data,
        )

    @classmethod
    def from_json(cls, data: bytes) -> TopicConfig:
        return cls.from_dict(read_object(data))


@dataclass(slots=True)
class DataVersion:
    """Version of a broker's table: counts changes, `timestamp` is the epoch ms of the last one."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0

    def to_dict(self) -> dict[str, int]:
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}


def topic_rows_to_json(rows: Mapping[str, bytes], version: DataVersion) -> bytes:
    """Answer of GET_ALL_TOPIC_CONFIG, of the JSON of each topic by its name."""
    plain = {
        "dataVersion": version.to_dict(),
        "mappingDataVersion": DataVersion().to_dict(),
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return dumps_with(plain, {"topicConfigTable": dumps_with({}, rows)})


def topic_table_from_json(data: bytes) -> dict[str, TopicConfig]:
    """Read the answer of GET_ALL_TOPIC_CONFIG."""
    table = mapping(read_object(data), "topicConfigTable")
    return {name: TopicConfig.from_dict(item) for name, item in table.items() if isinstance(item, dict)}


@dataclass(slots=True)
class GroupConfig:
    """A consumer group on one broker (SubscriptionGroupConfig).

    `orderly_by_subscriptions` is ours: a group that is not set to consume in order does so by itself once it subscribes
    to ordered topics only. It is said where it is False; Apache RocketMQ neither knows nor keeps it.
    """

    group: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    orderly_by_subscriptions: bool = True
    retry_queues: int = 1
    retry_max_times: int = 16
    consume_timeout_minutes: int = 15
    notify_consumers_changed: bool = True
    attributes: dict[str, str] = field(default_factory=dict)
    system_flag: int = 0
    broker_id: int = 0
    which_broker_when_slow: int = 1
    subscriptions: list[dict[str, Any]] | None = None

    def to_dict(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "attributes": self.attributes,
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_message_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minutes,
            "groupName": self.group,
            "groupRetryPolicy": {"type": "CUSTOMIZED"},
            "groupSysFlag": self.system_flag,
            "notifyConsumerIdsChangedEnable": self.notify_consumers_changed,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queues,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_slow,
        }
        if not self.orderly_by_subscriptions:
            config["orderlyBySubscriptions"] = False
        if self.subscriptions is not None:
            config["subscriptionDataSet"] = self.subscriptions
        return config

    def to_json(self) -> bytes:
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GroupConfig:
        return cls(
            text(data, "groupName"),
            boolean(data, "consumeEnable", True),
            boolean(data, "consumeFromMinEnable", True),
            boolean(data, "consumeBroadcastEnable", True),
            boolean(data, "consumeMessageOrderly"),
            boolean(data, "orderlyBySubscriptions", True),
            integer(data, "retryQueueNums", 1),
            integer(data, "retryMaxTimes", 16),
            integer(data, "consumeTimeoutMinute", 15),
            boolean(data, "notifyConsumerIdsChangedEnable", True),
            texts(data.get("attributes")),
            integer(data, "groupSysFlag"),
            integer(data, "brokerId"),
            integer(data, "whichBrokerWhenConsumeSlowly", 1),
            list(objects(data, "subscriptionDataSet")) if data.get("subscriptionDataSet") else None,
        )

    @classmethod
    def from_json(cls, data: bytes) -> GroupConfig:
        return cls.from_dict(read_object(data))


def group_rows_to_json(rows: Mapping[str, bytes], version: DataVersion) -> bytes:
    """Answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG, of the JSON of each group by its name."""
    plain = {"dataVersion": version.to_dict(), "forbiddenTable": {}}
    return dumps_with(plain, {"subscriptionGroupTable": dumps_with({}, rows)})


def group_table_from_json(data: bytes) -> dict[str, GroupConfig]:
    """Read the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
    table = mapping(read_object(data), "subscriptionGroupTable")
    return {name: GroupConfig.from_dict(item) for name, item in table.items() if isinstance(item, dict)}
