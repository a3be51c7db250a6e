"""The connection phase: greeting, TLS request, sign-in, switch of the password method, change of user (page Connection
Phase). Nothing is read without a bound, since all of it comes from strangers.

The two password methods of MySQL are checked against the hash of the hash of the password (pages Native Authentication,
Caching_sha2_password information):

mysql_native_password   SHA1(p) ⊕ SHA1(nonce + SHA1(SHA1(p)))
caching_sha2_password   SHA256(p) ⊕ SHA256(SHA256(SHA256(p)) + nonce)      (its fast path)
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import struct
from dataclasses import dataclass, field
from typing import Any

from mysqlwire.protocol.charsets import UTF8MB4, CharacterSet, spoken
from mysqlwire.protocol.constants import Capability, Status
from mysqlwire.protocol.errors import PacketError
from mysqlwire.protocol.packets import Reader, with_null

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"
METHODS = (CACHING_SHA2, NATIVE)
#: What a server says when the fast path of caching_sha2_password succeeded: no full exchange follows.
FAST_PATH_SUCCEEDED = b"\x03"
#: Letters and digits: Connector/J reads a nonce as ASCII, and a NUL would end it.
_SAFE = (string.ascii_letters + string.digits).encode()
NONCE_BYTES = 20
_PROTOCOL_VERSION = 10
_FIRST_PART = 8
#: Connection attributes that are kept of a client; what comes behind them is read over.
_MOST_ATTRIBUTES = 64


@dataclass(frozen=True, slots=True)
class SignIn:
    """A wish to be somebody: `scramble` was made by `method`, which is empty when the client names none.

    `largest_packet` is what the client says it takes, bytes; `attributes` what it tells of itself, such as its program.
    """

    username: str
    method: str
    scramble: bytes = field(repr=False)
    schema: str
    charset: CharacterSet
    capabilities: Capability
    largest_packet: int = 0
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """The client wants TLS before it says who it is."""


def greeting(
    capabilities: Capability, *, version: str, connection_id: int, nonce: bytes, status: Status, method: str
) -> bytes:
    """Protocol::HandshakeV10, a server's first packet. `nonce` has 20 bytes; all that is said is ASCII."""
    challenge = nonce + b"\0"
    return b"".join(
        (
            bytes([_PROTOCOL_VERSION]),
            with_null(version.encode("ascii", "replace")),
            struct.pack("<I", connection_id),
            challenge[:_FIRST_PART] + b"\0",
            struct.pack("<HBHH", capabilities & 0xFFFF, UTF8MB4.number, status, capabilities >> 16),
            bytes([len(challenge) if Capability.PLUGIN_AUTH in capabilities else 0]),
            bytes(10),
            challenge[_FIRST_PART:],
            with_null(method.encode("ascii")) if Capability.PLUGIN_AUTH in capabilities else b"",
        )
    )


def switch_method(method: str, nonce: bytes) -> bytes:
    """Protocol::AuthSwitchRequest: the client is to answer `nonce` by another method."""
    return b"\xfe" + with_null(method.encode("ascii")) + nonce + b"\0"


def more_data(data: bytes) -> bytes:
    """Protocol::AuthMoreData: something that the password method says besides."""
    return b"\1" + data


def read_response(data: bytes, server: Capability, most: int) -> SignIn | TlsRequest:
    """Read Protocol::HandshakeResponse41 or Protocol::SSLRequest, of at most so many bytes. Raises PacketError."""
    reader = _reader(data, most)
    capabilities = server & Capability(reader.integer(4))
    if Capability.PROTOCOL_41 not in capabilities:
        raise PacketError("Clients before MySQL 4.1 are not served.")
    largest = reader.integer(4)
    charset = spoken(reader.integer(1))
    reader.read(23)
    if reader.at_end:
        return TlsRequest()
    username = _text(reader.bytes_to_null(), charset)
    if Capability.PLUGIN_AUTH_LENENC_CLIENT_DATA in capabilities:
        scramble = reader.bytes_with_length()
    elif Capability.SECURE_CONNECTION in capabilities:
        scramble = reader.read(reader.integer(1))
    else:
        scramble = reader.bytes_to_null()
    schema = ""
    if Capability.CONNECT_WITH_DB in capabilities and not reader.at_end:
        schema = _text(reader.bytes_to_null(), charset)
    method, attributes = _method_and_attributes(reader, capabilities, charset)
    return SignIn(username, method, scramble, schema, charset, capabilities, largest, attributes)


