"""The listening side: counts connections, makes a DoorConnection of whoever comes, stops in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext

from mysql_mimic.control import LocalControl, TooManyConnections
from mysql_mimic.server import MysqlServer

from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.hardening import DoorConnection, DoorSession, FindAccount
from console.sql.door.stream import BoundedStream

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 1000


class DoorControl(LocalControl):  # type: ignore[misc]
    """The open connections."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = asyncio.Event()
        self.empty.set()

    async def add(self, connection: DoorConnection) -> int:
        """Count a connection in. Raises TooManyConnections beyond MAX_CONNECTIONS."""
        if len(self._connections) >= MAX_CONNECTIONS:
            raise TooManyConnections
        self.empty.clear()
        connection_id: int = await super().add(connection)
        return connection_id

    async def remove(self, connection_id: int) -> None:
        """Count a connection out."""
        await super().remove(connection_id)
        if not self._connections:
            self.empty.set()

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
        super().__init__(session_factory=session_factory, control=DoorControl(), ssl=ssl)
        self._find_account = find_account

    async def _client_connected_cb(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            await connection.tell(DoorError(errors.TOO_MANY_CONNECTIONS, f"{MAX_CONNECTIONS} connections are open."))
        except (ConnectionError, asyncio.CancelledError) as error:
            log.info("connection %s ended: %r", connection.connection_id, error)
        except Exception:
            log.exception("connection %s failed", connection.connection_id)
        finally:
            writer.close()
            await self.control.remove(connection.connection_id)

    async def stop(self) -> None:
        """Stop listening, end every connection, wait until the last one is gone."""
        self.close()
        for connection in self.control.connections.values():
            connection.kill()
        await self.control.empty.wait()
