"""Compressed bodies."""

from __future__ import annotations

import zlib

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import DecompressionError
from brokercore.protocol.message import LZ4, ZLIB, ZSTD, compress, decompress


@given(st.binary(max_size=2000))
def test_a_zlib_body_comes_back_as_it_was(body: bytes) -> None:
    assert decompress(compress(body)) == body
    assert decompress(zlib.compress(body), kind=0) == body


@pytest.mark.parametrize(("kind", "codec"), [(LZ4, "lz4"), (ZSTD, "zstd")])
def test_it_reads_lz4_and_zstd_frames(kind: int, codec: str) -> None:
    packed = pyarrow.compress(b"hello" * 1000, codec=codec, asbytes=True)
    assert decompress(packed, kind) == b"hello" * 1000
    with pytest.raises(DecompressionError, match="more than 100 bytes"):
        decompress(packed, kind, limit=100)
    with pytest.raises(DecompressionError, match=codec):
        decompress(packed[:-3], kind)


def test_a_bomb_is_refused_at_the_limit() -> None:
    with pytest.raises(DecompressionError, match="more than 1000000 bytes"):
        decompress(zlib.compress(bytes(200_000_000)), limit=1_000_000)


@pytest.mark.parametrize("kind", [ZLIB, LZ4, ZSTD, 7])
@pytest.mark.parametrize("body", [b"", b"not compressed", compress(b"cut off" * 100)[:-9]])
def test_it_refuses_broken_bodies(body: bytes, kind: int) -> None:
    with pytest.raises(DecompressionError):
        decompress(body, kind)
