"""Prepared statements: parameters stay values, no stray EOF, cursors that keep every row.

Mends of mysql-mimic 3.0.5, which pastes the parameters into the text unescaped (injection), sends an EOF that
libmysqlclient does not expect, wants the types with every execution, loses a row at each end of a fetch, and gathers
long data without bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from mysql_mimic import packets
from mysql_mimic.prepared import PreparedStatement
from mysql_mimic.stream import ConnectionClosed

from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.limits import MOST_KEPT
from console.sql.door.parameters import (
    MOST_PARAMETERS,
    Binding,
    count_placeholders,
    has_too_many_placeholders,
    read_execution,
)
from console.sql.door.reader import Reader
from console.sql.door.results import Result
from console.sql.door.writing import ResultWriter
from console.sql.services import LONGEST_STATEMENT

#: Prepared statements that one connection may keep open.
MAX_STATEMENTS = 1000
#: Cursors that one connection may keep open: each holds a result file.
MAX_CURSORS = 16


class PreparedStatements(ResultWriter):
    """The COM_STMT_… half of a connection."""

    def __init__(self, **stock: Any) -> None:
        super().__init__(**stock)
        self._bindings: dict[int, Binding] = {}
        self._cursors: dict[int, Result] = {}
        #: Bytes of prepared texts and of long data.
        self.kept = 0

    def keep(self, size: int) -> bool:
        """Count so many bytes more; False, and nothing is counted, where they are too many."""
        if self.kept + size > MOST_KEPT:
            return False
        self.kept += size
        return True

    async def forget_statements(self) -> None:
        """Close all prepared statements: after a change of user or a reset, and at the end."""
        self.prepared_stmts.clear()
        self._bindings.clear()
        self.kept = 0
        for statement_id in list(self._cursors):
            await self._close_cursor(statement_id)

    async def handle_stmt_prepare(self, data: bytes) -> None:
        """COM_STMT_PREPARE: the text is kept, its `?` are counted."""
        if len(self.prepared_stmts) >= MAX_STATEMENTS:
            raise DoorError(errors.TOO_MANY_STATEMENTS, f"{MAX_STATEMENTS} prepared statements are open.")
        text = self._prepared_text(data)
        statement = PreparedStatement(
            stmt_id=next(self.prepared_stmt_seq), sql=text, num_params=count_placeholders(text)
        )
        self.prepared_stmts[statement.stmt_id] = statement
        self._bindings[statement.stmt_id] = Binding()
        for packet in self.com_stmt_prepare_response(statement):
            await self.stream.write(packet, drain=False)
        await self.stream.drain()

    def com_stmt_prepare_response(self, statement: PreparedStatement) -> Iterator[bytes]:
        """No EOF after the parameters for clients that do without: libmysqlclient drops the connection over one."""
        yield packets.make_com_stmt_prepare_ok(statement)
        definition = packets.make_column_definition_41(server_charset=self.server_charset, name="?")
        for _ in range(statement.num_params):
            yield definition
        if statement.num_params and not self.deprecate_eof():
            yield self.eof()

    async def handle_stmt_send_long_data(self, data: bytes) -> None:
        """COM_STMT_SEND_LONG_DATA: has no answer; too much ends the connection. What is for no parameter is dropped."""
        reader = Reader(data)
        statement_id, number = reader.integer(4), reader.integer(2)
        statement = self.prepared_stmts.get(statement_id)
        if statement is None or number >= statement.num_params:
            return
        piece = reader.rest()
        if not self.keep(len(piece)):
            raise ConnectionClosed("too much long data")
        self._bindings[statement_id].long_data.setdefault(number, bytearray()).extend(piece)

    async def handle_stmt_execute(self, data: bytes) -> None:
        """COM_STMT_EXECUTE: the values go on as values, the text as it was prepared."""
        statement, binding = self._prepared(int.from_bytes(data[:4], "little"))
        execution = read_execution(
            data[4:], statement.num_params, binding, self.capabilities, self.client_charset.decode
        )
        self._forget_long_data(binding)
        await self._close_cursor(statement.stmt_id)
        if execution.use_cursor and len(self._cursors) >= MAX_CURSORS:
            raise DoorError(errors.TOO_MANY_STATEMENTS, f"{MAX_CURSORS} cursors are open; close one first.")
        result: Result = await self.session.execute(statement.sql, execution.values)
        if not result:
            await self.write_done(result)
        elif execution.use_cursor:
            self._cursors[statement.stmt_id] = result
            await self.write_cursor_opened(result)
        else:
            await self.write_binary_result(result)

    async def handle_stmt_fetch(self, data: bytes) -> None:
        """COM_STMT_FETCH: the next rows of a cursor. The stock method loses a row at each end of a fetch."""
        reader = Reader(data)
        statement_id, most = reader.integer(4), reader.integer(4)
        self._prepared(statement_id)
        result = self._cursors.get(statement_id)
        if result is None:
            raise DoorError(errors.UNKNOWN_STATEMENT, "The statement has no open cursor.")
        try:
            ended = await self.write_fetched(result, most)
        except BaseException:
            await self._close_cursor(statement_id)
            raise
        if ended:
            await result.rows.close()  # a fetch behind the end is answered with no rows

    async def handle_stmt_reset(self, data: bytes) -> None:
        """COM_STMT_RESET: forget values and cursor."""
        statement, binding = self._prepared(int.from_bytes(data[:4], "little"))
        await self._close_cursor(statement.stmt_id)
        self._forget_long_data(binding)
        await self.stream.write(self.ok())

    async def handle_stmt_close(self, data: bytes) -> None:
        """COM_STMT_CLOSE: has no answer."""
        statement_id = int.from_bytes(data[:4], "little")
        statement, binding = self.prepared_stmts.pop(statement_id, None), self._bindings.pop(statement_id, None)
        if statement is not None and binding is not None:
            self.kept -= sys.getsizeof(statement.sql)
            self._forget_long_data(binding)
        await self._close_cursor(statement_id)

    def _prepared_text(self, data: bytes) -> str:
        """The text of a statement to prepare, counted as kept. Raises DoorError for one that is too much."""
        text: str = self.client_charset.decode(data)
        if len(text) > LONGEST_STATEMENT:
            raise DoorError(
                errors.SYNTAX, f"The statement has {len(text)} characters; {LONGEST_STATEMENT} are allowed."
            )
        if has_too_many_placeholders(text):
            raise DoorError(errors.TOO_MANY_PARAMETERS, f"A statement has at most {MOST_PARAMETERS} parameters.")
        if not self.keep(sys.getsizeof(text)):
            raise DoorError(errors.TOO_MANY_STATEMENTS, "The prepared statements are too long together; close some.")
        return text

    def _forget_long_data(self, binding: Binding) -> None:
        self.kept -= sum(map(len, binding.long_data.values()))
        binding.long_data.clear()

    async def _close_cursor(self, statement_id: int) -> None:
        result = self._cursors.pop(statement_id, None)
        if result is not None:
            await result.rows.close()

    def _prepared(self, statement_id: int) -> tuple[PreparedStatement, Binding]:
        statement = self.prepared_stmts.get(statement_id)
        if statement is None:
            raise DoorError(errors.UNKNOWN_STATEMENT, f"There is no prepared statement {statement_id}.")
        return statement, self._bindings[statement_id]
