"""The two password methods of MySQL, checked against the hash of the hash of the password. Pure.

mysql_native_password   SHA1(p) ⊕ SHA1(nonce + SHA1(SHA1(p)))
caching_sha2_password   SHA256(p) ⊕ SHA256(SHA256(SHA256(p)) + nonce)      (its fast path)
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"
METHODS = (CACHING_SHA2, NATIVE)


@dataclass(frozen=True, slots=True)
class DoubleHashes:
    """What a server needs to check either method; the password cannot be read back from it."""

    sha1_of_sha1: bytes = field(repr=False)
    sha256_of_sha256: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> DoubleHashes:
        """The hashes of a password that is known, such as an AccessKey secret."""
        raw = password.encode()
        return cls(
            hashlib.sha1(hashlib.sha1(raw, usedforsecurity=False).digest(), usedforsecurity=False).digest(),
            hashlib.sha256(hashlib.sha256(raw).digest()).digest(),
        )


#: Compared with when there is no such user, so that the answer takes as long.
NOBODY = DoubleHashes(bytes(20), bytes(32))


def matches(method: str, scramble: bytes, nonce: bytes, hashes: DoubleHashes) -> bool:
    """True when `scramble` was made from the password and `nonce` by `method`. An empty scramble never matches."""
    if method == NATIVE:
        mask = hashlib.sha1(nonce + hashes.sha1_of_sha1, usedforsecurity=False).digest()
        return _opens(hashlib.sha1, mask, scramble, hashes.sha1_of_sha1)
    if method == CACHING_SHA2:
        mask = hashlib.sha256(hashes.sha256_of_sha256 + nonce).digest()
        return _opens(hashlib.sha256, mask, scramble, hashes.sha256_of_sha256)
    return False


def _opens(hash_of: Any, mask: bytes, scramble: bytes, double_hash: bytes) -> bool:
    if len(scramble) != len(mask):
        return False
    single_hash = bytes(a ^ b for a, b in zip(scramble, mask, strict=True))
    return hmac.compare_digest(hash_of(single_hash).digest(), double_hash)
