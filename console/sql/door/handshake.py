"""What a client says when it signs in or changes its user. Pure.

Mend of mysql-mimic 3.0.5, whose reader of these packets loops for ever, and the whole process with it, when a text has
no end: one packet of a stranger before sign-in was enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mysql_mimic.charset import CharacterSet, Collation
from mysql_mimic.types import Capabilities

from console.sql.door.errors import DoorError
from console.sql.door.limits import BEFORE_SIGN_IN
from console.sql.door.reader import PacketError, Reader
from console.sql.door.variables import charset_of


@dataclass(frozen=True, slots=True)
class SignIn:
    """A wish to be somebody: `scramble` was made by `method`, which is empty when the client names none."""

    username: str
    method: str
    scramble: bytes = field(repr=False)
    schema: str
    charset: CharacterSet
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """The client wants TLS before it says who it is."""


def read_response(data: bytes, server: Capabilities) -> SignIn | TlsRequest:
    """Read HandshakeResponse41 or SSLRequest (MySQL internals). Raises PacketError."""
    reader = _reader(data)
    capabilities = server & Capabilities(reader.integer(4))
    if Capabilities.CLIENT_PROTOCOL_41 not in capabilities:
        raise PacketError("Clients before MySQL 4.1 are not served.")
    reader.take(4)  # the client's largest packet
    charset = _charset(reader.integer(1))
    reader.take(23)
    if reader.at_end:
        return TlsRequest()
    username = charset.decode(reader.bytes_to_null())
    if Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA in capabilities:
        scramble = reader.bytes_with_length()
    else:
        scramble = reader.take(reader.integer(1))
    schema = method = ""
    if Capabilities.CLIENT_CONNECT_WITH_DB in capabilities and not reader.at_end:
        schema = charset.decode(reader.bytes_to_null())
    if Capabilities.CLIENT_PLUGIN_AUTH in capabilities and not reader.at_end:
        method = charset.decode(reader.bytes_to_null())
    return SignIn(username, method, scramble, schema, charset, capabilities)


def read_change_user(data: bytes, capabilities: Capabilities, charset: CharacterSet) -> SignIn:
    """Read COM_CHANGE_USER (MySQL internals). Raises PacketError."""
    reader = _reader(data)
    username = charset.decode(reader.bytes_to_null())
    if Capabilities.CLIENT_SECURE_CONNECTION in capabilities:
        scramble = reader.take(reader.integer(1))
    else:
        scramble = reader.bytes_to_null()
    schema = charset.decode(reader.bytes_to_null())
    method = ""
    if not reader.at_end:
        charset = _charset(reader.integer(2))
    if Capabilities.CLIENT_PLUGIN_AUTH in capabilities and not reader.at_end:
        method = charset.decode(reader.bytes_to_null())
    return SignIn(username, method, scramble, schema, charset, capabilities)


def _reader(data: bytes) -> Reader:
    if len(data) > BEFORE_SIGN_IN:
        raise PacketError(f"A sign-in has at most {BEFORE_SIGN_IN} bytes.")
    return Reader(data)


def _charset(number: int) -> CharacterSet:
    """The character set of a collation; utf8mb4 for one that is newer than the library, or that nobody can speak."""
    try:
        charset: CharacterSet = charset_of(Collation(number).charset.name)
    except (ValueError, DoorError):
        return CharacterSet.utf8mb4
    return charset
