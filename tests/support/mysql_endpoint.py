"""A MySQL endpoint on a free port, in a thread of the test process; and a client that speaks raw packets."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from console.sql.mysql import errors, results
from console.sql.mysql.errors import EndpointError
from console.sql.mysql.server import EndpointControl, EndpointServer, MySqlEndpoint
from console.sql.mysql.variables import EndpointSession
from mysqlwire.aio.connection import Connection
from mysqlwire.aio.results import DONE, ListedRows, Result
from mysqlwire.protocol.answers import Column
from mysqlwire.protocol.handshake import DoubleHashes

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


class EchoSession(EndpointSession):
    """Answers with the statement and its parameters; `wait` waits until it is killed or the client leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        self.taken = 0
        self.closed = threading.Event()
        sessions.append(self)

    async def sign_in(self, account: Any, schema: str | None) -> None:
        if schema == "unknown":
            raise EndpointError(errors.UNKNOWN_SCHEMA, "There is no schema 'unknown'.")
        self.database = schema

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

    async def fetch(self, most: int) -> list[tuple[str]]:
        self.session.taken += most
        return [("x" * 1000,)] * most

    async def close(self) -> None:
        self.session.closed.set()


sessions: list[EchoSession] = []


def control() -> EndpointControl:
    """What counts the connections of the endpoint that the first session belongs to."""
    found = sessions[0].connection.control
    assert isinstance(found, EndpointControl)
    return found


def connection(number: int = 0) -> Connection:
    """The connection of one of the sessions, with what only tests look at."""
    found = sessions[number].connection
    assert isinstance(found, Connection)
    return found


class EchoEndpoint:
    """The server with sessions that echo."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.server = EndpointServer(EchoSession, find_known, context)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        return await self.server.start(host, port)

    async def stop(self) -> None:
        await self.server.stop()


@contextmanager
def running_endpoint(make: Callable[[], EchoEndpoint | MySqlEndpoint] = EchoEndpoint) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1; yields the port.

    Fails at the end when asyncio has a complaint, such as a task that was destroyed before it ended.
    """
    loop = asyncio.new_event_loop()
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, about: complaints.append(f"{about['message']}: {about}"))
    thread = threading.Thread(target=loop.run_forever, name="endpoint", daemon=True)
    thread.start()

    async def start() -> tuple[EchoEndpoint | MySqlEndpoint, int]:
        endpoint = make()
        return endpoint, (await endpoint.start("127.0.0.1", 0))[1]

    endpoint, port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(endpoint.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        loop.close()
        del endpoint
        gc.collect(1)  # what this endpoint leaves behind is young
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
