"""What an application gives: a session, which answers one connection, and a control, which weighs all of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import Enum
from typing import Any, Protocol

from mysqlwire.aio.results import DONE, Result
from mysqlwire.aio.stream import Stream
from mysqlwire.protocol import errors
from mysqlwire.protocol.answers import Column
from mysqlwire.protocol.charsets import UTF8MB4, CharacterSet
from mysqlwire.protocol.commands import Value
from mysqlwire.protocol.constants import Status
from mysqlwire.protocol.errors import SqlError
from mysqlwire.protocol.handshake import DoubleHashes

#: Numbers of connections have four bytes, and none is 0.
_NUMBERS = (1 << 32) - 1


class Account(Protocol):
    """Whoever may sign in."""

    @property
    def hashes(self) -> DoubleHashes:
        """What the password is checked against."""


class Kill(Enum):
    """What is to end: the statement that runs, or the whole connection."""

    QUERY = "query"
    CONNECTION = "connection"


class Client(Protocol):
    """A connection (`mysqlwire.aio.connection`), as its session and the control know it."""

    stream: Stream
    session: Session
    control: Control
    #: The number that `kill` knows it by; given when the control takes it in.
    connection_id: int
    #: What the client says of itself at sign-in, such as its program.
    attributes: dict[str, str]

    @property
    def kept(self) -> int:
        """Bytes that are kept for later: prepared texts and long data."""

    def kill(self, kind: Kill = Kill.CONNECTION) -> None:
        """Stop the running statement, or the connection; a statement that does not run cannot be killed."""


class Session:
    """Answers one connection; a subclass says who may sign in and what statements do.

    Every method may raise SqlError, which the client is told. Nothing is called while another call of the same session
    is under way, except the properties.
    """

    #: What the greeting says; clients judge by its beginning what may be asked.
    version = "8.0.36"

    def __init__(self) -> None:
        self.username: str | None = None
        self.database: str | None = None
        #: The connection that this session belongs to, there from `connected` on.
        self.connection: Client
        self._charset = UTF8MB4

    def connected(self, connection: Client) -> None:
        """Somebody is there, and has not signed in."""
        self.connection = connection

    # --- What goes with every answer ----------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """The state of the server for this client; no transaction is ever open."""
        return Status.AUTOCOMMIT

    @property
    def warning_count(self) -> int:
        """Warnings of the last statement, told with its answer."""
        return 0

    @property
    def client_charset(self) -> CharacterSet:
        """What the client's texts are in (`character_set_client`)."""
        return self._charset

    @property
    def results_charset(self) -> CharacterSet:
        """What texts are sent in (`character_set_results`)."""
        return self._charset

    def use_charset(self, charset: CharacterSet) -> None:
        """The client says at sign-in what it speaks."""
        self._charset = charset

    # --- Who it is ----------------------------------------------------------------------------------------------------

    async def sign_in(self, account: Any, schema: str | None) -> None:
        """Make `account` the session's user. Raises SqlError when it may not use `schema`."""
        raise SqlError(errors.ACCESS_DENIED, "Nobody may sign in.")

    async def sign_in_refused(self, account: Any) -> None:
        """A wrong password was given for `account`."""

    async def forget(self) -> None:
        """Nobody is signed in any more, and nothing of who was is left."""
        self.username = self.database = None
        await self.reset()

    async def reset(self) -> None:
        """All that the client has set is as at the beginning; user, schema and character set stay."""

    async def close(self) -> None:
        """The connection has ended."""

    # --- What it asks -------------------------------------------------------------------------------------------------

    async def execute(self, text: str, parameters: tuple[Value, ...]) -> Result:
        """Answer one statement. Whoever asked closes the rows."""
        return DONE

    async def use(self, database: str) -> None:
        """Change the default schema."""
        self.database = database

    async def columns(self, table: str, pattern: str) -> Sequence[Column]:
        """The columns of a table whose names are like a pattern, all for an empty one."""
        return ()

    async def kill(self, connection_id: int, *, query_only: bool) -> None:
        """End another connection of the same user, or its statement."""
        raise SqlError(errors.NOT_SUPPORTED_YET, "No connection can be killed.")

    def statistics(self) -> str:
        """One line for COM_STATISTICS."""
        return ""


class Control:
    """The open connections by number. A subclass says how many there may be, and shares out what they take.

    A connection is added when it comes and removed when it has ended; in between it may be somebody's, from `sign_in`
    to `sign_out`, more than once.
    """

    def __init__(self) -> None:
        self._connections: dict[int, Client] = {}
        self._last_number = secrets.randbelow(_NUMBERS)

    @property
    def connections(self) -> dict[int, Client]:
        """The open connections by number; a copy."""
        return dict(self._connections)

    def add(self, connection: Client) -> int:
        """Take a connection in, before it has signed in; returns its number. Raises SqlError to turn it away."""
        number = self._new_connection_id()
        while number in self._connections:
            number = self._new_connection_id()
        self._connections[number] = connection
        return number

    def remove(self, connection: Client) -> None:
        """A connection has ended."""
        if self._connections.get(connection.connection_id) is connection:
            del self._connections[connection.connection_id]

    def sign_in(self, connection: Client, account: Any) -> None:
        """The password was right: the connection is the account's. Raises SqlError when it is one too many."""

    def sign_out(self, connection: Client) -> None:
        """The connection is nobody's until it signs in again."""

    async def turn(self, connection: Client) -> None:
        """Wait for the connection's turn to have a command answered.

        Commands that a client sends without waiting for answers lie in memory when they are read: without this they
        would be answered one after the other, and nobody else in between.
        """
        await asyncio.sleep(0)

    def room(self, connection: Client, size: int) -> AbstractAsyncContextManager[None]:
        """Wait until there is room for a packet of so many bytes, and hold it until its command was answered."""
        return nullcontext()

    def may_keep(self, connection: Client, size: int) -> bool:
        """True when the connection may keep so many bytes more than its `kept`; asked when they are within its own."""
        return True

    def _new_connection_id(self) -> int:
        self._last_number = self._last_number % _NUMBERS + 1
        return self._last_number
