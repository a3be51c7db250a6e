"""The process: listens on the name-server port and the broker port, and closes in order."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import ssl
import sys
from typing import TYPE_CHECKING

from brokercore.certificates import server_context
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.tls_detection import TlsDetection
from brokercore.server.dispatch import Dispatcher
from brokercore.server.errors import SettingsError, StoreNotOurs, StoreUnavailable
from brokercore.server.figures import BrokerFigures
from brokercore.server.settings import Settings, TlsMode, configure_logs, read_settings
from brokercore.server.storage.redis_connection import check_url
from brokercore.server.upkeep import Upkeep
from brokercore.server.watching import Watching

if TYPE_CHECKING:
    from brokercore.server.grpc.endpoint import GrpcEndpoint

logger = logging.getLogger(__name__)

_BACKLOG = 1024
VIP_PORT = 2
"""So many below its own port a broker has the port of its VIP channel (`com.rocketmq.sendMessageWithVIPChannel`), which
clients up to 4.4.0 use, and later ones that are told to. Of a port that the system chose there is none."""

_STORE_SECONDS = 30.0
_GARBAGE_THRESHOLD = 50_000
"""Requests make few reference cycles: a collection every 700 objects would cost more than it finds."""


class Server:
    """A broker with its listening sockets. Both roles are served on each."""

    def __init__(self, settings: Settings) -> None:
        check_url(settings.redis_url)
        self._settings = settings
        shared = settings.namesrv_fd
        self._sockets = [
            _listen(settings.host, settings.namesrv_port) if shared is None else _inherited(shared),
            _listen(settings.host, settings.broker_port),
        ]
        if (important := _important(settings)) is not None:
            self._sockets.append(important)
        watched = settings.metrics_port
        self._watched = None if watched is None else _listen(settings.host, watched)
        self._grpc_socket = None if settings.grpc_port is None else _listen(settings.host, settings.grpc_port)
        self.namesrv_port, self.broker_port = (int(item.getsockname()[1]) for item in self._sockets[:2])
        reachable = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(settings.host, settings.host)  # noqa: S104
        self.namesrv = f"{reachable}:{self.namesrv_port}"
        self.broker = Broker(settings, settings.advertise or f"{reachable}:{self.broker_port}")
        self._tls = _tls_context(settings, reachable)
        self._grpc = None if self._grpc_socket is None else self._grpc_endpoint(self._grpc_socket, reachable)
        self.grpc = "" if self._grpc is None else f"{reachable}:{self._grpc.port}"
        self.broker.registry.grpc_port = 0 if self._grpc is None else self._grpc.port
        self._servers: list[asyncio.Server] = []
        self._upkeep = Upkeep(self.broker)
        self._watching = Watching(BrokerFigures(self.broker), self.broker.trouble)

    async def start(self) -> None:
        """Read the store back, then accept connections. Raises StoreUnavailable."""
        await self._upkeep.start()
        dispatcher, loop = Dispatcher(self.broker), asyncio.get_running_loop()

        tls_only = self._settings.tls_mode is TlsMode.ENFORCING

        def connection() -> Connection:
            return Connection(dispatcher, self.broker.opened, self.broker.turn, self.broker.rounds, self.broker.gate)

        for listening in self._sockets:
            server = await loop.create_server(
                lambda: TlsDetection(connection, self._tls, tls_only=tls_only), sock=listening, backlog=_BACKLOG
            )
            self._servers.append(server)
        if self._watched is not None:
            await self._watching.start(self._watched)
            logger.info("figures and health on port %d", self._watched.getsockname()[1])
        if self._grpc is not None:
            await self._grpc.start()

    async def close(self) -> None:
        """Stop listening, finish what is under way, close connections and store."""
        await self._watching.close()
        for server in self._servers:
            server.close()
        if self._grpc is not None:
            await self._grpc.close()
        await self._upkeep.close()
        for server in self._servers:
            await server.wait_closed()
        logger.info("closed")

    def _grpc_endpoint(self, listening: socket.socket, reachable: str) -> GrpcEndpoint:
        from brokercore.server.grpc.endpoint import GrpcEndpoint  # only here: it takes time and memory to load

        context = _tls_context(self._settings, reachable)
        if context is not None:
            context.set_alpn_protocols(["h2"])
        return GrpcEndpoint(self.broker, listening, context, tls_only=self._settings.tls_mode is TlsMode.ENFORCING)


def _tls_context(settings: Settings, host: str) -> ssl.SSLContext | None:
    if settings.tls_mode is TlsMode.DISABLED:
        return None
    hosts = (host, settings.advertise.rpartition(":")[0] or host, "localhost", "127.0.0.1")
    try:
        return server_context(settings.tls_folder, "broker", hosts)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(f"{settings.tls_folder} has no usable broker.crt and broker.key: {error}.") from error


async def serve(settings: Settings) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises SettingsError and StoreUnavailable."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not by the loop's own handlers: whoever removes those is for a moment a process that the next signal kills.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    server = Server(settings)
    server.broker.store.on_superseded = stop.set  # whoever restarts this process lets it begin anew
    await _start(server, stop)
    if not stop.is_set():
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE_THRESHOLD, 20, 50)
        broker_address = server.broker.address
        grpc = f" grpc={server.grpc}" if server.grpc else ""
        sys.stdout.write(f"ready namesrv={server.namesrv} broker={broker_address}{grpc}\n")
        sys.stdout.flush()
        logger.info("ready: name server %s, broker %s on %s", server.namesrv, broker_address, settings.redis_url)
        await stop.wait()
    await server.close()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # it ends anyhow: asked once more, it must not look killed


async def _start(server: Server, stop: asyncio.Event) -> None:
    """Redis may still be starting: try for a while."""
    deadline = asyncio.get_running_loop().time() + _STORE_SECONDS
    while True:
        try:
            await server.start()
            return
        except StoreNotOurs:
            raise
        except StoreUnavailable as error:
            if asyncio.get_running_loop().time() > deadline or stop.is_set():
                raise
            logger.warning("%s; trying again", error.remark)
            await asyncio.sleep(0.5)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"Port {port} on {host} is in use; set GANTRY_NAMESRV_PORT, GANTRY_BROKER_PORT, GANTRY_GRPC_PORT or"
                " GANTRY_METRICS_PORT to a free one."
            ) from error
        raise SettingsError(f"Cannot listen on {host}:{port}: {error.strerror}.") from error
    listening.setblocking(False)
    return listening


def _important(settings: Settings) -> socket.socket | None:
    """The port that clients with a "VIP channel" dial in place of the broker's (`VIP_PORT`); None where it is taken."""
    if not settings.vip_channel or settings.broker_port <= VIP_PORT:
        return None
    port = settings.broker_port - VIP_PORT
    try:
        return _listen(settings.host, port)
    except SettingsError as error:
        logger.warning("clients with a VIP channel (port %d) are not served: %s", port, error)
        return None


def _inherited(descriptor: int) -> socket.socket:
    """The socket that the launcher opened for all brokers: whoever of them lives accepts its connections."""
    try:
        listening = socket.socket(fileno=descriptor)
        if not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise SettingsError(f"GANTRY_NAMESRV_FD is {descriptor}, a socket that does not listen.")
    except OSError as error:
        raise SettingsError(f"GANTRY_NAMESRV_FD is {descriptor}, which is no socket: {error.strerror}.") from error
    listening.setblocking(False)
    return listening


def main() -> int:
    """Entry of `python -m brokercore`; returns the exit code."""
    try:
        configure_logs(os.environ)
        settings = read_settings()
        _run(settings)
    except (SettingsError, StoreUnavailable) as error:
        sys.stderr.write(f"brokercore: {error}\n")
        return 1
    return 0


def _run(settings: Settings) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings))
