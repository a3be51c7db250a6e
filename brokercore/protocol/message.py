"""Messages as bytes: the stored frame, the body of a batch, and bodies that are compressed.

A stored frame is what a broker keeps and pull, query and view responses carry, back to back. A batch body holds many
messages of one topic and queue in one send request (SEND_BATCH_MESSAGE). Bodies are
compressed by zlib both ways; LZ4 and ZSTD are read when pyarrow is installed, and always with a size limit.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from brokercore.protocol import properties as names
from brokercore.protocol.errors import DecompressionError, MessageFormatError
from brokercore.protocol.ids import offset_message_id, pack_host, unpack_host
from brokercore.protocol.properties import MAX_PROPERTIES, decode_properties, encode_properties

MAX_BODY = 32 * 1024 * 1024
"""Largest body in bytes that reading may unpack: a broker takes 4 MiB, so this is roomy and still no bomb."""

COMPRESS_FROM = 4096
"""Java clients compress bodies of this many bytes and more."""

ZLIB, LZ4, ZSTD = 3, 1, 2
"""Values of sysFlag bits 8-10; 0 means zlib as well."""

_COMPRESSIONS = {0: "zlib", ZLIB: "zlib", LZ4: "lz4", ZSTD: "zstd"}
_ZLIB_LEVEL = 5

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
"""V2 has a two-byte topic length, for topics above 127 bytes."""

COMPRESSED = 0x1
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK = 0x4, 0x8, 0xC
BORN_HOST_IPV6, STORE_HOST_IPV6 = 0x10, 0x20
COMPRESSION_SHIFT, COMPRESSION_MASK = 8, 0x7
COMPRESSED_ZLIB = 0x301
"""sysFlag of a zlib body as Java 5.x sends it: the bit and the type."""

_FIXED = struct.Struct(">iiiiiqqiq8sq8siqi")
_TOPIC_V1, _TOPIC_V2, _LENGTH = struct.Struct(">B"), struct.Struct(">h"), struct.Struct(">h")
_HEAD = struct.Struct(">iiiiiqqiq")
_LONG = struct.Struct(">q")
_TAIL = struct.Struct(">iqi")
_BORN_HOST_AT = 48
_BATCH_HEAD, _BATCH_LENGTH = struct.Struct(">iiiii"), struct.Struct(">h")


@dataclass(slots=True)
class StoredMessage:
    """A message as stored: times are epoch milliseconds, hosts are (ip, port), `body` is as the producer sent it."""

    topic: str
    body: bytes = b""
    properties: dict[str, str] = field(default_factory=dict)
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: tuple[str, int] = ("0.0.0.0", 0)  # noqa: S104 (an unknown peer, nothing is bound)
    store_timestamp: int = 0
    store_host: tuple[str, int] = ("0.0.0.0", 0)  # noqa: S104
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    magic: int = MAGIC_V1
    total_size: int = 0

    @property
    def unique_id(self) -> str:
        """The id the producer made ("" when there is none); what vendors call the message id."""
        return self.properties.get(names.UNIQUE_KEY, "")

    @property
    def keys(self) -> str:
        """Business keys, separated by spaces."""
        return self.properties.get(names.KEYS, "")

    @property
    def tags(self) -> str:
        """The tag."""
        return self.properties.get(names.TAGS, "")

    @property
    def offset_message_id(self) -> str:
        """The id that names the broker and the place of the message on it."""
        return offset_message_id(*self.store_host, self.physical_offset)

    def decoded_body(self, limit: int = MAX_BODY) -> bytes:
        """The body, unpacked when it is compressed. Raises DecompressionError, also above `limit` bytes."""
        if not self.sys_flag & COMPRESSED:
            return self.body
        return decompress(self.body, (self.sys_flag >> COMPRESSION_SHIFT) & COMPRESSION_MASK, limit)

    def encode(self) -> bytes:
        """The frame of this message, with IPv4 hosts."""
        return encode_stored(
            self.topic.encode(),
            self.body,
            encode_properties(self.properties),
            queue_id=self.queue_id,
            flag=self.flag,
            queue_offset=self.queue_offset,
            physical_offset=self.physical_offset,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_timestamp,
            born_host=pack_host(*self.born_host),
            store_timestamp=self.store_timestamp,
            store_host=pack_host(*self.store_host),
            reconsume_times=self.reconsume_times,
            prepared_transaction_offset=self.prepared_transaction_offset,
        )

    def copy(self, **changes: object) -> StoredMessage:
        """This message with other fields; its properties are a dict of its own."""
        changes.setdefault("properties", dict(self.properties))
        return replace(self, **changes)  # type: ignore[arg-type]


def encode_stored(  # noqa: PLR0917 (one call a message: keywords cost time there)
    topic: bytes,
    body: bytes,
    properties: bytes,
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: bytes = bytes(8),
    store_timestamp: int = 0,
    store_host: bytes = bytes(8),
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """A stored frame. `topic` and `properties` are UTF-8; hosts come from `ids.pack_host`.

    Raises MessageFormatError for a topic or properties above 32767 bytes.
    """
    topic_size, properties_size = len(topic), len(properties)
    if topic_size > MAX_PROPERTIES or properties_size > MAX_PROPERTIES:
        raise MessageFormatError(f"topic or properties are longer than {MAX_PROPERTIES} bytes")
    magic, topic_length = (MAGIC_V1, _TOPIC_V1) if topic_size <= 127 else (MAGIC_V2, _TOPIC_V2)
    head = _FIXED.pack(
        _FIXED.size + len(body) + topic_length.size + topic_size + 2 + properties_size,
        magic,
        zlib.crc32(body) & 0x7FFFFFFF,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag & ~(BORN_HOST_IPV6 | STORE_HOST_IPV6),
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        len(body),
    )
    lengths = topic_length.pack(topic_size), _LENGTH.pack(properties_size)
    return b"".join((head, body, lengths[0], topic, lengths[1], properties))


def frame_size(buffer: bytes | bytearray | memoryview, start: int = 0) -> int:
    """Size in bytes of the stored frame at `start`."""
    return int.from_bytes(buffer[start : start + 4], "big")


def decode_stored(buffer: bytes | bytearray | memoryview) -> list[StoredMessage]:
    """All messages of concatenated frames. Raises MessageFormatError at the first malformed one."""
    data = bytes(buffer)
    messages: list[StoredMessage] = []
    start = 0
    while start < len(data):
        if len(data) - start < _FIXED.size:
            raise MessageFormatError(f"{len(data) - start} bytes at the end are no message")
        size = frame_size(data, start)
        if size < _FIXED.size or start + size > len(data):
            raise MessageFormatError(f"message size {size} does not fit into {len(data) - start} bytes")
        try:
            messages.append(_decode_one(data, start, start + size))
        except (struct.error, UnicodeDecodeError) as error:
            raise MessageFormatError(f"malformed message: {error}") from error
        start += size
    return messages


def _decode_one(data: bytes, start: int, end: int) -> StoredMessage:
    size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born = _HEAD.unpack_from(data, start)
    if magic not in {MAGIC_V1, MAGIC_V2}:
        raise MessageFormatError(f"magic {magic & 0xFFFFFFFF:#x} is not one of a stored message")
    at = start + _BORN_HOST_AT
    born_host, at = _host(data, at, end, bool(sys_flag & BORN_HOST_IPV6))
    (stored,) = _LONG.unpack_from(data, at)
    store_host, at = _host(data, at + 8, end, bool(sys_flag & STORE_HOST_IPV6))
    reconsume_times, prepared, body_size = _TAIL.unpack_from(data, at)
    body, at = _slice(data, at + _TAIL.size, end, body_size)
    length = _TOPIC_V1 if magic == MAGIC_V1 else _TOPIC_V2
    topic, at = _slice(data, at + length.size, end, length.unpack_from(data, at)[0])
    text, at = _slice(data, at + 2, end, _LENGTH.unpack_from(data, at)[0])
    return StoredMessage(
        topic.decode(), body, decode_properties(text), queue_id, flag, queue_offset, physical_offset, sys_flag, born,
        born_host, stored, store_host, reconsume_times, prepared, crc, magic, size,
    )  # fmt: skip


def _slice(data: bytes, at: int, end: int, size: int) -> tuple[bytes, int]:
    if size < 0 or at + size > end:
        raise MessageFormatError(f"a field of {size} bytes is longer than its message")
    return data[at : at + size], at + size


def _host(data: bytes, at: int, end: int, ipv6: bool) -> tuple[tuple[str, int], int]:
    packed, after = _slice(data, at, end, 20 if ipv6 else 8)
    return unpack_host(packed), after


class BatchMessage(NamedTuple):
    """One message of a batch; `properties` is its encoded property string."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The body of a batch request."""
    parts: list[bytes] = []
    for flag, body, properties in messages:
        size = _BATCH_HEAD.size + len(body) + 2 + len(properties)
        parts += (_BATCH_HEAD.pack(size, 0, 0, flag, len(body)), body, _BATCH_LENGTH.pack(len(properties)), properties)
    return b"".join(parts)


