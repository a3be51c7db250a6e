"""A client's session: what each statement is answered with. The event loop runs no query and no database call."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from mysql_mimic.errors import MysqlError

from console.accounts.actor import Actor
from console.audit.attempts import attempt
from console.sql import answers, catalog, hints, services, statements
from console.sql.catalog import UnknownSchemaError, UnknownTableError
from console.sql.door import errors, results, work
from console.sql.door.affairs import OwnAffairs
from console.sql.door.auth import SqlAccount, load_actor, record_refusal
from console.sql.door.commands import DoorSession
from console.sql.door.errors import DoorError
from console.sql.door.files import LARGE_ROW
from console.sql.door.limits import WRITE_S
from console.sql.door.parameters import Value, bound, single
from console.sql.door.questions import Warned
from console.sql.door.results import HeldRows, Result, Row
from console.sql.door.shared import Shared
from console.sql.relations import INFORMATION_SCHEMA
from console.web import full_disk
from console.web.errors import Refused

if TYPE_CHECKING:
    from console.sql.door.hardening import DoorConnection

log = logging.getLogger(__name__)

#: Column `connection_id` has 14 digits on the vendor's page: the protocol's ten behind a fixed beginning.
_CONNECTION_ID_BASE = 10**13
#: What writes: an attempt that fails is worth an entry in the trail.
_CHANGES = (statements.CancelTask, statements.Ddl)
#: Characters that are kept of an error, which may name what is as long as a statement.
_LONGEST_WARNING = 2000
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class SqlSession(DoorSession):
    """One signed-in client."""

    def __init__(self, door: Shared) -> None:
        super().__init__()
        self.door = door
        self.account: SqlAccount | None = None
        self.warned: list[Warned] = []
        self.found_rows = 0
        self.changed_rows = -1
        self.questions = 0
        #: The statement that runs, and since when something runs or nothing does.
        self.statement = ""
        self.since = time.monotonic()
        self._affairs = OwnAffairs(self)

    @property
    def warning_count(self) -> int:  # type: ignore[override]
        """How many warnings go with the answer."""
        return len(self.warned)

    @property
    def principal(self) -> str:
        """Whose session it is, empty before sign-in."""
        return self.account.principal if self.account else ""

    @property
    def client(self) -> DoorConnection:
        """The connection of this session."""
        connection: DoorConnection = self.connection
        return connection

    @property
    def _holder(self) -> str:
        """Whom what this session costs is counted for."""
        return (self.account.tenant if self.account else "") or self.client.stream.peer

    # --- What the connection asks for -------------------------------------------------------------------------------

    async def sign_in(self, account: SqlAccount, schema: str | None) -> None:
        """Make `account` the user; `schema` must be one it may query."""
        self.account = account
        self.database = None
        if schema:
            await self.use(schema)

    async def forget(self) -> None:
        """Nobody is signed in any more, and nothing of who was is left."""
        self.account = None
        await super().forget()

    async def reset(self) -> None:
        """Variables, warnings and counts are as at the beginning."""
        await super().reset()
        self.warned, self.found_rows, self.changed_rows, self.questions = [], 0, -1, 0
        self.client.stream.write_s = WRITE_S

    async def sign_in_refused(self, account: SqlAccount) -> None:
        """Put a wrong password into the trail of the account that it was tried on."""
        await self.door.sign_in_threads.run(record_refusal, account, self.client.stream.peer)

    async def use(self, database: str) -> None:
        """Change the default schema. Raises DoorError when the user may query nothing in it."""
        if (database,) not in (await self.in_thread("use", catalog.schemas, None)).rows:
            raise DoorError(errors.UNKNOWN_SCHEMA, f"There is no schema {database!r}.")
        self.database = database

    async def columns_of(self, table: str) -> list[tuple[Any, ...]]:
        """Rows of `show columns` of a table of the default schema."""
        statement = statements.ShowColumns(table)
        answer = await self._guarded(self.in_thread("show_columns", answers.answer, statement, self.database or ""))
        return list(answer.rows)

    async def kill(self, connection_id: int, *, query_only: bool) -> None:
        """End a connection of the same user, or its statement."""
        self._affairs.kill(connection_id, query_only=query_only)

    def statistics(self) -> str:
        """One line, as MySQL writes it."""
        return self._affairs.statistics()

    async def execute(self, text: str, parameters: tuple[Value, ...]) -> Result:
        """Answer one statement. Every failure is a MysqlError; what is not ours to show is logged."""
        self.questions += 1
        self.statement, self.since = text[:1000], time.monotonic()
        try:
            result: Result = await self._guarded(self._answer(text, parameters))
            return result
        except MysqlError as error:
            self.warned = [Warned("Error", int(error.code), str(error.msg)[:_LONGEST_WARNING])]
            raise
        finally:
            self.statement, self.since = "", time.monotonic()

    async def _guarded(self, work_to_do: Any) -> Any:
        try:
            return await work_to_do
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
        except Exception as error:
            if reason := full_disk.reason(error):
                log.warning("a statement failed on connection %s: %s", self.client.connection_id, error)
                raise DoorError(errors.DISK_FULL, reason) from error
            raise self._unexpected(error) from error

    def _unexpected(self, error: Exception) -> DoorError:
        """What is told of a failure that is not ours to show; the log has the rest."""
        if isinstance(error, DatabaseError):
            log.exception("the database failed")
            return DoorError(errors.UNKNOWN, "The console's database does not answer; try again.")
        log.exception("a statement failed on connection %s", self.client.connection_id)
        return DoorError(errors.UNKNOWN, "Internal error; the log of the MySQL door has the reason.")

    # --- Statements -------------------------------------------------------------------------------------------------

    async def _answer(self, text: str, parameters: tuple[Value, ...]) -> Result:
        if len(text) > services.LONGEST_STATEMENT:
            raise DoorError(
                errors.SYNTAX,
                f"The statement has {len(text)} characters; {services.LONGEST_STATEMENT} are allowed.",
            )
        hint = hints.split(text)
        if not hint.statement:
            raise DoorError(errors.EMPTY, "The statement is empty.")
        statement = single(hint.statement)
        if statement is None:
            raise DoorError(errors.SYNTAX, "One statement at a time: something follows the `;`. Send it by itself.")
        # With values of megabytes it is none of the short forms, which alone need them as text.
        is_short = sum(len(value) for value in parameters if isinstance(value, str)) <= statements.LONGEST_FORM
        form = bound(statement, parameters) if parameters and is_short else statement
        if not hint.run_async:
            own = await self._affairs.answer(form)
            if own is not None:
                return own
        self.warned = [Warned("Warning", errors.UNKNOWN, message) for message in hint.warnings]
        if hint.run_async:
            task_id = await self._submit(text, parameters)
            return self._noted(results.of_cells(("ASYNC_TASK_ID",), [(task_id,)]), 1)
        return await self._answered(text, form, parameters)

    async def _answered(self, text: str, form: str, parameters: tuple[Value, ...]) -> Result:
        """The console's answer, or Spark's."""
        statement = statements.parse(form)
        looks_around = (self.database or "").lower() == INFORMATION_SCHEMA
        if looks_around or not isinstance(statement, statements.Query):
            name = _CAPITAL.sub("_", type(statement).__name__).lower()
            reads = not isinstance(statement, _CHANGES)
            answered = await self.in_thread(name, _answer_of, statement, self.database or "", reads=reads)
            if answered is not None:
                return self._noted(self._held(*answered), len(answered[1]))
        if form == "select $$":  # MySQL's command line asks whether `$` may begin a name
            raise DoorError(errors.UNKNOWN_COLUMN, "Unknown column '$$'.")
        return await self._run(text, parameters)

    def _held(self, result: Result, rows: Sequence[Row], weight: int) -> Result:
        """The result; rows that are many count for the account until the client has them. Raises DoorError."""
        if weight <= LARGE_ROW:
            return result
        files, holder = self.door.files, self._holder
        files.take_room(holder, weight)
        return replace(result, rows=HeldRows(rows, partial(files.leave_room, holder, weight)))

    async def _submit(self, text: str, parameters: tuple[Value, ...], *, synchronous: bool = False) -> str:
        number = _CONNECTION_ID_BASE + self.client.connection_id
        arguments = (text, self.database or "", number, parameters)
        task_id: str = await self.in_thread("submit", work.submit, *arguments, reads=False, synchronous=synchronous)
        return task_id

    async def _run(self, text: str, parameters: tuple[Value, ...]) -> Result:
        """A statement without hint: run as a task too, while the client waits for its rows."""
        task_id = await self._submit(text, parameters, synchronous=True)
        limit_s = self._time_limit_s()
        try:
            async with asyncio.timeout(limit_s):
                if not await self.door.waiter.ended(task_id, lambda: self.client.stream.client_gone):
                    raise ConnectionAbortedError("the client went away")
        except BaseException as error:
            await asyncio.shield(self.door.own_threads.run(work.give_up, task_id))
            if isinstance(error, TimeoutError):
                raise DoorError(errors.TIME_LIMIT, work.too_slow(limit_s)) from error
            raise
        done = await self.in_thread("finished", work.finished, task_id)
        if not done.columns:
            return self._noted(Result(affected=done.row_count), 0)
        columns = [results.column_of(column["name"], column["type"]) for column in done.columns]
        most = int(self.variables.get("sql_select_limit") or 0)
        rows = await self.door.files.rows(done.location, most if most < done.row_count else None, self._holder)
        return self._noted(Result(columns, rows), min(most, done.row_count))

    def _time_limit_s(self) -> float:
        """`max_execution_time` in ms may shorten the limit of synchronous statements."""
        wanted_ms = int(self.variables.get("max_execution_time") or 0)
        limit_s = float(settings.SQL_SYNC_SECONDS)
        return min(limit_s, wanted_ms / 1000) if wanted_ms > 0 else limit_s

    def _noted(self, result: Result, rows: int) -> Result:
        """Keep what `found_rows()` and `row_count()` tell."""
        if result:
            self.found_rows, self.changed_rows = rows, -1
        else:
            self.changed_rows = result.affected
        return result

    async def in_thread(
        self, name: str, call: Callable[..., Any], *args: Any, reads: bool = True, **options: Any
    ) -> Any:
        """`call(actor, …)` in a thread, with the rights that the user has now; `name` is what the trail calls it."""
        account = self.account
        if account is None:
            raise DoorError(errors.ACCESS_DENIED, "Nobody is signed in.")
        stream = self.client.stream

        def act() -> Any:
            actor: Actor = load_actor(account, source_ip=stream.peer, secure=stream.secure)
            with attempt(actor, f"sql.statement.{name}", reads=reads):
                return call(actor, *args, **options)

        return await self.door.threads.run_for(self._holder, act)


def _answer_of(actor: Actor, statement: statements.Statement, schema: str) -> tuple[Result, Sequence[Row], int] | None:
    """The console's answer as a result, with its rows and about the bytes that they take; None when it is Spark's."""
    answer = answers.answer(actor, statement, schema)
    return None if answer is None else (results.of_answer(answer), answer.rows, results.weight(answer.rows))
