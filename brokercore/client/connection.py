"""One TCP connection to a broker or name server: many requests in flight, a reader thread that matches answers."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import ssl
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

from brokercore.client.errors import BrokerUnreachable, ClientClosed, ClientError, RequestTimeout
from brokercore.protocol.command import ONEWAY_FLAG, Command, FrameReader, decode
from brokercore.protocol.errors import FrameError
from brokercore.protocol.tls import TlsError, TlsStream

log = logging.getLogger(__name__)

RequestHandler = Callable[["Connection", Command], None]
"""Takes a request that the server sent; it runs in the reader thread and must not block."""

_READ_BYTES = 256 * 1024
_CLOSE_S = 2.0
_WAKE_EVERY_S = 0.25
"""The reader looks for expired requests this often; nothing but the precision of time-outs depends on it."""


class Connection:
    """Blocking on the outside, pipelined inside. Safe in threads; after a fork the pool opens new ones."""

    def __init__(
        self, address: str, on_request: RequestHandler, connect_timeout_ms: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self._on_request = on_request
        self._socket = _open(address, connect_timeout_ms)
        self._tls = _handshake(address, self._socket, tls, connect_timeout_ms) if tls else None
        self._write_lock = threading.Lock()
        self._opaque = itertools.count()
        self._waiting: dict[int, tuple[Future[Command], float, int]] = {}
        self._closed = ""
        self._reader = threading.Thread(target=self._read, name=f"read {address}", daemon=True)
        self._reader.start()

    @property
    def is_open(self) -> bool:
        """False once the connection broke or was closed."""
        return not self._closed

    def submit(self, command: Command, timeout_ms: int) -> Future[Command]:
        """Send a request; the future gets its answer, RequestTimeout or BrokerUnreachable.

        Callbacks on the future run in the reader thread and must not block.
        """
        opaque = next(self._opaque) & 0x7FFFFFFF
        command.opaque = opaque
        future: Future[Command] = Future()
        self._waiting[opaque] = (future, time.monotonic() + timeout_ms / 1000, timeout_ms)
        try:
            self._write(command.encode())
        except ClientError as error:
            self._waiting.pop(opaque, None)
            _fail(future, error)
        if self._closed and self._waiting.pop(opaque, None) is not None:
            _fail(future, self._gone())
        return future

    def send_oneway(self, command: Command) -> None:
        """Send a request that gets no answer. Raises BrokerUnreachable."""
        command.flag |= ONEWAY_FLAG
        command.opaque = next(self._opaque) & 0x7FFFFFFF
        self._write(command.encode())

    def answer(self, response: Command) -> None:
        """Answer a request of the server. Raises BrokerUnreachable."""
        self._write(response.encode())

    def close(self) -> None:
        """Close; requests in flight fail. Its thread has ended then. Can be called again."""
        self._break("the connection was closed")
        if self._reader is not threading.current_thread():
            self._reader.join(_CLOSE_S)

    def forget(self) -> None:
        """Give up the socket without a word to the peer: in a forked child the parent goes on using it."""
        self._closed = "the connection belongs to the parent process"
        self._socket.close()

    def _write(self, frame: bytes) -> None:
        with self._write_lock:
            if self._closed:
                raise self._gone()
            try:
                if self._tls is not None:
                    self._tls.send(frame)
                    frame = self._tls.outgoing()
                self._socket.sendall(frame)
            except OSError as error:
                self._break(_reason(error))
                raise BrokerUnreachable(self.address, _reason(error)) from error

    def _read(self) -> None:
        frames = FrameReader()
        reason = "the peer closed the connection"
        try:
            while True:
                self._expire()
                try:
                    data = self._socket.recv(_READ_BYTES)
                except BlockingIOError:
                    continue
                if not data:
                    break
                if self._tls is not None:
                    data = self._decrypt(self._tls, data)
                for frame in frames.feed(data):
                    self._dispatch(decode(frame))
        except FrameError as error:
            reason = f"broken frame: {error}"
            log.warning("< %s %s", self.address, reason)
        except TlsError as error:
            reason = str(error)
        except OSError as error:
            reason = _reason(error)
        except Exception:
            reason = "an answer could not be handled"
            log.exception("< %s %s", self.address, reason)
        self._break(reason)
        # Only here: a number closed while another thread reads from it could already be another socket's.
        with self._write_lock:
            self._socket.close()

    def _decrypt(self, tls: TlsStream, data: bytes) -> bytes:
        """One lock for both directions: reading can have something to say too, and a TLS session is not thread-safe."""
        with self._write_lock:
            plain = tls.receive(data)
            if answer := tls.outgoing():
                self._socket.sendall(answer)
        return plain

    def _dispatch(self, command: Command) -> None:
        if not command.is_response:
            self._on_request(self, command)
            return
        waiting = self._waiting.pop(command.opaque, None)
        if waiting is None:
            log.debug("< %s late answer to request %d", self.address, command.opaque)
            return
        with contextlib.suppress(InvalidStateError):
            waiting[0].set_result(command)

    def _expire(self) -> None:
        if not self._waiting:
            return
        now = time.monotonic()
        for opaque, (future, deadline, timeout_ms) in list(self._waiting.items()):
            if deadline < now and self._waiting.pop(opaque, None) is not None:
                _fail(future, RequestTimeout(self.address, timeout_ms))

    def _break(self, reason: str) -> None:
        if not self._closed:
            self._closed = reason
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        while self._waiting:
            with contextlib.suppress(KeyError):
                _fail(self._waiting.popitem()[1][0], self._gone())

    def _gone(self) -> BrokerUnreachable:
        return BrokerUnreachable(self.address, self._closed)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`. Raises BrokerUnreachable."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BrokerUnreachable(address, "the address is not host:port")
    return host.strip("[]"), int(port)


def _open(address: str, timeout_ms: int) -> socket.socket:
    try:
        connection = socket.create_connection(split_address(address), timeout_ms / 1000)
    except OSError as error:
        raise BrokerUnreachable(address, _reason(error)) from error
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Kernel time-outs instead of settimeout: reading and writing threads need different ones on the same socket.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(_WAKE_EVERY_S))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(timeout_ms / 1000))
    return connection


def _handshake(address: str, connection: socket.socket, context: ssl.SSLContext, timeout_ms: int) -> TlsStream:
    """Begin TLS. Raises BrokerUnreachable when the peer does not speak it, or its certificate is not trusted."""
    deadline = time.monotonic() + timeout_ms / 1000
    try:
        tls = TlsStream(context, server_side=False, hostname=split_address(address)[0])
        while not tls.established:
            connection.sendall(tls.outgoing())
            with contextlib.suppress(BlockingIOError):
                data = connection.recv(_READ_BYTES)
                if not data:
                    raise BrokerUnreachable(address, "the peer closed the connection instead of speaking TLS")
                tls.receive(data)
            if time.monotonic() > deadline:
                raise BrokerUnreachable(address, f"no TLS within {timeout_ms} ms")
        connection.sendall(tls.outgoing())
    except (TlsError, OSError) as error:
        connection.close()
        raise BrokerUnreachable(address, _reason(error) if isinstance(error, OSError) else str(error)) from error
    except BrokerUnreachable:
        connection.close()
        raise
    return tls


def _timeval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))


def _fail(future: Future[Command], error: ClientError) -> None:
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)


def _reason(error: OSError) -> str:
    if isinstance(error, BlockingIOError | TimeoutError):
        return "it takes no data"
    return error.strerror or str(error) or type(error).__name__


class Pool:
    """Hands out the one connection to an address. Safe in threads and over forks."""

    def __init__(self, on_request: RequestHandler, connect_timeout_ms: int, tls: ssl.SSLContext | None = None) -> None:
        self._on_request = on_request
        self._tls = tls
        self.connect_timeout_ms = connect_timeout_ms
        self._closed = False
        self._connections: dict[str, Connection] = {}
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def get(self, address: str) -> Connection:
        """The open connection to `host:port`. Raises BrokerUnreachable, or ClientClosed after close()."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        with self._opening[address]:
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                if self._closed:
                    raise ClientClosed("The client is closed.")
                connection = Connection(address, self._on_request, self.connect_timeout_ms, self._tls)
                self._connections[address] = connection
                self._close_if_late(connection)
            return connection

    def _close_if_late(self, connection: Connection) -> None:
        """Another thread may have closed the pool while this one connected."""
        if self._closed:
            connection.close()
            raise ClientClosed("The client is closed.")

    def has(self, address: str) -> bool:
        """True when there is an open connection to `host:port` already."""
        connection = self._connections.get(address)
        return connection is not None and connection.is_open

    def close(self) -> None:
        """Close all connections. Can be called again."""
        self._closed = True
        while self._connections:
            self._connections.popitem()[1].close()

    def start_anew(self) -> None:
        """In a forked child: leave the parent's connections and locks behind."""
        for connection in self._connections.values():
            connection.forget()
        self._connections = {}
        self._opening = defaultdict(threading.Lock)
