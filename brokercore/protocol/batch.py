"""Batch bodies: many messages of one topic and queue in one send request (SEND_BATCH_MESSAGE)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from brokercore.protocol.errors import MessageFormatError

_HEAD = struct.Struct(">iiiii")
_LENGTH = struct.Struct(">h")


class BatchMessage(NamedTuple):
    """One message of a batch; `properties` is its encoded property string."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The body of a batch request."""
    parts: list[bytes] = []
    for flag, body, properties in messages:
        size = _HEAD.size + len(body) + 2 + len(properties)
        parts += (_HEAD.pack(size, 0, 0, flag, len(body)), body, _LENGTH.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(body: bytes) -> list[tuple[int, bytes, bytes]]:
    """The messages of a batch request as the fields of BatchMessage. Raises MessageFormatError."""
    return list(iterate_batch(body))


def iterate_batch(body: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The same, one by one: there may be very many. Raises MessageFormatError where it comes to what is wrong."""
    count, start, total, head_size = 0, 0, len(body), _HEAD.size
    while start < total:
        try:
            size, _magic, _crc, flag, body_size = _HEAD.unpack_from(body, start)
            body_start = start + head_size
            body_end = body_start + body_size
            if body_size < 0 or body_end > total:
                raise MessageFormatError("a body of the batch is longer than the batch")
            (properties_size,) = _LENGTH.unpack_from(body, body_end)
        except struct.error as error:
            raise MessageFormatError(f"malformed batch: {error}") from error
        end = body_end + 2 + properties_size
        if properties_size < 0 or size != end - start or end > total:
            raise MessageFormatError(f"message {count} of the batch has a wrong size")
        yield flag, body[body_start:body_end], body[body_end + 2 : end]
        start = end
        count += 1