def iterate_batch(body: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The messages of a batch request as the fields of BatchMessage, one by one: there may be very many.

    Raises MessageFormatError where it comes to what is wrong.
    """
    count, start, total, head_size = 0, 0, len(body), _BATCH_HEAD.size
    while start < total:
        try:
            size, _magic, _crc, flag, body_size = _BATCH_HEAD.unpack_from(body, start)
            body_start = start + head_size
            body_end = body_start + body_size
            if body_size < 0 or body_end > total:
                raise MessageFormatError("a body of the batch is longer than the batch")
            (properties_size,) = _BATCH_LENGTH.unpack_from(body, body_end)
        except struct.error as error:
            raise MessageFormatError(f"malformed batch: {error}") from error
        end = body_end + 2 + properties_size
        if properties_size < 0 or size != end - start or end > total:
            raise MessageFormatError(f"message {count} of the batch has a wrong size")
        yield flag, body[body_start:body_end], body[body_end + 2 : end]
        start = end
        count += 1


def compress(body: bytes) -> bytes:
    """The body as a zlib stream at the level Java clients use."""
    return zlib.compress(body, _ZLIB_LEVEL)


def decompress(body: bytes, kind: int = ZLIB, limit: int = MAX_BODY) -> bytes:
    """Unpack a body. Raises DecompressionError when it is broken, above `limit` bytes, or cannot be read here."""
    name = _COMPRESSIONS.get(kind)
    if name is None:
        raise DecompressionError(f"compression type {kind} is not known")
    if not body:
        raise DecompressionError(f"the body is empty, though it is said to be {name}-compressed")
    unpacked = _inflate(body, limit) if name == "zlib" else _unpack_with_arrow(body, name, limit)
    if len(unpacked) > limit:
        raise DecompressionError(f"the body unpacks to more than {limit} bytes")
    return unpacked


def _inflate(body: bytes, limit: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        unpacked = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise DecompressionError(f"the body is no zlib stream: {error}") from error
    if not reader.eof and len(unpacked) <= limit:
        raise DecompressionError("the zlib stream of the body is cut off")
    return unpacked


def _unpack_with_arrow(body: bytes, name: str, limit: int) -> bytes:
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError:
        raise DecompressionError(f"the body is {name}-compressed; reading that needs pyarrow") from None
    try:
        with arrow.CompressedInputStream(arrow.BufferReader(body), name) as reader:
            return bytes(reader.read(limit + 1))
    except (OSError, ValueError) as error:
        raise DecompressionError(f"the body is no {name} frame: {error}") from error
