"""The listening side: counts connections, makes a DoorConnection of whoever comes, stops in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext

from mysql_mimic.constants import DEFAULT_SERVER_CAPABILITIES
from mysql_mimic.control import LocalControl, TooManyConnections
from mysql_mimic.server import MysqlServer
from mysql_mimic.stream import ConnectionClosed
from mysql_mimic.types import Capabilities

from console.sql.door import errors
from console.sql.door.commands import DoorSession
from console.sql.door.errors import DoorError
from console.sql.door.hardening import DoorConnection, FindAccount
from console.sql.door.stream import BoundedStream

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 1000
#: Time for the last words of a connection to reach a client, seconds; then it is cut off.
LAST_WORDS_S = 2.0
#: Time for all connections to end when the door stops, seconds.
_STOP_S = 6.0
#: Connections that may wait to be accepted: a pool of a client opens many at once.
_BACKLOG = 1024
#: Without LONG_FLAG Connector/J reads the flags of a column as one byte, and its decimals as 0.
_CAPABILITIES = DEFAULT_SERVER_CAPABILITIES | Capabilities.CLIENT_LONG_FLAG | Capabilities.CLIENT_TRANSACTIONS


class DoorControl(LocalControl):  # type: ignore[misc]
    """The open connections."""

    async def add(self, connection: DoorConnection) -> int:
        """Count a connection in. Raises TooManyConnections beyond MAX_CONNECTIONS."""
        if len(self._connections) >= MAX_CONNECTIONS:
            raise TooManyConnections
        connection_id: int = await super().add(connection)
        return connection_id

    @property
    def connections(self) -> dict[int, DoorConnection]:
        """The open connections by id."""
        return dict(self._connections)


class DoorServer(MysqlServer):  # type: ignore[misc]
    """Listens, and makes a DoorConnection of whoever comes."""

    control: DoorControl

    def __init__(
        self, session_factory: Callable[[], DoorSession], find_account: FindAccount, ssl: SSLContext | None
    ) -> None:
        super().__init__(session_factory, _CAPABILITIES, DoorControl(), ssl=ssl, backlog=_BACKLOG)
        self._find_account = find_account
        self._tasks: set[asyncio.Task[None]] = set()

    async def _client_connected_cb(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        connection = DoorConnection(
            self._find_account,
            stream=BoundedStream(reader, writer),
            session=self.session_factory(),
            control=self.control,
            server_capabilities=self.capabilities,
            ssl=self.ssl,
        )
        try:
            connection.connection_id = await self.control.add(connection)
            await connection.start()
        except TooManyConnections:
            with suppress(ConnectionClosed, ConnectionError):
                await connection.tell(
                    DoorError(errors.TOO_MANY_CONNECTIONS, f"{MAX_CONNECTIONS} connections are open.")
                )
        except (ConnectionClosed, ConnectionError, asyncio.CancelledError) as error:
            log.info("connection %s ended: %r", connection.connection_id, error)
        except Exception:
            log.exception("connection %s failed", connection.connection_id)
        finally:
            # The task of a connection never ends as cancelled: asyncio's streams would take that for a failure.
            with suppress(asyncio.CancelledError):
                await _close(writer)
            await self.control.remove(connection.connection_id)

    async def stop(self) -> None:
        """Stop listening, end every connection, wait until the last one is gone."""
        self.close()
        for connection in self.control.connections.values():
            connection.kill()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_S)
            for connection in self.control.connections.values():
                connection.stream.writer.transport.abort()
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self.wait_closed()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; a client that does not take the rest is cut off."""
    writer.close()
    try:
        async with asyncio.timeout(LAST_WORDS_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
