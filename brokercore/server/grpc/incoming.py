"""Messages that a gRPC client sends: from the protocol's form to the fields of a send request."""

from __future__ import annotations

import hashlib
import time
import unicodedata
import zlib
from collections.abc import Callable
from typing import NamedTuple

from brokercore.protocol import properties as names
from brokercore.protocol.grpc.messaging_pb2 import (
    Code,
    DigestType,
    Encoding,
    Message,
    MessageType,
    SystemProperties,
)
from brokercore.protocol.message import TRANSACTION_PREPARED
from brokercore.protocol.properties import MAX_PROPERTIES
from brokercore.server.delays import MAX_DELAY_MS
from brokercore.server.grpc.status import Fault
from brokercore.server.incoming import MAX_BODY

MAX_MESSAGE_GROUP = 64
"""Longest message group in bytes, as the official proxy has it."""

MAX_RECOVERY_SECONDS = 86_400 * 3
"""Latest first check of a half message."""

TRACE_CONTEXT = "TRACE_CONTEXT"
_ROOM = 256
"""Bytes of properties that the broker may add."""

SYSTEM_NAMES = frozenset(
    {
        names.KEYS, names.TAGS, names.WAIT, names.UNIQUE_KEY, names.DELAY, names.TIMER_DELAY_SECONDS,
        names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.START_DELIVER_TIME, names.SHARDING_KEY, names.INSTANCE_ID,
        names.RETRY_TOPIC, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.ORIGIN_MESSAGE_ID, names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES, names.MIN_OFFSET, names.MAX_OFFSET, names.TRANSACTION_PREPARED,
        names.PRODUCER_GROUP, names.TRANSACTION_ID, names.TRANSACTION_CHECK_TIMES, names.CHECK_IMMUNITY_TIME,
        names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.MESSAGE_REGION, names.TRACE_SWITCH, names.CLUSTER,
        names.MESSAGE_TYPE, names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TIME_TO_LIVE, TRACE_CONTEXT,
        "BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "CONSUME_START_TIME", "POP_CK", "POP_CK_OFFSET",
        "1ST_POP_TIME", "DUP_INFO", "EXTEND_UNIQ_INFO", "ARRIVE_TIME", "PUSH_REPLY_TIME", "INNER_MULTI_QUEUE_OFFSET",
        "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL", "__BORNHOST", "BORN_TIMESTAMP", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#",
    }
)  # fmt: skip
"""Properties that are the broker's business: a user can set none of them, and is shown none (MessageConst)."""

_DIGESTS: dict[int, Callable[[bytes], str]] = {
    DigestType.CRC32: lambda body: f"{zlib.crc32(body):08X}",
    DigestType.MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest().upper(),
    DigestType.SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest().upper(),
}


class Outgoing(NamedTuple):
    """What a message becomes: the text of its properties, its body without compression, its flags and its group."""

    message_id: str
    properties: str
    body: bytes
    sys_flag: int
    born_ms: int
    message_group: str


def read_message(message: Message, topic: str) -> Outgoing:
    """Check a message and take it apart. Its producer group is its topic, as at the official proxy. Raises Fault."""
    system = message.system_properties
    body = _body(message)
    if not system.message_id.strip() or not _clean(system.message_id):
        raise Fault(Code.ILLEGAL_MESSAGE_ID, "the message has no id")
    _check_user_properties(message)
    _check_texts(system)
    found = dict(message.user_properties) | {names.UNIQUE_KEY: system.message_id}
    found |= {
        names.TAGS: system.tag,
        names.KEYS: " ".join(system.keys),
        names.SHARDING_KEY: system.message_group,
        TRACE_CONTEXT: system.trace_context,
    }
    found |= _of_kind(system, topic)
    text = "".join(f"{name}\x01{value}\x02" for name, value in found.items() if value)
    size = len(text.encode()) + _ROOM
    if size > MAX_PROPERTIES:
        raise Fault(
            Code.MESSAGE_PROPERTIES_TOO_LARGE, f"the properties have {size} bytes; allowed are {MAX_PROPERTIES}"
        )
    born_ms = system.born_timestamp.ToMilliseconds() or int(time.time() * 1000)
    prepared = TRANSACTION_PREPARED if names.TRANSACTION_PREPARED in found else 0
    return Outgoing(system.message_id, text, body, prepared, born_ms, system.message_group)


