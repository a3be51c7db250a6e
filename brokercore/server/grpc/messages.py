"""Topics, groups and messages between the protocol's form and the broker's, both ways."""

from __future__ import annotations

import hashlib
import re
import time
import unicodedata
import zlib
from collections.abc import Callable
from typing import NamedTuple

from brokercore.names import DEAD_LETTER_PREFIX, SYSTEM_GROUPS
from brokercore.protocol import properties as names
from brokercore.protocol.errors import DecompressionError
from brokercore.protocol.grpc.messaging_pb2 import (
    Code,
    DeadLetterQueue,
    Digest,
    DigestType,
    Encoding,
    Message,
    MessageType,
    Resource,
    SystemProperties,
)
from brokercore.protocol.message import TRANSACTION_PREPARED, StoredMessage
from brokercore.protocol.properties import MAX_PROPERTIES
from brokercore.server.delivery.delayed_delivery import MAX_DELAY_MS, is_delayed
from brokercore.server.delivery.incoming import MAX_BODY
from brokercore.server.grpc.call import Fault
from brokercore.server.storage.topics import is_kept_topic

MAX_TOPIC, MAX_GROUP = 127, 255
_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_WORDS = "letters, digits, -, _, % and |"

MAX_MESSAGE_GROUP = 64
"""Longest message group in bytes, as the official proxy has it."""

MAX_RECOVERY_SECONDS = 86_400 * 3
"""Latest first check of a half message."""

MAX_USER_PROPERTIES = 128
MAX_USER_BYTES = 16 << 10
"""Bytes of the names and values of user properties with the tag and the keys. Both limits are those of the proxy of
Apache RocketMQ (userPropertyMaxNum, maxUserPropertySize); remoting clients may fill `MAX_PROPERTIES`."""

_ROOM = 256
"""Bytes of properties that the broker may add."""

_DIGESTS: dict[int, Callable[[bytes], str]] = {
    DigestType.CRC32: lambda body: f"{zlib.crc32(body):08X}",
    DigestType.MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest().upper(),
    DigestType.SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest().upper(),
}


def topic_name(resource: Resource) -> str:
    """The topic's name at this broker. Raises Fault."""
    name = physical(resource)
    if not _ALLOWED.fullmatch(name) or len(name) > MAX_TOPIC:
        raise Fault(Code.ILLEGAL_TOPIC, f"the topic {name[:MAX_TOPIC]!r} is not 1 to {MAX_TOPIC} of {_WORDS}")
    if is_kept_topic(name):
        raise Fault(Code.ILLEGAL_TOPIC, f"{name} is a topic of the broker's own")
    return name


def group_name(resource: Resource) -> str:
    """The consumer group's name at this broker. Raises Fault."""
    name = physical(resource)
    if not _ALLOWED.fullmatch(name) or len(name) > MAX_GROUP:
        raise Fault(Code.ILLEGAL_CONSUMER_GROUP, f"the group {name[:MAX_GROUP]!r} is not 1 to {MAX_GROUP} of {_WORDS}")
    if name in SYSTEM_GROUPS:
        raise Fault(Code.ILLEGAL_CONSUMER_GROUP, f"{name} is a group of the broker's own")
    return name


def physical(resource: Resource) -> str:
    """The name at this broker, unchecked."""
    space = resource.resource_namespace
    return f"{space}%{resource.name}" if space and resource.name else resource.name


