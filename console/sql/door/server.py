"""The listening side: counts connections, makes a DoorConnection of whoever comes, stops in order."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext

from mysql_mimic.constants import DEFAULT_SERVER_CAPABILITIES
from mysql_mimic.control import LocalControl
from mysql_mimic.server import MysqlServer
from mysql_mimic.stream import ConnectionClosed
from mysql_mimic.types import Capabilities

from console.sql.door import errors
from console.sql.door.commands import DoorSession
from console.sql.door.errors import DoorError
from console.sql.door.hardening import Account, DoorConnection, FindAccount
from console.sql.door.room import Room
from console.sql.door.stream import BoundedStream
from console.sql.door.turns import Turns
from console.web.proxies import network_of

log = logging.getLogger(__name__)

#: Connections that are signed in, and of these those from one address.
MAX_CONNECTIONS, MAX_OF_A_PEER = 1000, 500
#: Connections that have not signed in yet. One more ends the oldest of the address that has the most of them.
MAX_UNSIGNED = 256
#: Time for the last words of a connection to reach a client, seconds; then it is cut off.
LAST_WORDS_S = 2.0
#: Time for all connections to end when the door stops, seconds.
_STOP_S = 6.0
#: Connections that may wait to be accepted: a pool of a client opens many at once.
_BACKLOG = 1024
#: Without LONG_FLAG Connector/J reads the flags of a column as one byte, and its decimals as 0.
_CAPABILITIES = DEFAULT_SERVER_CAPABILITIES | Capabilities.CLIENT_LONG_FLAG | Capabilities.CLIENT_TRANSACTIONS


class DoorControl(LocalControl):  # type: ignore[misc]
    """The open connections: those that have signed in, by peer and by account, and apart from them the others."""

    def __init__(self) -> None:
        super().__init__()
        self._signed: dict[int, tuple[str, str]] = {}
        self.turns, self.room = Turns(), Room()

    async def add(self, connection: DoorConnection) -> int:
        """Take a connection in, before it has signed in; the oldest of those of its kind makes room."""
        self._make_room()
        connection_id: int = self._new_connection_id()
        while connection_id in self._connections:  # the numbers begin anew after 65,536
            connection_id = self._new_connection_id()
        self._connections[connection_id] = connection
        return connection_id

    async def remove(self, connection_id: int) -> None:
        """A connection has ended."""
        self._signed.pop(connection_id, None)
        await super().remove(connection_id)

    def sign_in(self, connection: DoorConnection, account: Account) -> None:
        """Count a connection as the account's. Raises DoorError when there are enough: in all, of its peer, of it."""
        self.sign_out(connection)
        peer = network_of(connection.stream.peer)
        if len(self._signed) >= MAX_CONNECTIONS:
            raise DoorError(errors.TOO_MANY_CONNECTIONS, f"{MAX_CONNECTIONS} connections are open.")
        if sum(1 for other, _ in self._signed.values() if other == peer) >= MAX_OF_A_PEER:
            raise DoorError(errors.TOO_MANY_OF_YOURS, f"{MAX_OF_A_PEER} connections from {peer} are open.")
        if account.most_connections and self.used().get(account.tenant, 0) >= account.most_connections:
            raise DoorError(
                errors.TOO_MANY_OF_YOURS,
                f"The account has {account.most_connections} connections open; the platform's administrator sets this"
                " limit.",
            )
        self._signed[connection.connection_id] = peer, account.tenant

    def sign_out(self, connection: DoorConnection) -> None:
        """It is nobody's until it signs in again."""
        self._signed.pop(connection.connection_id, None)

    def holder(self, connection: DoorConnection) -> str:
        """Whom what a connection costs is counted for: its account, or its peer's address when it has none."""
        peer, tenant = self._signed.get(connection.connection_id, ("", ""))
        return tenant or peer or network_of(connection.stream.peer)

    def kept(self, holder: str) -> int:
        """Bytes that the holder's connections keep for later."""
        every = ((self._connections.get(number), owner) for number, owner in self._signed.items())
        return sum(c.kept for c, (peer, tenant) in every if c is not None and (tenant or peer) == holder)

    def used(self) -> Counter[str]:
        """How many connections each account has."""
        return Counter(tenant for _, tenant in self._signed.values() if tenant)

    @property
    def connections(self) -> dict[int, DoorConnection]:
        """The open connections by id."""
        return dict(self._connections)

    def _make_room(self) -> None:
        waiting = [connection for number, connection in self._connections.items() if number not in self._signed]
        if len(waiting) < MAX_UNSIGNED:
            return
        peers = Counter(network_of(connection.stream.peer) for connection in waiting)
        most = peers.most_common(1)[0][0]
        oldest = next(connection for connection in waiting if network_of(connection.stream.peer) == most)
        log.warning("connection %s from %s made room: it had not signed in", oldest.connection_id, most)
        self._connections.pop(oldest.connection_id)
        oldest.kill()
        oldest.stream.writer.transport.abort()


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
