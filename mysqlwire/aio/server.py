"""The listening side: a connection of whoever comes, each with a task that somebody ends, and an end in order."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress

from mysqlwire.aio.connection import Connection, FindAccount
from mysqlwire.aio.limits import Limits
from mysqlwire.aio.session import Control, Session
from mysqlwire.aio.stream import Stream
from mysqlwire.protocol.errors import SqlError

log = logging.getLogger(__name__)

#: Connections that may wait to be accepted: a pool of a client opens many at once.
_BACKLOG = 1024


class Server:
    """Listens, and has a session answer each connection. TLS is offered where there is a context, never demanded."""

    def __init__(
        self,
        make_session: Callable[[], Session],
        find_account: FindAccount,
        *,
        tls: ssl.SSLContext | None = None,
        control: Control | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.control = control if control is not None else Control()
        self._make_session = make_session
        self._find_account = find_account
        self._tls = tls
        self._limits = limits if limits is not None else Limits()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._stopping = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, with the port that was chosen for port 0. Raises OSError when it is in use."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Stream(self._limits, self._connected), host, port, backlog=_BACKLOG
        )
        address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return address

    async def stop(self) -> None:
        """Stop listening, end every connection, wait until the last one is gone."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for connection in self.control.connections.values():
            connection.kill()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._limits.stop_s)
            for connection in self.control.connections.values():
                connection.stream.abort()
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        if self._server is not None:
            await self._server.wait_closed()

    def _connected(self, stream: Stream) -> None:
        if self._stopping:  # it was accepted before, and nobody would wait for it
            stream.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(stream), name="mysqlwire-connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: Stream) -> None:
        """The task of a connection. It never ends as cancelled: nobody waits for it who would want to know."""
        connection = Connection(
            stream, self._make_session(), self.control, self._find_account, limits=self._limits, tls=self._tls
        )
        try:
            try:
                connection.connection_id = self.control.add(connection)
            except SqlError as error:
                await connection.turn_away(error)
                return
            await connection.serve()
        except (ConnectionError, asyncio.CancelledError) as error:
            log.info("connection %s ended: %r", connection.connection_id, error)
        except Exception:
            log.exception("connection %s failed", connection.connection_id)
        finally:
            with suppress(asyncio.CancelledError):
                await stream.close()
            self.control.remove(connection)
