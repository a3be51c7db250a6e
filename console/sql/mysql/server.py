"""The MySQL endpoint: its start and stop, who may connect, and what the connections of an account share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ssl import SSLContext
from typing import Protocol
from weakref import WeakValueDictionary

from redis.exceptions import RedisError

from console.rights import limits
from console.sql.mysql import auth, errors
from console.sql.mysql.auth import SqlAccount
from console.sql.mysql.errors import EndpointError
from console.sql.mysql.session import SqlSession
from console.sql.mysql.shared import Shared
from console.sql.mysql.variables import LARGE, LIMITS, MOST_KEPT_OF_ACCOUNT, EndpointSession
from console.statements.parsers import parsers
from console.web.connections import network_of
from mysqlwire.aio.server import Server
from mysqlwire.aio.session import Client, Control
from mysqlwire.protocol.handshake import DoubleHashes

log = logging.getLogger(__name__)

#: Bytes of large packets of one account that are read or worked for at a time.
MOST_OF_ACCOUNT = 32 * 1024 * 1024

#: Connections that are signed in, and of these those from one address.
MAX_CONNECTIONS, MAX_OF_A_PEER = 1000, 500
#: Connections that have not signed in yet. One more ends the oldest of the address that has the most of them.
MAX_UNSIGNED = 256

#: How often the open connections of each account are written down, seconds.
TELL_EVERY_S = 5.0


class Room:
    """Memory for large packets, in bytes: one account has so much of it, and what comes beyond waits unread."""

    def __init__(self) -> None:
        self._reserved: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def of(self, account: str, size: int) -> AsyncIterator[None]:
        """Wait until the account has room for so many bytes, and hold it."""
        size = min(size, MOST_OF_ACCOUNT)
        async with self._changed:
            await self._changed.wait_for(lambda: self._reserved[account] + size <= MOST_OF_ACCOUNT)
            self._reserved[account] += size
        try:
            yield
        finally:
            self._reserved[account] -= size
            self._reserved += Counter()  # forgets who has none
            async with self._changed:
                self._changed.notify_all()


class Turns:
    """Whose command is next: in a round of the event loop one of each account, however many connections it has.

    Commands that a client sends without waiting for answers lie in memory when they are read: without a turn they would
    be answered one after the other, and nobody else in between.
    """

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def waiting(self) -> int:
        """Accounts that wait for a turn."""
        return len(self._lines)

    async def wait(self, account: str) -> None:
        """Wait for the account's next turn, at least until all others that are ready have had theirs."""
        line = self._lines.get(account)
        if line is None:
            line = self._lines[account] = asyncio.Lock()
        async with line:
            await asyncio.sleep(0)


class Account(Protocol):
    """Whoever may sign in."""

    @property
    def hashes(self) -> DoubleHashes:
        """What the password is checked against."""

    @property
    def tenant(self) -> str:
        """The tenant that its connections are counted for; empty for nobody."""

    @property
    def most_connections(self) -> int:
        """How many the tenant may have open at this endpoint; 0 is no limit."""


class EndpointControl(Control):
    """The open connections: those that have signed in, by peer and by account, and apart from them the others."""

    def __init__(self) -> None:
        super().__init__()
        self._signed: dict[int, tuple[str, str]] = {}
        self._turns, self._room = Turns(), Room()

    def add(self, connection: Client) -> int:
        """Take a connection in, before it has signed in; the oldest of those of its kind makes room."""
        self._make_room()
        return super().add(connection)

    def remove(self, connection: Client) -> None:
        """A connection has ended."""
        self._signed.pop(connection.connection_id, None)
        super().remove(connection)

    async def turn(self, connection: Client) -> None:
        """In a round of the event loop one command of each account begins."""
        await self._turns.wait(self.holder(connection))

    def room(self, connection: Client, size: int) -> AbstractAsyncContextManager[None]:
        """Wait until the account has room for a packet of so many bytes, and hold it."""
        return self._room.of(self.holder(connection), size)

    def may_keep(self, connection: Client, size: int) -> bool:
        """True when the account may keep so many bytes more over all its connections; few are not weighed."""
        few = connection.kept + size <= LARGE
        return few or self.kept(self.holder(connection)) + size <= MOST_KEPT_OF_ACCOUNT

    def sign_in(self, connection: Client, account: Account) -> None:
        """Count a connection as the account's. Raises EndpointError with too many open: in all, of its peer, of it."""
        self.sign_out(connection)
        peer = network_of(connection.stream.peer)
        if len(self._signed) >= MAX_CONNECTIONS:
            raise EndpointError(errors.TOO_MANY_CONNECTIONS, f"{MAX_CONNECTIONS} connections are open.")
        if sum(1 for other, _ in self._signed.values() if other == peer) >= MAX_OF_A_PEER:
            raise EndpointError(errors.TOO_MANY_OF_YOURS, f"{MAX_OF_A_PEER} connections from {peer} are open.")
        if account.most_connections and self.used().get(account.tenant, 0) >= account.most_connections:
            raise EndpointError(
                errors.TOO_MANY_OF_YOURS,
                f"The account has {account.most_connections} connections open; the platform's administrator sets this"
                " limit.",
            )
        self._signed[connection.connection_id] = peer, account.tenant

    def sign_out(self, connection: Client) -> None:
        """It is nobody's until it signs in again."""
        self._signed.pop(connection.connection_id, None)

    def holder(self, connection: Client) -> str:
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
        oldest.stream.abort()


class EndpointServer(Server):
    """Listens, and makes a connection of whoever comes, with a session each."""

    control: EndpointControl

    def __init__(
        self,
        make_session: Callable[[], EndpointSession],
        find_account: Callable[[str], Awaitable[Account | None]],
        tls: SSLContext | None,
    ) -> None:
        super().__init__(make_session, find_account, tls=tls, control=EndpointControl(), limits=LIMITS)


class MySqlEndpoint:
    """Signs clients in, answers their statements, and ends in order whatever it has begun."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self._shared = Shared(lambda: self.server.control.connections)
        self._telling: asyncio.Task[None] | None = None
        self.server = EndpointServer(lambda: SqlSession(self._shared), self._find_account, context)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address. Raises OSError when the port is in use."""
        await asyncio.to_thread(parsers.warm)
        address = await self.server.start(host, port)
        self._telling = asyncio.create_task(self._tell(f"{socket.gethostname()}:{address[1]}"), name="mysql-use")
        return address

    async def stop(self) -> None:
        """Stop listening, end every connection and statement, then the threads."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])
        await self.server.stop()
        await self._shared.waiter.close()
        shared = self._shared
        for threads in (shared.threads, shared.sign_in_threads, shared.own_threads, shared.files.threads):
            await asyncio.to_thread(threads.close)

    async def _find_account(self, name: str) -> SqlAccount | None:
        return await self._shared.sign_in_threads.run(auth.find_account, name)

    async def _tell(self, name: str) -> None:
        """Write down for ever what each account has open, for the page that shows its limits."""
        while True:
            try:
                used = self.server.control.used()
                await self._shared.own_threads.run(limits.tell_sql_connections, name, used)
            except RedisError as error:
                log.info("the open connections cannot be written down: %s", error)
            await asyncio.sleep(TELL_EVERY_S)
