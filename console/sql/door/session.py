"""A client's session: what each statement is answered with. The event loop runs no query and no database call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from mysql_mimic import context
from mysql_mimic.constants import KillKind
from mysql_mimic.errors import MysqlError
from mysql_mimic.results import ResultSet
from mysql_mimic.variables import SYSTEM_VARIABLES, GlobalVariables, SessionVariables

from console.accounts.actor import Actor
from console.audit.attempts import attempt
from console.sql import catalog, hints, statements
from console.sql.catalog import Answer, UnknownSchemaError, UnknownTableError
from console.sql.constants import Constant, Fact, Variable
from console.sql.door import errors, results, work
from console.sql.door.auth import SqlAccount, load_actor, record_refusal
from console.sql.door.errors import DoorError
from console.sql.door.hardening import DoorConnection, DoorSession
from console.sql.door.parameters import Value
from console.sql.door.stream import AFTER_SIGN_IN
from console.sql.door.waiting import Waiter, in_thread
from console.sql.patterns import like_pattern
from console.web.errors import Refused

log = logging.getLogger(__name__)

#: Column `connection_id` has 14 digits on the vendor's page: the protocol's ten behind a fixed beginning.
_CONNECTION_ID_BASE = 10**13
_VARIABLES = SYSTEM_VARIABLES | {
    "version": (str, "8.0.36-gantry", False),
    "version_comment": (str, "Gantry async SQL", False),
    "license": (str, "Apache-2.0", False),
    "max_allowed_packet": (int, AFTER_SIGN_IN, False),
    "sql_mode": (str, "", True),
    "tx_isolation": (str, "READ-COMMITTED", True),
    "default_storage_engine": (str, "spark", False),
    "default_tmp_storage_engine": (str, "spark", False),
}
Handler = Callable[[Any], Awaitable[Any]]
_CHANGES = (work.submit, work.cancel)


class SqlSession(DoorSession):
    """One signed-in client."""

    def __init__(self, waiter: Waiter) -> None:
        super().__init__(SessionVariables(GlobalVariables(_VARIABLES)))
        self.database: str | None = None
        self._waiter = waiter
        self._account: SqlAccount | None = None
        self._handlers: dict[type, Handler] = {
            statements.ShowTask: self._show_task,
            statements.ListTasks: self._list_tasks,
            statements.CancelTask: self._cancel_task,
            statements.ShowDatabases: self._show_databases,
            statements.ShowTables: self._show_tables,
            statements.ShowColumns: self._show_columns,
            statements.ShowVariables: self._show_variables,
            statements.ShowNothing: self._show_nothing,
            statements.Use: self._use,
            statements.SetVariables: self._set,
            statements.SelectConstants: self._select_constants,
            statements.Transaction: self._transaction,
            statements.Kill: self._kill_statement,
        }

    # --- What the connection asks for -------------------------------------------------------------------------------

    async def sign_in(self, account: SqlAccount, schema: str | None) -> None:
        """Make `account` the user; `schema` must be one it may query."""
        self._account = account
        self.database = None
        if schema:
            await self.use(schema)

    async def sign_in_refused(self, account: SqlAccount) -> None:
        """Put a wrong password into the trail of the account that it was tried on."""
        await in_thread(record_refusal, account, self._door.stream.peer)

    async def use(self, database: str) -> None:
        """Change the default schema. Raises DoorError when the user may query nothing in it."""
        known = await self._in_thread(catalog.schemas, None)
        if (database,) not in known.rows:
            raise DoorError(errors.UNKNOWN_SCHEMA, f"There is no schema {database!r}.")
        self.database = database

    async def columns_of(self, table: str) -> list[tuple[Any, ...]]:
        """Rows of `show columns` of a table of the default schema."""
        answer = await self._in_thread(catalog.columns, self._schema(None), table, None, full=False)
        return list(answer.rows)

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> Any:
        """COM_QUERY: the raw text, before any parser."""
        return await self.execute(sql, ())

    async def execute(self, text: str, parameters: tuple[Value, ...]) -> Any:
        """Answer one statement. Every failure is a MysqlError; what is not ours to show is logged."""
        try:
            return await self._answer(text, parameters)
        except (MysqlError, ConnectionError):
            raise
        except hints.HintError as error:
            raise DoorError(errors.SYNTAX, str(error)) from error
        except Refused as error:
            raise DoorError(errors.refusal_code(error.symbol, self.database or ""), error.message) from error
        except PermissionDenied as error:
            raise DoorError(errors.NOT_PERMITTED, f"Not allowed: {error}.") from error
        except UnknownSchemaError as error:
            raise DoorError(errors.UNKNOWN_SCHEMA, str(error)) from error
        except UnknownTableError as error:
            raise DoorError(errors.UNKNOWN_TABLE, str(error)) from error
        except DatabaseError as error:
            log.exception("the database failed")
            raise DoorError(errors.UNKNOWN, "The console's database does not answer; try again.") from error
        except Exception as error:
            log.exception("a statement failed on connection %s", context.connection_id.get())
            raise DoorError(errors.UNKNOWN, "Internal error; the log of the MySQL door has the reason.") from error

    async def _answer(self, text: str, parameters: tuple[Value, ...]) -> Any:
        hint = hints.split(text)
        if not hint.statement:
            raise DoorError(errors.EMPTY, "The statement is empty.")
        if hint.run_async:
            task_id = await self._in_thread(work.submit, text, self._default(), self._connection_id(), parameters)
            return results.of_cells(("ASYNC_TASK_ID",), [(task_id,)])
        statement = statements.parse(hint.statement)
        handler = self._handlers.get(type(statement))
        if handler is not None:
            return await handler(statement)
        if hint.statement == "select $$":  # MySQL's command line asks whether `$` may begin a name
            raise DoorError(errors.UNKNOWN_COLUMN, "Unknown column '$$'.")
        return await self._run(text, parameters)

    # --- Queries ----------------------------------------------------------------------------------------------------

    async def _run(self, text: str, parameters: tuple[Value, ...]) -> ResultSet:
        """A statement without hint: run as a task too, while the client waits for its rows."""
        task_id = await self._in_thread(
            work.submit, text, self._default(), self._connection_id(), parameters, synchronous=True
        )
        try:
            async with asyncio.timeout(settings.SQL_SYNC_SECONDS):
                if not await self._waiter.ended(task_id, lambda: self._door.stream.client_gone):
                    raise ConnectionAbortedError("the client went away")
        except BaseException as error:
            await asyncio.shield(in_thread(work.give_up, task_id))
            if isinstance(error, TimeoutError):
                raise DoorError(errors.TIME_LIMIT, work.too_slow(settings.SQL_SYNC_SECONDS)) from error
            raise
        columns, rows = await self._in_thread(work.rows_of, task_id)
        return results.of_csv(columns, rows)

    async def _show_task(self, statement: statements.ShowTask) -> ResultSet:
        return results.of_tasks(await self._in_thread(work.task_rows, 1, statement.task_id))

    async def _list_tasks(self, statement: statements.ListTasks) -> ResultSet:
        return results.of_tasks(await self._in_thread(work.task_rows, statement.limit))

    async def _cancel_task(self, statement: statements.CancelTask) -> None:
        await self._in_thread(work.cancel, statement.task_id)

    # --- Schemas ----------------------------------------------------------------------------------------------------

    async def _show_databases(self, statement: statements.ShowDatabases) -> ResultSet:
        return _result(await self._in_thread(catalog.schemas, statement.like))

    async def _show_tables(self, statement: statements.ShowTables) -> ResultSet:
        schema = self._schema(statement.schema)
        return _result(await self._in_thread(catalog.tables, schema, statement.like, full=statement.full))

    async def _show_columns(self, statement: statements.ShowColumns) -> ResultSet:
        schema = self._schema(statement.schema)
        return _result(
            await self._in_thread(catalog.columns, schema, statement.table, statement.like, full=statement.full)
        )

    async def _use(self, statement: statements.Use) -> None:
        await self.use(statement.schema)

    # --- The client's own affairs -----------------------------------------------------------------------------------

    async def _show_variables(self, statement: statements.ShowVariables) -> ResultSet:
        pattern = like_pattern(statement.like) if statement.like else None
        wanted = {name.lower() for name in statement.names}
        rows = [
            (name, str(self._variable(name)))
            for name in sorted(_VARIABLES)
            if (pattern is None or pattern.fullmatch(name)) and (not wanted or name in wanted)
        ]
        return results.of_cells(("Variable_name", "Value"), rows)

    async def _show_nothing(self, statement: statements.ShowNothing) -> ResultSet:
        return results.of_cells(statement.columns, [])

    async def _set(self, statement: statements.SetVariables) -> None:
        """The library's own reading of SET changes the session's variables and nothing else."""
        await super().handle_query(statement.text, {})

    async def _select_constants(self, statement: statements.SelectConstants) -> ResultSet:
        values = [self._constant(item) for item in statement.items]
        return results.of_cells([item.column for item in statement.items], [values])

    async def _transaction(self, statement: statements.Transaction) -> None:
        """Nothing to do: every statement stands alone."""

    async def _kill_statement(self, statement: statements.Kill) -> None:
        """`kill`: only connections of the same user are seen."""
        other = self._door.control.connections.get(statement.connection_id)
        if other is None or other.session.principal != self.principal:
            raise DoorError(errors.NO_SUCH_CONNECTION, f"There is no connection {statement.connection_id} of yours.")
        other.kill(KillKind.QUERY if statement.query_only else KillKind.CONNECTION)

    def _constant(self, item: Constant) -> str | int | None:
        if isinstance(item.value, Variable):
            value = self._variable(item.value.name)
            return value if value is None or isinstance(value, int) else str(value)
        if isinstance(item.value, Fact):
            facts: dict[Fact, str | int | None] = {
                Fact.VERSION: str(self._variable("version")),
                Fact.SCHEMA: self.database,
                Fact.USER: f"{self.username}@{self._door.stream.peer}",
                Fact.CONNECTION_ID: self._door.connection_id,
            }
            return facts[item.value]
        return item.value

    def _variable(self, name: str) -> Any:
        value = self.variables.get_variable(name)
        return int(value) if isinstance(value, bool) else value

    # --- Plumbing ---------------------------------------------------------------------------------------------------

    @property
    def principal(self) -> str:
        """Whose session it is, empty before sign-in."""
        return self._account.principal if self._account else ""

    @property
    def _door(self) -> DoorConnection:
        connection: DoorConnection = self.connection
        return connection

    def _connection_id(self) -> int:
        protocol_id: int = self._door.connection_id
        return _CONNECTION_ID_BASE + protocol_id

    def _default(self) -> str:
        return self.database or ""

    def _schema(self, named: str | None) -> str:
        schema = named or self.database
        if not schema:
            raise DoorError(errors.NO_SCHEMA, "No schema is chosen: write `use <schema>` first.")
        return schema

    async def _in_thread(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`call(actor, …)` in a thread, with the rights that the user has now."""
        account = self._account
        if account is None:
            raise DoorError(errors.ACCESS_DENIED, "Nobody is signed in.")
        stream = self._door.stream

        def act() -> Any:
            actor: Actor = load_actor(account, source_ip=stream.peer, secure=stream.secure)
            with attempt(actor, f"sql.statement.{call.__name__}", reads=call not in _CHANGES):
                return call(actor, *args, **kwargs)

        return await in_thread(act)


def _result(answer: Answer) -> ResultSet:
    return results.of_cells(answer.columns, answer.rows)
