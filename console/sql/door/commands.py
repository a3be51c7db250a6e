"""The commands of the protocol but for prepared statements (MySQL internals, Text Protocol and Utility Commands)."""

from __future__ import annotations

from typing import Any

from mysql_mimic import packets, types
from mysql_mimic.session import BaseSession

from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.parameters import Value, read_query
from console.sql.door.prepared import PreparedStatements
from console.sql.door.reader import Reader
from console.sql.door.results import DONE, Column, Result
from console.sql.door.variables import SessionVariables
from console.sql.door.writing import column_definition

_MULTI_STATEMENTS_ON = 0
_AUTOCOMMIT, _NOTHING = types.ServerStatus.SERVER_STATUS_AUTOCOMMIT, types.ServerStatus(0)


class DoorSession(BaseSession):  # type: ignore[misc]
    """What answers a connection; a subclass says who may sign in and what statements do."""

    #: Warnings of the last statement, told with its answer.
    warning_count = 0

    def __init__(self) -> None:
        self.variables = SessionVariables()
        self.username: str | None = None
        self.database: str | None = None
        self.connection: Any = None

    async def init(self, connection: Any) -> None:
        """The connection that this session belongs to, before sign-in."""
        self.connection = connection

    async def sign_in(self, account: Any, schema: str | None) -> None:
        """Make `account` the session's user. Raises DoorError when it may not use `schema`."""
        raise DoorError(errors.ACCESS_DENIED, "Nobody may sign in.")

    async def forget(self) -> None:
        """Nobody is signed in any more, and nothing of who was is left."""
        self.username = self.database = None
        await self.reset()

    async def sign_in_refused(self, account: Any) -> None:
        """A wrong password was given for `account`."""

    async def execute(self, text: str, parameters: tuple[Value, ...]) -> Result:
        """Answer one statement. Whoever asked closes the rows."""
        return DONE

    async def columns_of(self, table: str) -> list[tuple[Any, ...]]:
        """Rows of `show columns`, for COM_FIELD_LIST."""
        return []

    async def kill(self, connection_id: int, *, query_only: bool) -> None:
        """End another connection of the same user, or its statement."""

    def statistics(self) -> str:
        """One line for COM_STATISTICS."""
        return ""

    async def reset(self) -> None:
        """COM_RESET_CONNECTION and COM_CHANGE_USER: variables are as at the beginning."""
        self.variables.reset()


class Commands(PreparedStatements):
    """What a signed-in client may ask for."""

    session: DoorSession

    @property
    def status_flags(self) -> types.ServerStatus:
        """The status that goes with every answer: nothing is ever in a transaction."""
        return _AUTOCOMMIT if self.session.variables.get("autocommit") else _NOTHING

    @status_flags.setter
    def status_flags(self, flags: types.ServerStatus) -> None:
        """The library sets what here follows from the session."""

    async def handle_query(self, data: bytes) -> None:
        """COM_QUERY: one statement as text."""
        text = read_query(data, self.capabilities, self.client_charset.decode)
        result = await self.session.execute(text, ())
        if result:
            await self.write_text_result(result)
        else:
            await self.write_done(result)

    async def handle_init_db(self, data: bytes) -> None:
        """COM_INIT_DB: the default schema."""
        await self.session.use(self.client_charset.decode(data))
        await self.stream.write(self.ok())

    async def handle_reset_connection(self, data: bytes) -> None:
        """COM_RESET_CONNECTION: same user; prepared statements and variables are gone."""
        await self.forget_statements()
        await self.session.reset()
        await self.stream.write(self.ok())

    async def handle_field_list(self, data: bytes) -> None:
        """COM_FIELD_LIST, for the completion of command lines: one packet a column."""
        table = self.client_charset.decode(Reader(data).bytes_to_null())
        for row in await self.session.columns_of(table):
            definition = column_definition(Column(str(row[0])), self.results_charset, table)
            await self.stream.write(definition + b"\xfb", drain=False)  # 0xfb: the default is null
        await self.stream.write(self.ok_or_eof())

    async def handle_statistics(self, data: bytes) -> None:
        """COM_STATISTICS, for the command `status` of command lines: a line of text, no OK."""
        await self.stream.write(self.session.statistics().encode())

    async def handle_set_option(self, data: bytes) -> None:
        """COM_SET_OPTION: several statements in one text stay off."""
        if Reader(data).integer(2) == _MULTI_STATEMENTS_ON:
            raise DoorError(errors.NOT_OFFERED, "Several statements in one text are not offered; send them one by one.")
        await self.stream.write(packets.make_eof(capabilities=self.capabilities, status_flags=self.status_flags))

    async def handle_process_kill(self, data: bytes) -> None:
        """COM_PROCESS_KILL, the older form of KILL."""
        await self.session.kill(Reader(data).integer(4), query_only=False)
        await self.stream.write(self.ok())
