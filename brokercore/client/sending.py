"""SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: from a message to the request, from the answer to the result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from brokercore.client.errors import InvalidMessage
from brokercore.client.messages import Message, SendResult, SendStatus
from brokercore.client.namespace import wrap
from brokercore.client.session import Call, check, integer
from brokercore.protocol import properties as names
from brokercore.protocol.batch import BatchMessage, encode_batch
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.compression import COMPRESS_FROM, compress
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.ids import new_unique_id
from brokercore.protocol.message import COMPRESSED_ZLIB, TRANSACTION_PREPARED
from brokercore.protocol.message_queue import MessageQueue
from brokercore.protocol.properties import encode_properties

MAX_BODY = 4 * 1024 * 1024
"""Largest body in bytes that brokers take."""

MAX_TOPIC = 127
MAX_DELAY_LEVEL = 18

_STATUS = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
}
_TAKEN = frozenset(_STATUS)
_RESERVED = frozenset(
    {names.KEYS, names.TAGS, names.WAIT, names.UNIQUE_KEY, names.DELAY, names.RETRY_TOPIC, names.REAL_TOPIC,
     names.REAL_QUEUE_ID, names.ORIGIN_MESSAGE_ID, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP,
     names.TRANSACTION_ID}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message ready for the wire; only its queue is open. `message_id` is its unique id."""

    topic: str
    message_id: str
    body: bytes
    properties: str
    sys_flag: int
    born_timestamp: int
    code: RequestCode = RequestCode.SEND_MESSAGE_V2


def prepare(
    message: Message,
    namespace: str,
    group: str,
    *,
    sharding_key: str | None = None,
    half: bool = False,
    compressed: bool = True,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> Prepared:
    """Check and encode a message. `half` marks the first phase of a transaction, `extra` are the client's properties.

    Raises InvalidMessage.
    """
    topic = wrap(namespace, message.topic)
    if not topic or len(topic.encode()) > MAX_TOPIC:
        raise InvalidMessage(f"The topic name {topic[:80]!r} must have 1 to {MAX_TOPIC} bytes.")
    if not message.body or len(message.body) > MAX_BODY:
        raise InvalidMessage(f"The body has {len(message.body)} bytes; 1 to {MAX_BODY} are allowed.")
    message_id = new_unique_id()
    properties = {**_properties(message, message_id, namespace, sharding_key), **extra}
    sys_flag = 0
    if half:
        properties |= {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: group}
        sys_flag |= TRANSACTION_PREPARED
    encoded = _encoded(properties)
    body = message.body
    if compressed and len(body) >= COMPRESS_FROM:
        smaller = compress(body)
        if len(smaller) < len(body):
            body, sys_flag = smaller, sys_flag | COMPRESSED_ZLIB
    return Prepared(topic, message_id, body, encoded, sys_flag, int(time.time() * 1000))


def prepare_batch(messages: Sequence[Message], namespace: str, group: str) -> tuple[Prepared, list[str]]:
    """Check and encode messages of one topic as one request; also the unique id of each. Raises InvalidMessage."""
    topics = {message.topic for message in messages}
    if len(topics) != 1:
        raise InvalidMessage(f"A batch has messages of one topic, not of {len(topics)}.")
    if any(message.delay_level or message.deliver_at_ms is not None for message in messages):
        raise InvalidMessage("A batch takes no delayed messages; send them one by one.")
    ids, parts = [], []
    for message in messages:
        single = prepare(message, namespace, group, compressed=False)
        ids.append(single.message_id)
        parts.append(BatchMessage(0, single.body, single.properties.encode()))
    body = encode_batch(parts)
    if len(body) > MAX_BODY:
        raise InvalidMessage(f"The batch has {len(body)} bytes; at most {MAX_BODY} are allowed.")
    # No unique id of the batch's own: Apache RocketMQ would give it to every message of the batch.
    properties = _encoded({names.WAIT: "true"} | ({names.INSTANCE_ID: namespace} if namespace else {}))
    batch = Prepared(
        wrap(namespace, messages[0].topic), "", body, properties, 0, int(time.time() * 1000),
        RequestCode.SEND_BATCH_MESSAGE,
    )  # fmt: skip
    return batch, ids


def batch_results(result: SendResult, ids: Sequence[str]) -> list[SendResult]:
    """The result of each message of a batch: they lie one behind the other."""
    offset_ids = result.offset_message_id.split(",")
    return [
        replace(
            result,
            message_id=message_id,
            offset_message_id=offset_ids[number] if len(offset_ids) == len(ids) else "",
            queue_offset=result.queue_offset + number,
        )
        for number, message_id in enumerate(ids)
    ]


def send_call(prepared: Prepared, group: str, queue: MessageQueue, address: str) -> Call:
    """The request that sends it to a queue."""
    ext = {
        "a": group,
        "b": prepared.topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue.queue_id),
        "f": str(prepared.sys_flag),
        "g": str(prepared.born_timestamp),
        "h": "0",
        "i": prepared.properties,
        "j": "0",
        "k": "false",
        "m": "true" if prepared.code is RequestCode.SEND_BATCH_MESSAGE else "false",
        "n": queue.broker_name,
    }
    return Call(address, prepared.code, ext, prepared.body)


def read_send(response: Command, prepared: Prepared, queue: MessageQueue, address: str) -> SendResult:
    """The result. Raises BrokerError for codes that are not "stored", BadResponse."""
    check(response, address, _TAKEN)
    ext = response.ext
    return SendResult(
        message_id=prepared.message_id,
        offset_message_id=ext.get("msgId", ""),
        queue=queue._replace(queue_id=integer(response, "queueId", address)),
        queue_offset=integer(response, "queueOffset", address),
        status=_STATUS[response.code],
        transaction_id=ext.get("transactionId", ""),
        recall_handle=ext.get("recallHandle", ""),
    )


def _encoded(properties: Mapping[str, str]) -> str:
    try:
        return encode_properties(properties).decode()
    except MessageFormatError as error:
        raise InvalidMessage(f"The properties are not acceptable: {error}.") from error


def _properties(message: Message, message_id: str, namespace: str, sharding_key: str | None) -> dict[str, str]:
    reserved = _RESERVED.intersection(message.properties)
    if reserved:
        raise InvalidMessage(f"The property {min(reserved)} is set by the client; use another name.")
    properties = dict(message.properties)
    properties |= {names.KEYS: message.keys, names.TAGS: message.tags, names.UNIQUE_KEY: message_id}
    properties[names.WAIT] = "true"
    if namespace:
        properties[names.INSTANCE_ID] = namespace
    if sharding_key is not None:
        properties[names.SHARDING_KEY] = sharding_key
    if message.delay_level and message.deliver_at_ms is not None:
        raise InvalidMessage("A message has a delay level or a delivery time, not both.")
    if not 0 <= message.delay_level <= MAX_DELAY_LEVEL:
        raise InvalidMessage(f"The delay level is 1 to {MAX_DELAY_LEVEL}, not {message.delay_level}.")
    if message.delay_level:
        properties[names.DELAY] = str(message.delay_level)
    if message.deliver_at_ms is not None:
        # The cloud's clients set the first, Apache brokers from 5.0 on know the second.
        properties[names.START_DELIVER_TIME] = str(message.deliver_at_ms)
        properties[names.TIMER_DELIVER_MS] = str(message.deliver_at_ms)
    return properties
