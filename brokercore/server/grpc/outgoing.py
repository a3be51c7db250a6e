"""Messages that a gRPC client gets: from a stored frame to the protocol's form."""

from __future__ import annotations

import hashlib

from brokercore.protocol import properties as names
from brokercore.protocol.errors import DecompressionError
from brokercore.protocol.grpc.messaging_pb2 import (
    DeadLetterQueue,
    Digest,
    DigestType,
    Encoding,
    Message,
    MessageType,
    SystemProperties,
)
from brokercore.protocol.message import StoredMessage
from brokercore.server.delays import is_delayed
from brokercore.server.grpc.incoming import SYSTEM_NAMES, TRACE_CONTEXT
from brokercore.server.grpc.names import resource_of
from brokercore.server.storage.topics import DEAD_LETTER_PREFIX


def build_message(stored: StoredMessage, space: str, receipt_handle: str = "", invisible_ms: int = 0) -> Message:
    """A message for a client that names topics in `space`. A body that cannot be unpacked is given as it is."""
    try:
        body = stored.decoded_body()
    except DecompressionError:
        body = stored.body
    return Message(
        topic=resource_of(stored.topic, space),
        user_properties={name: value for name, value in stored.properties.items() if name not in SYSTEM_NAMES},
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
    if TRACE_CONTEXT in given:
        found.trace_context = given[TRACE_CONTEXT]
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