def _body(message: Message) -> bytes:
    """The body, unpacked: clients of every kind shall be able to read it."""
    system, body = message.system_properties, message.body
    if not body:
        raise Fault(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(body) > MAX_BODY:
        raise _too_large(f"{len(body)} bytes")
    digest = _DIGESTS.get(system.body_digest.type)
    if digest is not None and digest(body) != system.body_digest.checksum.upper():
        raise Fault(Code.MESSAGE_CORRUPTED, "the body does not fit to its digest")
    return _unpacked(body) if system.body_encoding == Encoding.GZIP else body


def _unpacked(body: bytes) -> bytes:
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        unpacked = reader.decompress(body, MAX_BODY + 1)
    except zlib.error as error:
        raise Fault(Code.MESSAGE_CORRUPTED, f"the body is no gzip stream: {error}") from error
    if len(unpacked) > MAX_BODY:
        raise _too_large("more, once it is unpacked")
    if not reader.eof or not unpacked:
        raise Fault(Code.MESSAGE_CORRUPTED, "the gzip stream of the body is cut off, or empty")
    return unpacked


def _too_large(size: str) -> Fault:
    return Fault(Code.MESSAGE_BODY_TOO_LARGE, f"the body has {size}; allowed are {MAX_BODY} bytes")


def _of_kind(system: SystemProperties, topic: str) -> dict[str, str]:
    """What the kind of message needs. The kind is what the client says; one without says it by its properties."""
    kind = system.message_type
    if kind in (MessageType.LITE, MessageType.PRIORITY):
        raise Fault(Code.UNSUPPORTED, f"{MessageType.Name(kind)} messages are not supported by this broker")
    if kind == MessageType.FIFO and not system.message_group:
        raise Fault(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a FIFO message has a message group")
    if kind == MessageType.DELAY and not system.HasField("delivery_timestamp"):
        raise Fault(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a DELAY message has a delivery timestamp")
    found = {names.PRODUCER_GROUP: topic}
    if system.HasField("delivery_timestamp"):
        deliver_ms = system.delivery_timestamp.ToMilliseconds()
        if deliver_ms > time.time() * 1000 + MAX_DELAY_MS:
            raise Fault(Code.ILLEGAL_DELIVERY_TIME, "the delivery time is more than 40 days ahead")
        found[names.TIMER_DELIVER_MS] = str(deliver_ms)
    if kind == MessageType.TRANSACTION:
        found[names.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.ToSeconds()
            if seconds > MAX_RECOVERY_SECONDS:
                raise Fault(Code.BAD_REQUEST, f"the recovery duration is {seconds} s; at most {MAX_RECOVERY_SECONDS}")
            found[names.CHECK_IMMUNITY_TIME] = str(max(1, seconds))
    return found


def _check_user_properties(message: Message) -> None:
    for name, value in message.user_properties.items():
        if name in SYSTEM_NAMES:
            raise Fault(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name} is the broker's own")
        if not _clean(name) or not _clean(value) or not name:
            raise Fault(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name[:64]!r} has control characters")


def _check_texts(system: SystemProperties) -> None:
    tag, group = system.tag, system.message_group
    if tag and (not tag.strip() or "|" in tag or not _clean(tag)):
        raise Fault(Code.ILLEGAL_MESSAGE_TAG, "a tag is not blank, and has neither | nor control characters")
    if not all(_clean(key) and (key.strip() or not key) for key in system.keys):
        raise Fault(Code.ILLEGAL_MESSAGE_KEY, "a key is not blank, and has no control characters")
    if group and (not group.strip() or not _clean(group) or len(group.encode()) > MAX_MESSAGE_GROUP):
        raise Fault(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"a message group is not blank, has no control characters and at most {MAX_MESSAGE_GROUP} bytes",
        )
    if not _clean(system.trace_context):
        raise Fault(Code.BAD_REQUEST, "the trace context has control characters")


def _clean(text: str) -> bool:
    return text.isprintable() or not any(unicodedata.category(sign) == "Cc" for sign in text)
