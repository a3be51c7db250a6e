"""The way to a cluster: signs, sends, waits, and turns error codes into exceptions."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import NamedTuple

from brokercore.client.connection import Connection, Pool, split_address
from brokercore.client.errors import BadResponse, BrokerUnreachable, ClientError, RequestTimeout, for_code
from brokercore.client.threads import Workers, restart_after_fork
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign

log = logging.getLogger(__name__)

ServerRequest = Callable[[str, Command], Command | None]
"""Answers a request that came from the broker at the given address; None for one-way requests."""

_GRACE_S = 1.0
_CLOSE_S = 5.0
_SERVER_REQUEST_THREADS = 4
_ONLY_SUCCESS = frozenset({int(ResponseCode.SUCCESS)})


class Call(NamedTuple):
    """A request to the broker or name server at `address`."""

    address: str
    code: int
    ext: dict[str, str]
    body: bytes = b""


Permit = Callable[[Call], None]
"""Asked before each request of a session; what it raises reaches who wanted to send, and nothing is sent."""


class Session:
    """Connections to name servers and brokers of one cluster under one pair of credentials.

    Times are milliseconds. Every method raises ClientError: BrokerUnreachable, RequestTimeout, BadResponse, or a
    BrokerError for response codes that are not accepted.
    """

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        *,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
        permit: Permit | None = None,
    ) -> None:
        self._permit = permit
        self.name_servers = parse_name_servers(namesrv)
        self.timeout_ms = timeout_ms
        self._credentials = credentials
        self._pool = Pool(self._on_request, timeout_ms, tls)
        self._handlers: dict[int, ServerRequest] = {}
        self._workers: Workers | None = None
        self._workers_lock = threading.Lock()
        restart_after_fork(self)

    def start_anew(self) -> None:
        """In a forked child: connections and threads of the parent are left behind."""
        self._workers = None
        self._workers_lock = threading.Lock()
        self._pool.start_anew()

    def handle(self, code: int, handler: ServerRequest) -> None:
        """Answer the broker's own requests of a code; the handler runs in a thread of its own."""
        self._handlers[code] = handler

    def submit(self, call: Call, timeout_ms: int | None = None) -> Future[Command]:
        """Send without waiting; see Connection.submit. A connection that cannot be opened fails the future."""
        self._ask(call)
        try:
            connection = self._pool.get(call.address)
        except ClientError as error:
            failed: Future[Command] = Future()
            failed.set_exception(error)
            return failed
        return connection.submit(self._command(call), timeout_ms or self.timeout_ms)

    def call(self, call: Call, *, timeout_ms: int | None = None, accept: frozenset[int] = _ONLY_SUCCESS) -> Command:
        """Send and wait. When a connection that was open before breaks, the request is tried once more on a new one."""
        wait_ms = timeout_ms or self.timeout_ms
        was_open = self._pool.has(call.address)
        try:
            response = self.wait(self.submit(call, wait_ms), call.address, wait_ms)
        except BrokerUnreachable:
            if not was_open:
                raise
            response = self.wait(self.submit(call, wait_ms), call.address, wait_ms)
        return check(response, call.address, accept)

    def call_once(self, call: Call, *, timeout_ms: int, accept: frozenset[int] = _ONLY_SUCCESS) -> Command:
        """Send and wait without a second try: for requests that must not silently be done twice."""
        return check(self.wait(self.submit(call, timeout_ms), call.address, timeout_ms), call.address, accept)

    def call_all(
        self, calls: Iterable[Call], *, timeout_ms: int | None = None, accept: frozenset[int] = _ONLY_SUCCESS
    ) -> list[Command | ClientError]:
        """Send all at once and wait for all: an answer or an error for each call, in order."""
        wait_ms = timeout_ms or self.timeout_ms
        sent = [(call, self.submit(call, wait_ms)) for call in calls]
        results: list[Command | ClientError] = []
        for call, future in sent:
            try:
                results.append(check(self.wait(future, call.address, wait_ms), call.address, accept))
            except ClientError as error:
                results.append(error)
        return results

    def call_each(self, calls: Iterable[Call], *, timeout_ms: int | None = None) -> list[Command]:
        """Send all at once and wait for all: the answers, in order. Raises the first error."""
        answers: list[Command] = []
        for result in self.call_all(calls, timeout_ms=timeout_ms):
            if isinstance(result, ClientError):
                raise result
            answers.append(result)
        return answers

    def call_name_server(self, code: int, ext: dict[str, str], *, timeout_ms: int | None = None) -> Command:
        """Ask the name servers in turn until one answers."""
        unreachable: ClientError | None = None
        for address in self.name_servers:
            try:
                return self.call(Call(address, code, dict(ext)), timeout_ms=timeout_ms)
            except (BrokerUnreachable, RequestTimeout) as error:
                unreachable = error
        raise unreachable or BrokerUnreachable(",".join(self.name_servers), "no name server is configured")

    def is_connected(self, address: str) -> bool:
        """True when there is an open connection to `host:port`."""
        return self._pool.has(address)

    def hurry(self, timeout_ms: int) -> None:
        """Wait no longer than this from now on: goodbyes to a broker that is gone must not hold up a close."""
        self.timeout_ms = min(self.timeout_ms, timeout_ms)
        self._pool.connect_timeout_ms = self.timeout_ms

    def oneway(self, call: Call) -> None:
        """Send a request that gets no answer. Raises BrokerUnreachable."""
        self._ask(call)
        self._pool.get(call.address).send_oneway(self._command(call))

    def wait(self, future: Future[Command], address: str, timeout_ms: int) -> Command:
        """The answer of a submitted request."""
        try:
            return future.result(timeout_ms / 1000 + _GRACE_S)
        except FutureTimeout:
            raise RequestTimeout(address, timeout_ms) from None

    def close(self) -> None:
        """Close all connections. Can be called again."""
        self._pool.close()
        with self._workers_lock:
            workers = self._workers
        if workers is not None and not workers.stop(_CLOSE_S):
            log.warning("an answer to a broker's request is still being made after %s s", _CLOSE_S)

    def _ask(self, call: Call) -> None:
        if self._permit is not None:
            self._permit(call)

    def _command(self, call: Call) -> Command:
        ext = dict(call.ext)
        if self._credentials is not None:
            self._credentials.sign(ext, call.body)
        return Command(call.code, ext=ext, body=call.body)

    def _on_request(self, connection: Connection, command: Command) -> None:
        handler = self._handlers.get(command.code)
        if handler is None:
            if not command.is_oneway:
                text = f" request type {command.code} not supported"
                with contextlib.suppress(ClientError):  # the connection broke, and who waits on it is told
                    connection.answer(command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text))
            return
        with self._workers_lock:
            if self._workers is None:
                self._workers = Workers(_SERVER_REQUEST_THREADS, "server request")
            workers = self._workers
        if not workers.submit(lambda: self._answer(connection, command, handler)):
            log.debug("< %s request %d while closing", connection.address, command.code)

    def _answer(self, connection: Connection, command: Command, handler: ServerRequest) -> None:
        try:
            response = handler(connection.address, command)
        except Exception as error:
            log.exception("request %d from %s failed", command.code, connection.address)
            response = command.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if response is None or command.is_oneway:
            return
        try:
            connection.answer(response)
        except ClientError as error:
            log.warning("> %s answer to request %d was lost: %s", connection.address, command.code, error)


