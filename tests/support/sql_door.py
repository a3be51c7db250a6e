"""A MySQL door on a free port, in a thread of the test process; and a client that speaks raw packets.

With GANTRY_TEST_STOCK_DOOR=true the door is mysql-mimic's own server: the tests of the mends must fail then.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mysql_mimic import IdentityProvider, MysqlServer, NativePasswordAuthPlugin, User

from console.sql.door import errors, results
from console.sql.door.commands import DoorSession
from console.sql.door.errors import DoorError
from console.sql.door.results import DONE, Column, ListedRows, Result
from console.sql.door.scrambles import DoubleHashes
from console.sql.door.server import DoorServer
from console.sql.door.service import SqlDoor

STOCK = os.environ.get("GANTRY_TEST_STOCK_DOOR") == "true"
#: What a user may have open; nobody who is not in it has a limit.
most_connections: dict[str, int] = {}
USER, PASSWORD = "alice", "s3cret p@ss"
OTHER = "bob"


class KnownAccount:
    """An account whose password is PASSWORD."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hashes = DoubleHashes.of(PASSWORD)
        self.tenant = name
        self.most_connections = most_connections.get(name, 0)


async def find_known(name: str) -> KnownAccount | None:
    """Two users, same password."""
    return KnownAccount(name) if name in (USER, OTHER) else None


class EchoSession(DoorSession):
    """Answers with the statement and its parameters; `wait` waits until it is killed or the client leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        self.taken = 0
        self.closed = threading.Event()
        sessions.append(self)

    async def sign_in(self, account: Any, schema: str | None) -> None:
        if schema == "unknown":
            raise DoorError(errors.UNKNOWN_SCHEMA, "There is no schema 'unknown'.")
        self.database = schema

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> Any:
        """What mysql-mimic's own server asks."""
        result = await self.execute(sql, ())
        return (await result.rows.take(10**9), [c.name for c in result.columns]) if result else None

    async def execute(self, text: str, parameters: tuple[Any, ...]) -> Result:
        if text == "wait":
            self.waiting.set()
            await asyncio.Event().wait()
        if text.lower().startswith("set "):
            return DONE
        if text.startswith("rows "):
            return results.of_cells(["n"], [(n,) for n in range(int(text[5:]))])
        if text.startswith("endless"):
            return Result([Column("x")], EndlessRows(self))
        return results.of_cells(["text", "parameters"], [(text, repr(parameters))])

    async def columns_of(self, table: str) -> list[tuple[Any, ...]]:
        return [("a", "int", "YES", "", None, ""), ("b", "string", "YES", "", None, "")]


class EndlessRows(ListedRows):
    """Rows of a kilobyte without end, for clients that do not read them."""

    def __init__(self, session: EchoSession) -> None:
        super().__init__(())
        self.session = session

    @property
    def ended(self) -> bool:
        return False

    async def take(self, most: int) -> list[tuple[str]]:
        self.session.taken += most
        return [("x" * 1000,)] * most

    async def close(self) -> None:
        self.session.closed.set()


sessions: list[EchoSession] = []


class _StockIdentities(IdentityProvider):  # type: ignore[misc]
    async def get_user(self, username: str) -> User | None:
        if username not in (USER, OTHER):
            return None
        secret = NativePasswordAuthPlugin.create_auth_string(PASSWORD)
        return User(name=username, auth_string=secret, auth_plugin=NativePasswordAuthPlugin.name)


class EchoDoor:
    """The server with sessions that echo; mysql-mimic's own with GANTRY_TEST_STOCK_DOOR=true."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.server: Any = DoorServer(EchoSession, find_known, context)
        if STOCK:
            self.server = MysqlServer(session_factory=EchoSession, identity_provider=_StockIdentities(), ssl=context)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        await self.server.start_server(host=host, port=port)
        address: tuple[str, int] = self.server.sockets()[0].getsockname()[:2]
        return address

    async def stop(self) -> None:
        if not STOCK:
            await self.server.stop()


@contextmanager
def running_door(make: Callable[[], EchoDoor | SqlDoor] = EchoDoor) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1; yields the port.

    Fails at the end when asyncio has a complaint, such as a task that was destroyed before it ended.
    """
    loop = asyncio.new_event_loop()
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, about: complaints.append(f"{about['message']}: {about}"))
    thread = threading.Thread(target=loop.run_forever, name="door", daemon=True)
    thread.start()

    async def start() -> tuple[EchoDoor | SqlDoor, int]:
        door = make()
        return door, (await door.start("127.0.0.1", 0))[1]

    door, port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(door.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        loop.close()
        del door
        gc.collect(1)  # what this door leaves behind is young
    if not STOCK:
        assert not left, f"nobody ended {left}"
        assert not complaints, complaints


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
