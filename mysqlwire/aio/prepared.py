"""Prepared statements of one connection (page Prepared Statements): texts, values that were sent ahead, cursors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from mysqlwire.aio.limits import Limits
from mysqlwire.aio.results import Answers, Result
from mysqlwire.aio.session import Session
from mysqlwire.aio.stream import ConnectionClosedError
from mysqlwire.protocol import commands, errors
from mysqlwire.protocol.commands import MOST_PARAMETERS, Binding
from mysqlwire.protocol.errors import SqlError
from mysqlwire.protocol.texts import count_placeholders

_NUMBERS = 1 << 32


@dataclass(slots=True)
class Statement:
    """A prepared statement; `kept` is what its text takes, in bytes."""

    text: str
    parameters: int
    kept: int
    binding: Binding = field(default_factory=Binding)
    cursor: Result | None = None


class PreparedStatements:
    """The COM_STMT_… commands. `may_keep` is asked before so many bytes more are kept.

    Parameters stay values: they are never pasted into the text.
    """

    def __init__(self, session: Session, answers: Answers, limits: Limits, may_keep: Callable[[int], bool]) -> None:
        self.statements: dict[int, Statement] = {}
        #: Bytes of prepared texts and of long data.
        self.kept = 0
        self._session = session
        self._answers = answers
        self._limits = limits
        self._may_keep = may_keep
        self._last_number = 0

    async def forget(self) -> None:
        """Close all of them: after a change of user or a reset, and at the end."""
        forgotten = list(self.statements.values())
        self.statements.clear()
        self.kept = 0
        for statement in forgotten:
            await _close_cursor(statement)

    async def prepare(self, data: bytes) -> None:
        """COM_STMT_PREPARE: the text is kept, its `?` are counted. Raises SqlError for one that is too much."""
        if len(self.statements) >= self._limits.statements:
            raise SqlError(errors.TOO_MANY_STATEMENTS, f"{self._limits.statements} prepared statements are open.")
        text, most = self._session.client_charset.decode(data), self._limits.statement_characters
        if len(text) > most:
            raise SqlError(errors.SYNTAX, f"The statement has {len(text)} characters; {most} are allowed.")
        parameters = count_placeholders(text)
        if parameters > MOST_PARAMETERS:
            raise SqlError(errors.TOO_MANY_PARAMETERS, f"A statement has at most {MOST_PARAMETERS} parameters.")
        size = sys.getsizeof(text)
        if not self._keep(size):
            raise SqlError(errors.TOO_MANY_STATEMENTS, "The prepared statements are too long together; close some.")
        number = self._new_number()
        self.statements[number] = Statement(text, parameters, size)
        await self._answers.prepared(number, parameters)

    async def send_long_data(self, data: bytes) -> None:
        """COM_STMT_SEND_LONG_DATA: has no answer. What is for no parameter is dropped.

        Raises ConnectionClosedError for too much: nothing else would tell the client.
        """
        piece = commands.read_long_data(data)
        statement = self.statements.get(piece.statement_id)
        if statement is None or piece.parameter >= statement.parameters:
            return
        if not self._keep(len(piece.data)):
            raise ConnectionClosedError("too much long data")
        statement.binding.long_data.setdefault(piece.parameter, bytearray()).extend(piece.data)

    async def execute(self, data: bytes) -> None:
        """COM_STMT_EXECUTE: values and text go to the session, its rows to the client or into a cursor."""
        statement = self._statement(commands.read_statement_id(data))
        execution = commands.read_execution(
            data[4:],
            statement.parameters,
            statement.binding,
            self._answers.capabilities,
            self._session.client_charset,
        )
        self._forget_long_data(statement)
        await _close_cursor(statement)
        if execution.use_cursor and self._cursors() >= self._limits.cursors:
            raise SqlError(errors.TOO_MANY_STATEMENTS, f"{self._limits.cursors} cursors are open; close one first.")
        result = await self._session.execute(statement.text, execution.values)
        if result and execution.use_cursor:
            statement.cursor = result
            await self._answers.cursor_opened(result)
        else:
            await self._answers.binary(result)

    async def fetch(self, data: bytes) -> None:
        """COM_STMT_FETCH: the next rows of a cursor; one behind its end is answered with no rows."""
        wanted = commands.read_fetch(data)
        statement = self._statement(wanted.statement_id)
        if statement.cursor is None:
            raise SqlError(errors.UNKNOWN_STATEMENT, "The statement has no open cursor.")
        try:
            ended = await self._answers.fetched(statement.cursor, wanted.rows)
        except BaseException:
            await _close_cursor(statement)
            raise
        if ended:
            await statement.cursor.rows.close()

    async def reset(self, data: bytes) -> None:
        """COM_STMT_RESET: forget values that were sent ahead, and the cursor."""
        statement = self._statement(commands.read_statement_id(data))
        await _close_cursor(statement)
        self._forget_long_data(statement)
        await self._answers.ok()

    async def close(self, data: bytes) -> None:
        """COM_STMT_CLOSE: has no answer, not even an error."""
        statement = self.statements.pop(int.from_bytes(data[:4], "little"), None)
        if statement is not None:
            self.kept -= statement.kept
            self._forget_long_data(statement)
            await _close_cursor(statement)

    def _keep(self, size: int) -> bool:
        """Count so many bytes more; False, and nothing is counted, where they are too many."""
        if self.kept + size > self._limits.kept or not self._may_keep(size):
            return False
        self.kept += size
        return True

    def _statement(self, number: int) -> Statement:
        statement = self.statements.get(number)
        if statement is None:
            raise SqlError(errors.UNKNOWN_STATEMENT, f"There is no prepared statement {number}.")
        return statement

    def _cursors(self) -> int:
        return sum(1 for statement in self.statements.values() if statement.cursor is not None)

    def _forget_long_data(self, statement: Statement) -> None:
        self.kept -= sum(map(len, statement.binding.long_data.values()))
        statement.binding.long_data.clear()

    def _new_number(self) -> int:
        self._last_number = (self._last_number + 1) % _NUMBERS
        while self._last_number in self.statements:
            self._last_number = (self._last_number + 1) % _NUMBERS
        return self._last_number


async def _close_cursor(statement: Statement) -> None:
    result, statement.cursor = statement.cursor, None
    if result is not None:
        await result.rows.close()