def check(response: Command, address: str, accept: frozenset[int] = _ONLY_SUCCESS) -> Command:
    """The response itself, or the exception of its code."""
    if response.code in accept:
        return response
    raise for_code(response.code, response.remark, address)


def integer(response: Command, name: str, address: str) -> int:
    """A number among the ext fields. Raises BadResponse."""
    try:
        return int(response.ext[name])
    except (KeyError, ValueError):
        raise BadResponse(address, f"header field {name} is missing or not a number") from None


def parse_name_servers(namesrv: str) -> list[str]:
    """Addresses of `host:port;host:port`; `http://MQ_INST_….host:port` is taken as well, as by ons-client."""
    return [part.strip().rpartition("/")[2] for part in namesrv.replace(",", ";").split(";") if part.strip()]


@dataclass(frozen=True, slots=True)
class Credentials:
    """An AccessKey pair; `security_token` belongs to temporary ones (STS). The secret is never printed."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, ext: dict[str, str], body: bytes) -> None:
        """Add AccessKey, SecurityToken and Signature to the ext fields of a request."""
        ext[ACCESS_KEY] = self.access_key_id
        if self.security_token:
            ext[SECURITY_TOKEN] = self.security_token
        ext[SIGNATURE] = sign(ext, body, self.access_key_secret)


def local_address(peer: str) -> str:
    """The address this machine would use towards `host:port`; 127.0.0.1 when it cannot tell."""
    try:
        host, port = split_address(peer)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))  # no packet is sent
            return str(probe.getsockname()[0])
    except (OSError, BrokerUnreachable):
        return "127.0.0.1"


def new_client_id(peer: str) -> str:
    """`ip@pid#nanoseconds`, as Java clients name themselves: unique for each client object."""
    return f"{local_address(peer)}@{os.getpid()}#{time.monotonic_ns()}"
