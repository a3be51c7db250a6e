"""The client's half of the protocol as far as the tests need it, written from the documentation and not from the code
that it tests; and an echo server in a thread.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mysqlwire.aio.limits import Limits
from mysqlwire.aio.results import DONE, ListedRows, Result
from mysqlwire.aio.server import Server
from mysqlwire.aio.session import Control, Session
from mysqlwire.protocol.answers import Column
from mysqlwire.protocol.constants import ColumnType
from mysqlwire.protocol.handshake import DoubleHashes

USER, PASSWORD = "alice", "s3cret p@ss"
#: LONG_PASSWORD, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, PLUGIN_AUTH_LENENC_CLIENT_DATA
CAPABILITIES = 0x1 | 0x200 | 0x8000 | 0x80000 | 0x200000
DEPRECATE_EOF, QUERY_ATTRIBUTES, CONNECT_WITH_DB, TLS = 1 << 24, 1 << 27, 1 << 3, 1 << 11


class KnownAccount:
    """Its password is PASSWORD."""

    hashes = DoubleHashes.of(PASSWORD)


async def find_known(name: str) -> KnownAccount | None:
    """One user, and one at whose name the search fails."""
    if name == "broken":
        raise KeyError("secret of the server")
    return KnownAccount() if name == USER else None


class EchoSession(Session):
    """Answers with the statement and its parameters; `wait` waits until it is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        sessions.append(self)

    async def sign_in(self, account: Any, schema: str | None) -> None:
        self.database = schema

    async def execute(self, text: str, parameters: tuple[Any, ...]) -> Result:
        if text == "wait":
            self.waiting.set()
            await asyncio.Event().wait()
        if text.lower().startswith("set "):
            return DONE
        if text.startswith("rows "):
            return Result([Column("n", ColumnType.LONGLONG)], ListedRows((n,) for n in range(int(text[5:]))))
        if text == "fail":
            raise KeyError("secret of the server")
        if text == "schema":
            return Result([Column("schema")], ListedRows([(self.database,)]))
        if text == "large":
            return Result([Column("x")], ListedRows([("x" * 17_000_000,), ("y",)]))
        return Result([Column("text"), Column("parameters")], ListedRows([(text, repr(parameters))]))

    async def columns(self, table: str, pattern: str) -> list[Column]:
        return [Column("a"), Column("b", ColumnType.LONG, 11)]


sessions: list[EchoSession] = []


@contextmanager
def running(
    tls: ssl.SSLContext | None = None, limits: Limits | None = None, control: Control | None = None
) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1; yields the port. Fails at the end when asyncio has a complaint."""
    loop = asyncio.new_event_loop()
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, about: complaints.append(str(about)))
    thread = threading.Thread(target=loop.run_forever, name="mysqlwire", daemon=True)
    thread.start()

    async def start() -> tuple[Server, int]:
        server = Server(EchoSession, find_known, tls=tls, limits=limits, control=control)
        return server, (await server.start("127.0.0.1", 0))[1]

    sessions.clear()
    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        loop.close()
        del server
        gc.collect(1)
    assert not left, f"nobody ended {left}"
    assert not complaints, complaints


class RawClient:
    """Packets in and out of a socket."""

    def __init__(self, port: int, capabilities: int = CAPABILITIES) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=15)
        self.capabilities = capabilities
        self.sequence = 0
        greeting = self.read()
        assert greeting[0] == 10
        self.version, _, rest = greeting[1:].partition(b"\0")
        self.connection_id = struct.unpack_from("<I", rest)[0]
        self.nonce = rest[4:12] + rest[31:43]
        low, self.collation, self.status, high, size = struct.unpack_from("<HBHHB", rest, 13)
        self.offered = low | high << 16
        assert size == 21
        assert rest[43:44] == b"\0"
        self.method = rest[44:].rstrip(b"\0").decode()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read(self) -> bytes:
        """The next payload, of one packet. EOFError when the server has closed the connection."""
        word = struct.unpack("<I", self._exactly(4))[0]
        assert word >> 24 == self.sequence % 256
        self.sequence += 1
        return self._exactly(word & 0xFFFFFF)

    def send(self, data: bytes) -> None:
        """One packet."""
        self.socket.sendall(struct.pack("<I", len(data) | (self.sequence % 256) << 24) + data)
        self.sequence += 1

    def command(self, code: int, data: bytes = b"") -> None:
        """A command, which starts the numbers anew."""
        self.sequence = 0
        self.send(bytes([code]) + data)

    def ask(self, code: int, data: bytes = b"") -> bytes:
        """A command, and the first packet of its answer."""
        self.command(code, data)
        return self.read()

    def rows(self, ends: int) -> list[bytes]:
        """The packets up to the last of so many EOFs."""
        packets: list[bytes] = []
        while ends:
            packets.append(self.read())
            assert packets[-1][:1] != b"\xff", packets[-1]
            ends -= packets[-1][:1] == b"\xfe" and len(packets[-1]) < 9
        return packets

    def sign_in(
        self, user: str = USER, password: str = PASSWORD, method: str = "mysql_native_password", schema: str = ""
    ) -> bytes:
        """Answer the greeting, and a switch of the method; returns the last word: OK or an error."""
        scramble = _scramble(method, password, self.nonce)
        self.send(
            struct.pack("<IIB23x", self.capabilities, 1 << 24, 45) + user.encode() + b"\0"
            + bytes([len(scramble)]) + scramble
            + (schema.encode() + b"\0" if self.capabilities & CONNECT_WITH_DB else b"")
            + method.encode() + b"\0"
        )  # fmt: skip
        answer = self.read()
        if answer[:1] == b"\xfe":
            switched, _, nonce = answer[1:].partition(b"\0")
            self.send(_scramble(switched.decode(), password, nonce[:20]))
            answer = self.read()
        return self.read() if answer == b"\1\3" else answer

    def is_closed(self) -> bool:
        """True when the server ends the connection without another word."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError("the server closed the connection")
            data += piece
        return data


def native(password: str, nonce: bytes) -> bytes:
    """What mysql_native_password sends."""
    once = hashlib.sha1(password.encode()).digest()
    mask = hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


def caching(password: str, nonce: bytes) -> bytes:
    """What the fast path of caching_sha2_password sends."""
    once = hashlib.sha256(password.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


def _scramble(method: str, password: str, nonce: bytes) -> bytes:
    known = {"mysql_native_password": native, "caching_sha2_password": caching}
    return known[method](password, nonce) if method in known else b"?"
