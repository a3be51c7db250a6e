"""Messages of topics and queues as events: CloudEvents of the shape that EventBridge gives them.

    of a topic    {"type": "mq:Topic:SendMessage", "subject": "acs:mq:*:*:<topic>", "partitionkey": …, "data": {
                   "topic", "queueId", "queueOffset", "bornTime", "storeTime", "systemProperties": {"KEYS", "TAGS",
                   "UNIQ_KEY", …}, "userProperties": {…}, "body"}}
    of a queue    {"type": "mns:Queue:SendMessage", "subject": "acs:mns:*:*:queues/<queue>", "data": {"queue",
                   "messageId", "enqueueTime", "firstDequeueTime", "dequeueCount", "priority", "body", "messageBody"}}

Times are epoch ms. The `id` of an event is that of its message, so what comes twice can be told. `partitionkey` (the
partitioning extension of CloudEvents) names what keeps its order: the message's sharding key, else the queue of the
topic that it stood in. Queues of the queue service have no order, and their events no such key.

Bodies are written as the task's `format` says:

    text          a text; a body that is none in UTF-8 is a fault
    json          what the JSON stands for; a body that is none is a fault
    binary        Base64

An event with a fault has it, as a sentence, in `gantryfault`, and its body as text or Base64: it is not delivered
(`analytics.inflow.delivery`).
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from analytics.inflow.delivery import FAULT, PARTITION_KEY
from analytics.inflow.transform import Event
from brokercore.client import SYSTEM_NAMES, StoredMessage
from brokercore.names import wrap
from brokercore.smq.client import Delivered

TEXT, JSON, BINARY = "text", "json", "binary"
FORMATS = (TEXT, JSON, BINARY)
"""How bodies may be written; the first is that of a document that says none."""
LARGEST_BODY = 16 << 20
"""Bytes that a packed body may unpack to: of more no message can be made."""
_SHARDING_KEY = "__SHARDINGKEY"
_INSTANCE = "INSTANCE_ID"


class _Bad(Exception):  # noqa: N818
    """A body is not of the format; the message is a sentence."""


@dataclass(frozen=True)
class TopicEvents:
    """Makes events of the messages of a topic, which is named without its instance."""

    topic: str
    namespace: str = ""
    format: str = TEXT

    def event(self, message: StoredMessage, broker: str) -> Event:
        """The event of a message that stood in a queue of this broker."""
        system = {name: value for name, value in message.properties.items() if name in SYSTEM_NAMES}
        if self.namespace:
            system.setdefault(_INSTANCE, self.namespace)
        place = f"{broker}:{message.queue_id}"
        found: Event = {
            "specversion": "1.0",
            "id": message.unique_id or message.offset_message_id,
            "source": "acs:mq",
            "type": "mq:Topic:SendMessage",
            "subject": f"acs:mq:*:*:{wrap(self.namespace, self.topic)}",
            "datacontenttype": "application/json; charset=utf-8",
            "time": _time(message.born_timestamp),
            PARTITION_KEY: message.properties.get(_SHARDING_KEY) or place,
        }
        data: dict[str, Any] = {
            "topic": self.topic,
            "brokerName": broker,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "bornTime": message.born_timestamp,
            "storeTime": message.store_timestamp,
            "reconsumeTimes": message.reconsume_times,
            "systemProperties": system,
            "userProperties": {name: value for name, value in message.properties.items() if name not in system},
        }
        try:
            body = message.decoded_body(LARGEST_BODY)
        except ValueError as error:
            data["body"] = _base64(message.body)
            return found | {"data": data, FAULT: f"The body of the message cannot be unpacked: {error}"}
        return _with_body(found, data, body, self.format)


@dataclass(frozen=True)
class QueueEvents:
    """Makes events of the messages of a queue. With `unwraps` bodies are Base64 of what the format is about."""

    queue: str
    format: str = TEXT
    unwraps: bool = False

    def event(self, message: Delivered) -> Event:
        """The event of a message."""
        found: Event = {
            "specversion": "1.0",
            "id": message.id,
            "source": "acs:mns",
            "type": "mns:Queue:SendMessage",
            "subject": f"acs:mns:*:*:queues/{self.queue}",
            "datacontenttype": "application/json; charset=utf-8",
            "time": _time(message.enqueued_ms),
        }
        data: dict[str, Any] = {
            "queue": self.queue,
            "messageId": message.id,
            "enqueueTime": message.enqueued_ms,
            "firstDequeueTime": message.first_ms,
            "dequeueCount": message.count,
            "priority": message.priority,
        }
        body = message.body
        if self.unwraps:
            try:
                body = base64.b64decode(body, validate=True)
            except binascii.Error:
                data["body"] = body.decode("utf-8", "replace")
                return found | {"data": data, FAULT: "The body of the message is no Base64."}
        made = _with_body(found, data, body, self.format)
        data["messageBody"] = data["body"]  # what the vendor's events call it
        return made


def _with_body(found: Event, data: dict[str, Any], body: bytes, written: str) -> Event:
    try:
        data["body"] = _READERS[written](body)
    except _Bad as error:
        try:
            data["body"] = body.decode()
        except UnicodeDecodeError:
            data["body"] = _base64(body)
        return found | {"data": data, FAULT: str(error)}
    return found | {"data": data}


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _Bad(f"The body of the message is no text in UTF-8: {error}.") from None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _Bad(f"The body of the message is no JSON: {error}.") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _base64(body: bytes) -> str:
    return base64.b64encode(body).decode()


_READERS = {TEXT: _text, JSON: _json, BINARY: _base64}


def _time(epoch_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # producers tell what they like
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
