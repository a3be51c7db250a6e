"""Compressed bodies: zlib both ways; LZ4 and ZSTD are read when pyarrow is installed. Always with a size limit."""

from __future__ import annotations

import importlib
import zlib

from brokercore.protocol.errors import DecompressionError

MAX_BODY = 32 * 1024 * 1024
"""Largest body in bytes that reading may unpack: a broker takes 4 MiB, so this is roomy and still no bomb."""

COMPRESS_FROM = 4096
"""Java clients compress bodies of this many bytes and more."""

ZLIB, LZ4, ZSTD = 3, 1, 2
"""Values of sysFlag bits 8-10; 0 means zlib as well."""

_NAMES = {0: "zlib", ZLIB: "zlib", LZ4: "lz4", ZSTD: "zstd"}
_ZLIB_LEVEL = 5


def compress(body: bytes) -> bytes:
    """The body as a zlib stream at the level Java clients use."""
    return zlib.compress(body, _ZLIB_LEVEL)


def decompress(body: bytes, kind: int = ZLIB, limit: int = MAX_BODY) -> bytes:
    """Unpack a body. Raises DecompressionError when it is broken, above `limit` bytes, or cannot be read here."""
    name = _NAMES.get(kind)
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
