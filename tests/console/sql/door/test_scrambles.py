"""The two password methods."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from console.sql.door.scrambles import CACHING_SHA2, METHODS, NATIVE, NOBODY, DoubleHashes, matches
from tests.support.sql_door import native_scramble

NONCE = b"01234567890123456789"


def caching_scramble(password: str, nonce: bytes) -> bytes:
    once = hashlib.sha256(password.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


@given(st.text(min_size=1), st.text(min_size=1))
def test_only_the_password_opens(password: str, other: str) -> None:
    hashes = DoubleHashes.of(password)
    for method, scramble in ((NATIVE, native_scramble), (CACHING_SHA2, caching_scramble)):
        assert matches(method, scramble(password, NONCE), NONCE, hashes)
        assert matches(method, scramble(other, NONCE), NONCE, hashes) == (password == other)
        assert not matches(method, scramble(password, NONCE), NONCE[::-1], hashes)


@given(st.binary(max_size=64))
def test_no_scramble_opens_for_nobody(scramble: bytes) -> None:
    for method in (*METHODS, "mysql_clear_password"):
        assert not matches(method, scramble, NONCE, NOBODY)


def test_the_hashes_are_not_printed() -> None:
    assert repr(DoubleHashes.of("x")) == "DoubleHashes()"