def resource_of(name: str, space: str) -> Resource:
    """A topic as a client that works in namespace `space` names it; one without gets the whole name, as it asked."""
    if space and name.startswith(f"{space}%"):
        return Resource(resource_namespace=space, name=name[len(space) + 1 :])
    return Resource(name=name)


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
    _check_size(message)
    found = dict(message.user_properties) | {names.UNIQUE_KEY: system.message_id}
    found |= {
        names.TAGS: system.tag,
        names.KEYS: " ".join(system.keys),
        names.SHARDING_KEY: system.message_group,
        names.TRACE_CONTEXT: system.trace_context,
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
    count = len(message.user_properties)
    if count > MAX_USER_PROPERTIES:
        sentence = f"the message has {count} user properties; allowed are {MAX_USER_PROPERTIES}"
        raise Fault(Code.MESSAGE_PROPERTIES_TOO_LARGE, sentence)
    for name, value in message.user_properties.items():
        if name in names.SYSTEM_NAMES:
            raise Fault(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name} is the broker's own")
        if not _clean(name) or not _clean(value) or not name:
            raise Fault(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name[:64]!r} has control characters")


def _check_size(message: Message) -> None:
    system, given = message.system_properties, message.user_properties
    texts = [*given.keys(), *given.values(), *system.keys, system.tag]
    size = sum([len(text.encode()) for text in texts])
    if size > MAX_USER_BYTES:
        sentence = f"user properties, tag and keys have {size} bytes; allowed are {MAX_USER_BYTES}"
        raise Fault(Code.MESSAGE_PROPERTIES_TOO_LARGE, sentence)


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


def build_message(stored: StoredMessage, space: str, receipt_handle: str = "", invisible_ms: int = 0) -> Message:
    """A message for a client that names topics in `space`. A body that cannot be unpacked is given as it is."""
    try:
        body = stored.decoded_body()
    except DecompressionError:
        body = stored.body
    return Message(
        topic=resource_of(stored.topic, space),
        user_properties={name: value for name, value in stored.properties.items() if name not in names.SYSTEM_NAMES},
        system_properties=_system_properties(stored, body, receipt_handle, invisible_ms),
        body=body,
    )


def _system_properties(stored: StoredMessage, body: bytes, receipt_handle: str, invisible_ms: int) -> SystemProperties:
    given = stored.properties
    found = SystemProperties(
        keys=stored.keys.split(),
        message_id=stored.unique_id or stored.offset_message_id,
        body_digest=Digest(type=DigestType.MD5, checksum=hashlib.md5(body, usedforsecurity=False).hexdigest().upper()),
        body_encoding=Encoding.IDENTITY,
        message_type=_message_type(given),
        born_host=_address(stored.born_host),
        store_host=_address(stored.store_host),
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
    )
    found.born_timestamp.FromMilliseconds(stored.born_timestamp)
    found.store_timestamp.FromMilliseconds(stored.store_timestamp)
    if stored.tags:
        found.tag = stored.tags
    if names.SHARDING_KEY in given:
        found.message_group = given[names.SHARDING_KEY]
    if names.TRACE_CONTEXT in given:
        found.trace_context = given[names.TRACE_CONTEXT]
    deliver_ms = given.get(names.TIMER_DELIVER_MS) or given.get(names.START_DELIVER_TIME) or ""
    if deliver_ms.isascii() and deliver_ms.isdecimal() and len(deliver_ms) < 16:
        found.delivery_timestamp.FromMilliseconds(int(deliver_ms))
    if receipt_handle:
        found.receipt_handle = receipt_handle
        found.invisible_duration.FromMilliseconds(invisible_ms)
    if stored.topic.startswith(DEAD_LETTER_PREFIX) and names.RETRY_TOPIC in given:
        found.dead_letter_queue.CopyFrom(
            DeadLetterQueue(topic=given[names.RETRY_TOPIC], message_id=given.get(names.ORIGIN_MESSAGE_ID, ""))
        )
    return found


def _message_type(given: dict[str, str]) -> MessageType:
    if given.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if is_delayed(given):
        return MessageType.DELAY
    return MessageType.FIFO if names.SHARDING_KEY in given else MessageType.NORMAL


def _address(host: tuple[str, int]) -> str:
    return f"{host[0]}:{host[1]}"


def transaction_id(offset_message_id: str, queue_offset: str) -> str:
    """Where a half message is: so a restarted broker knows it too, and so does whoever was asked about it."""
    return f"{offset_message_id}-{queue_offset}"
