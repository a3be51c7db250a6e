"""Prepared statements: parameters stay values, no stray EOF, cursors that keep every row.

Mends of mysql-mimic 3.0.5, which pastes the parameters into the text unescaped (injection), sends an EOF that
libmysqlclient does not expect, wants the types with every execution, loses a row at each end of a fetch, and gathers
long data without bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mysql_mimic import packets, types
from mysql_mimic.connection import Connection
from mysql_mimic.prepared import PreparedStatement
from mysql_mimic.results import ResultSet, ensure_result_set
from mysql_mimic.stream import ConnectionClosed

from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.parameters import Binding, count_placeholders, read_execution
from console.sql.door.stream import AFTER_SIGN_IN, BoundedStream

#: Prepared statements that one connection may keep open.
MAX_STATEMENTS = 1000


class PreparedStatements(Connection):  # type: ignore[misc]
    """The COM_STMT_… half of a connection."""

    stream: BoundedStream

    def __init__(self, **stock: Any) -> None:
        super().__init__(**stock)
        self._bindings: dict[int, Binding] = {}

    def forget_statements(self) -> None:
        """Close all prepared statements: after a change of user or a reset."""
        self.prepared_stmts.clear()
        self._bindings.clear()

    async def handle_stmt_prepare(self, data: bytes) -> None:
        """COM_STMT_PREPARE: the text is kept, its `?` are counted."""
        if len(self.prepared_stmts) >= MAX_STATEMENTS:
            raise DoorError(errors.TOO_MANY_STATEMENTS, f"{MAX_STATEMENTS} prepared statements are open.")
        text = self.client_charset.decode(data)
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
        for _ in range(statement.num_params):
            yield packets.make_column_definition_41(server_charset=self.server_charset, name="?")
        if statement.num_params and not self.deprecate_eof():
            yield self.eof()

    async def handle_stmt_send_long_data(self, data: bytes) -> None:
        """COM_STMT_SEND_LONG_DATA: has no answer; more than a packet's worth in all ends the connection."""
        chunk = packets.parse_com_stmt_send_long_data(data)
        binding = self._bindings.get(chunk.stmt_id)
        if binding is not None:
            binding.long_data.setdefault(chunk.param_id, bytearray()).extend(chunk.data)
            if sum(map(len, binding.long_data.values())) > AFTER_SIGN_IN:
                raise ConnectionClosed("too much long data")

    async def handle_stmt_execute(self, data: bytes) -> None:
        """COM_STMT_EXECUTE: the values go on as values, the text as it was prepared."""
        statement, binding = self._prepared(int.from_bytes(data[:4], "little"))
        execution = read_execution(
            data[4:], statement.num_params, binding, self.capabilities, self.client_charset.decode
        )
        binding.long_data.clear()
        result = await ensure_result_set(await self.session.execute(statement.sql, execution.values))
        if not result:
            await self.stream.write(self.ok())
            return
        await self._write_columns(result)
        rows = iter([packets.make_binary_resultrow(row, result.columns) for row in result.rows])
        if execution.use_cursor:
            statement.cursor = rows
            await self.stream.write(self.ok_or_eof(flags=types.ServerStatus.SERVER_STATUS_CURSOR_EXISTS))
            return
        if not self.deprecate_eof():
            await self.stream.write(self.eof(), drain=False)
        self.stream.write_many(list(rows))
        await self.stream.write(self.ok_or_eof())

    async def _write_columns(self, result: ResultSet) -> None:
        await self.stream.write(types.uint_len(len(result.columns)), drain=False)
        for column in result.columns:
            definition = packets.make_column_definition_41(
                server_charset=self.server_charset,
                name=column.name,
                column_type=column.type,
                character_set=column.character_set,
            )
            await self.stream.write(definition, drain=False)

    async def handle_stmt_fetch(self, data: bytes) -> None:
        """COM_STMT_FETCH: the next rows of a cursor. The stock method loses a row at each end of a fetch."""
        request = packets.parse_handle_stmt_fetch(data)
        statement, _ = self._prepared(request.stmt_id)
        if statement.cursor is None:
            raise DoorError(errors.UNKNOWN_STATEMENT, "The statement has no open cursor.")
        rows = [row for _, row in zip(range(request.num_rows), statement.cursor, strict=False)]
        self.stream.write_many(rows)
        last = len(rows) < request.num_rows
        flags = (
            types.ServerStatus.SERVER_STATUS_LAST_ROW_SENT if last else types.ServerStatus.SERVER_STATUS_CURSOR_EXISTS
        )
        await self.stream.write(self.ok_or_eof(flags=flags))

    async def handle_stmt_reset(self, data: bytes) -> None:
        """COM_STMT_RESET: forget values and cursor."""
        statement, binding = self._prepared(int.from_bytes(data[:4], "little"))
        statement.cursor = None
        binding.long_data.clear()
        await self.stream.write(self.ok())

    async def handle_stmt_close(self, data: bytes) -> None:
        """COM_STMT_CLOSE: has no answer."""
        statement_id = int.from_bytes(data[:4], "little")
        self.prepared_stmts.pop(statement_id, None)
        self._bindings.pop(statement_id, None)

    def _prepared(self, statement_id: int) -> tuple[PreparedStatement, Binding]:
        statement = self.prepared_stmts.get(statement_id)
        if statement is None:
            raise DoorError(errors.UNKNOWN_STATEMENT, f"There is no prepared statement {statement_id}.")
        return statement, self._bindings[statement_id]
