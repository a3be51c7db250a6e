"""A MySQL door on a free port, in a thread of the test process; and a client that speaks raw packets.

With GANTRY_TEST_STOCK_DOOR=true the door is mysql-mimic's own server: the tests of the mends must fail then.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mysql_mimic import IdentityProvider, MysqlServer, NativePasswordAuthPlugin, User

from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.hardening import Account, DoorSession
from console.sql.door.scrambles import DoubleHashes
from console.sql.door.server import DoorServer

STOCK = os.environ.get("GANTRY_TEST_STOCK_DOOR") == "true"
USER, PASSWORD = "alice", "s3cret p@ss"
OTHER = "bob"


class KnownAccount:
    """An account whose password is PASSWORD."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hashes = DoubleHashes.of(PASSWORD)


async def find_known(name: str) -> KnownAccount | None:
    """Two users, same password."""
    return KnownAccount(name) if name in (USER, OTHER) else None


class EchoSession(DoorSession):
    """Answers with the statement and its parameters; `wait` waits until it is killed or the client leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        sessions.append(self)

    async def sign_in(self, account: Any, schema: str | None) -> None:
        if schema == "unknown":
            raise DoorError(errors.UNKNOWN_SCHEMA, "There is no schema 'unknown'.")
        self.database = schema

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> Any:
        return await self.execute(sql, ())

    async def execute(self, text: str, parameters: tuple[Any, ...]) -> Any:
        if text == "wait":
            self.waiting.set()
            await asyncio.Event().wait()
        if text.lower().startswith("set "):
            return None
        if text.startswith("rows "):
            return [(n,) for n in range(int(text[5:]))], ["n"]
        return [(text, repr(parameters))], ["text", "parameters"]

    async def columns_of(self, table: str) -> list[tuple[Any, ...]]:
        return [("a", "int", "YES", "", None, ""), ("b", "string", "YES", "", None, "")]


sessions: list[EchoSession] = []


class _StockIdentities(IdentityProvider):  # type: ignore[misc]
    async def get_user(self, username: str) -> User | None:
        if username not in (USER, OTHER):
            return None
        secret = NativePasswordAuthPlugin.create_auth_string(PASSWORD)
        return User(name=username, auth_string=secret, auth_plugin=NativePasswordAuthPlugin.name)


@contextmanager
def running_door(
    session: Callable[[], DoorSession] = EchoSession,
    find_account: Callable[[str], Awaitable[Account | None]] = find_known,
    context: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1; yields the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="door", daemon=True)
    thread.start()

    async def start() -> Any:
        if STOCK:
            server = MysqlServer(session_factory=session, identity_provider=_StockIdentities(), ssl=context)
        else:
            server = DoorServer(session, find_account, context)
        await server.start_server(host="127.0.0.1", port=0)
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield server.sockets()[0].getsockname()[1]
    finally:
        if not STOCK:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class RawClient:
    """Packets in and out of a plain socket, for what a well-behaved client would not send."""

    CAPABILITIES = 0x1 | 0x200 | 0x8000 | 0x80000 | 0x200000  # with 41, secure, plugin auth, lenenc auth data

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=15)
        self.sequence = 0
        greeting = self.read()
        version_end = greeting.index(b"\0", 1)
        rest = greeting[version_end + 1 + 4 :]
        self.nonce = rest[:8] + rest[27:39]
        self.plugin = rest[40:].rstrip(b"\0").decode()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def exactly(self, size: int) -> bytes:
        """Bytes from the socket; EOFError when the server has closed it."""
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError("the server closed the connection")
            data += piece
        return data

    def read(self) -> bytes:
        """The next packet."""
        word = struct.unpack("<I", self.exactly(4))[0]
        self.sequence = (word >> 24) + 1
        return self.exactly(word & 0xFFFFFF)

    def send(self, data: bytes) -> None:
        """One packet with the next sequence number."""
        self.socket.sendall(struct.pack("<I", len(data) | (self.sequence % 256) << 24) + data)
        self.sequence += 1

    def command(self, code: int, data: bytes = b"") -> None:
        """A command packet, which starts a new sequence."""
        self.sequence = 0
        self.send(bytes([code]) + data)

    def sign_in(self, user: str, password: str, plugin: str = "mysql_native_password") -> bytes:
        """Answer the greeting; returns the server's last word: OK (0x00…) or an error (0xff…)."""
        scramble = native_scramble(password, self.nonce) if plugin == "mysql_native_password" else b""
        self.send(
            struct.pack("<IIB23x", self.CAPABILITIES, 1 << 24, 45)
            + user.encode() + b"\0" + bytes([len(scramble)]) + scramble + plugin.encode() + b"\0"
        )  # fmt: skip
        answer = self.read()
        if answer[:1] == b"\xfe":
            nonce = answer.split(b"\0", 1)[1][:20]
            self.send(native_scramble(password, nonce))
            answer = self.read()
        return answer

    def is_closed(self) -> bool:
        """True when the server ends the connection without another word."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def native_scramble(password: str, nonce: bytes) -> bytes:
    """What mysql_native_password sends."""
    once = hashlib.sha1(password.encode()).digest()
    mask = hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


def read_result(client: RawClient, ends: int) -> list[bytes]:
    """The packets up to the last of so many EOFs; an error packet fails."""
    packets = []
    while ends:
        packets.append(client.read())
        assert packets[-1][:1] != b"\xff", packets[-1]
        ends -= packets[-1][:1] == b"\xfe" and len(packets[-1]) < 9
    return packets