def read_change_user(data: bytes, capabilities: Capability, charset: CharacterSet, most: int) -> SignIn:
    """Read COM_CHANGE_USER behind its first byte, of at most so many bytes. Raises PacketError.

    `charset` is what the client spoke until now; a new one holds from the names of methods and attributes on.
    """
    reader = _reader(data, most)
    username = _text(reader.bytes_to_null(), charset)
    if Capability.SECURE_CONNECTION in capabilities:
        scramble = reader.read(reader.integer(1))
    else:
        scramble = reader.bytes_to_null()
    schema = _text(reader.bytes_to_null(), charset)
    if not reader.at_end:
        charset = spoken(reader.integer(2))
    method, attributes = _method_and_attributes(reader, capabilities, charset)
    return SignIn(username, method, scramble, schema, charset, capabilities, 0, attributes)


def _reader(data: bytes, most: int) -> Reader:
    if len(data) > most:
        raise PacketError(f"A sign-in has at most {most} bytes.")
    return Reader(data)


def _method_and_attributes(
    reader: Reader, capabilities: Capability, charset: CharacterSet
) -> tuple[str, dict[str, str]]:
    """Both may be missing at the end, whatever the capabilities say."""
    method = ""
    if Capability.PLUGIN_AUTH in capabilities and not reader.at_end:
        method = _text(reader.bytes_to_null(), charset)
    if Capability.CONNECT_ATTRS not in capabilities or reader.at_end:
        return method, {}
    return method, _attributes(reader, charset)


def _attributes(reader: Reader, charset: CharacterSet) -> dict[str, str]:
    """What the client tells of itself; nothing depends on it, so that damage there refuses nobody."""
    attributes: dict[str, str] = {}
    try:
        pairs = Reader(reader.bytes_with_length())
        while not pairs.at_end and len(attributes) < _MOST_ATTRIBUTES:
            name, value = pairs.bytes_with_length(), pairs.bytes_with_length()
            attributes[name.decode(charset.codec, "replace")] = value.decode(charset.codec, "replace")
    except PacketError:
        return attributes
    return attributes


def _text(data: bytes, charset: CharacterSet) -> str:
    """Raises PacketError for bytes that are no text of the client's own character set."""
    try:
        return charset.decode(data)
    except UnicodeDecodeError as problem:
        raise PacketError(f"A name is not text of the character set {charset.name}.") from problem


def nonce() -> bytes:
    """A challenge for one sign-in, 20 bytes."""
    return bytes(secrets.choice(_SAFE) for _ in range(NONCE_BYTES))


@dataclass(frozen=True, slots=True)
class DoubleHashes:
    """What a server needs to check either method; the password cannot be read back from it."""

    sha1_of_sha1: bytes = field(repr=False)
    sha256_of_sha256: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> DoubleHashes:
        """The hashes of a password that is known."""
        raw = password.encode()
        return cls(
            hashlib.sha1(hashlib.sha1(raw, usedforsecurity=False).digest(), usedforsecurity=False).digest(),
            hashlib.sha256(hashlib.sha256(raw).digest()).digest(),
        )


#: Compared with when there is no such user, so that the answer takes as long.
NOBODY = DoubleHashes(bytes(20), bytes(32))


def matches(method: str, scramble: bytes, challenge: bytes, hashes: DoubleHashes) -> bool:
    """True when `scramble` was made from the password and the challenge by `method`; never for an empty one."""
    if method == NATIVE:
        mask = hashlib.sha1(challenge + hashes.sha1_of_sha1, usedforsecurity=False).digest()
        return _opens(hashlib.sha1, mask, scramble, hashes.sha1_of_sha1)
    if method == CACHING_SHA2:
        mask = hashlib.sha256(hashes.sha256_of_sha256 + challenge).digest()
        return _opens(hashlib.sha256, mask, scramble, hashes.sha256_of_sha256)
    return False


def _opens(hash_of: Any, mask: bytes, scramble: bytes, double_hash: bytes) -> bool:
    if len(scramble) != len(mask):
        return False
    single_hash = bytes(a ^ b for a, b in zip(scramble, mask, strict=True))
    return hmac.compare_digest(hash_of(single_hash).digest(), double_hash)
