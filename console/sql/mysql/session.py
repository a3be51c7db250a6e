"""A client's session: what each statement is answered with. The event loop runs no query and no database call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError

from console import statements
from console.accounts.actor import Actor
from console.audit.record.attempts import attempt
from console.catalog import describe
from console.catalog.describe import UnknownSchemaError, UnknownTableError
from console.catalog.queries import INFORMATION_SCHEMA
from console.sql import answers, lifecycle, services
from console.sql.models import QueryTask, TaskStatus
from console.sql.mysql import errors, results
from console.sql.mysql.auth import SqlAccount, load_actor, record_refusal
from console.sql.mysql.errors import EndpointError
from console.sql.mysql.results import HeldRows
from console.sql.mysql.session_state import OwnAffairs, Warned
from console.sql.mysql.shared import LARGE_ROW, Shared
from console.sql.mysql.variables import LIMITS, EndpointSession
from console.statements import Parsed
from console.web import full_disk
from console.web.errors import Refused
from console.web.figures import SQL_STATEMENT_SECONDS, SQL_STATEMENTS
from mysqlwire.aio.results import Result, Row
from mysqlwire.protocol.commands import Value
from mysqlwire.protocol.errors import SqlError
from mysqlwire.protocol.texts import bound

log = logging.getLogger(__name__)

_ADVICE = (
    "Put /*+ run_async=true */ in front of the statement to run it without this limit. If it had a hint: MariaDB's"
    " command line removes comments unless it is started with --comments."
)

#: Column `connection_id` has 14 digits on the vendor's page: the protocol's ten behind a fixed beginning.
_CONNECTION_ID_BASE = 10**13
#: What writes: an attempt that fails is worth an entry in the trail.
_CHANGES = (statements.CancelTask, statements.Ddl)
#: Characters that are kept of an error, which may name what is as long as a statement.
_LONGEST_WARNING = 2000


@dataclass(frozen=True, slots=True)
class Finished:
    """A synchronous statement that has succeeded: where its rows are, and how many it changed if it has none."""

    location: str
    columns: list[dict[str, str]]
    row_count: int


def submit_task(
    actor: Actor,
    parsed: Parsed,
    schema: str,
    connection_id: int,
    parameters: tuple[Value, ...],
    *,
    synchronous: bool = False,
) -> str:
    """Submit a statement; returns the task id."""
    task = services.submit(actor, parsed, schema, connection_id, parameters=parameters, synchronous=synchronous)
    return task.pk


def give_up_task(task_id: str) -> None:
    """Stop a statement whose client no longer waits; needs no rights, since it is the endpoint's own doing."""
    task = QueryTask.objects.filter(pk=task_id).select_related("tenant", "creator", "role__tenant").first()
    outcome = lifecycle.Outcome(TaskStatus.CANCELLED, message="The client stopped waiting.")
    if task is not None and not lifecycle.end(task, outcome, expected=TaskStatus.QUEUED):
        QueryTask.objects.filter(pk=task_id, status=TaskStatus.RUNNING).update(cancel_requested=True)


def finished_task(actor: Actor, task_id: str) -> Finished:
    """What became of a synchronous statement that has ended. Raises EndpointError when it failed."""
    task = QueryTask.objects.get(pk=task_id)
    if task.status == TaskStatus.CANCELLED:
        raise EndpointError(errors.INTERRUPTED, task.message or "The statement was cancelled.")
    if task.status != TaskStatus.SUCCESS:
        code = errors.condition_code(task.error_condition)
        limited = "asynchronously" in task.message or code == errors.TIME_LIMIT
        raise EndpointError(code, f"{task.message} {_ADVICE}" if limited else task.message)
    return Finished(task.result_file, task.result_columns, task.row_count)


def too_slow(limit_s: float) -> str:
    """The error of a statement that the client waited for too long."""
    return f"The statement took longer than {limit_s:g} s. {_ADVICE}"


class SqlSession(EndpointSession):
    """One signed-in client."""

    def __init__(self, endpoint: Shared) -> None:
        super().__init__()
        self.endpoint = endpoint
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
    def warning_count(self) -> int:
        """How many warnings go with the answer."""
        return len(self.warned)

    @property
    def principal(self) -> str:
        """Whose session it is, empty before sign-in."""
        return self.account.principal if self.account else ""

    @property
    def _holder(self) -> str:
        """Whom what this session costs is counted for."""
        return (self.account.tenant if self.account else "") or self.connection.stream.peer

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
        self.connection.stream.write_s = LIMITS.write_s

    async def sign_in_refused(self, account: SqlAccount) -> None:
        """Put a wrong password into the trail of the account that it was tried on."""
        await self.endpoint.sign_in_threads.run(record_refusal, account, self.connection.stream.peer)

    async def use(self, database: str) -> None:
        """Change the default schema. Raises EndpointError when the user may query nothing in it."""
        if (database,) not in (await self.in_thread("use", describe.schemas, None)).rows:
            raise EndpointError(errors.UNKNOWN_SCHEMA, f"There is no schema {database!r}.")
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
        """Answer one statement. Every failure is a SqlError; what is not ours to show is logged."""
        self.questions += 1
        self.statement, self.since = text[:1000], time.monotonic()
        ended = "refused"
        try:
            result: Result = await self._guarded(self._answer(text, parameters))
            ended = "ok"
            return result
        except SqlError as error:
            self.warned = [Warned("Error", error.code, error.message[:_LONGEST_WARNING])]
            raise
        finally:
            SQL_STATEMENTS.labels(ended).inc()
            SQL_STATEMENT_SECONDS.observe(time.monotonic() - self.since)
            self.statement, self.since = "", time.monotonic()

    async def _guarded(self, work_to_do: Any) -> Any:
        try:
            return await work_to_do
        except (SqlError, ConnectionError):
            raise
        except Refused as error:
            raise EndpointError(errors.refusal_code(error.symbol, self.database or ""), error.message) from error
        except PermissionDenied as error:
            raise EndpointError(errors.NOT_PERMITTED, f"Not allowed: {error}.") from error
        except UnknownSchemaError as error:
            raise EndpointError(errors.UNKNOWN_SCHEMA, str(error)) from error
        except UnknownTableError as error:
            raise EndpointError(errors.UNKNOWN_TABLE, str(error)) from error
        except Exception as error:
            if reason := full_disk.reason(error):
                log.warning("a statement failed on connection %s: %s", self.connection.connection_id, error)
                raise EndpointError(errors.DISK_FULL, reason) from error
            raise self._unexpected(error) from error

    def _unexpected(self, error: Exception) -> EndpointError:
        """What is told of a failure that is not ours to show; the log has the rest."""
        if isinstance(error, DatabaseError):
            log.exception("the database failed")
            return EndpointError(errors.UNKNOWN, "The console's database does not answer; try again.")
        log.exception("a statement failed on connection %s", self.connection.connection_id)
        return EndpointError(errors.UNKNOWN, "Internal error; the log of the MySQL endpoint has the reason.")

    # --- Statements -------------------------------------------------------------------------------------------------

    async def _answer(self, text: str, parameters: tuple[Value, ...]) -> Result:
        parsed = statements.read(text)
        if not parsed.statement:
            raise EndpointError(errors.EMPTY, "The statement is empty.")
        if parsed.several:
            raise EndpointError(errors.SYNTAX, "One statement at a time: something follows the `;`. Send it by itself.")
        # With values of megabytes it is none of the short forms, which alone need them as text.
        is_short = sum(len(value) for value in parameters if isinstance(value, str)) <= statements.LONGEST_FORM
        asked = parsed.of(bound(parsed.statement, parameters)) if parameters and is_short else parsed
        if not parsed.hint.run_async:
            if isinstance(asked.form, statements.Malformed):
                raise asked.form.refusal()
            own = await self._affairs.answer(asked)
            if own is not None:
                return own
        self.warned = [Warned("Warning", errors.UNKNOWN, message) for message in parsed.hint.warnings]
        if parsed.hint.run_async:
            task_id = await self._submit(parsed, parameters)
            return self._noted(results.of_cells(("ASYNC_TASK_ID",), [(task_id,)]), 1)
        return await self._answered(parsed, asked, parameters)

    async def _answered(self, parsed: Parsed, asked: Parsed, parameters: tuple[Value, ...]) -> Result:
        """The console's answer, or Spark's; `asked` has the values in the place of its parameters."""
        statement = asked.form
        looks_around = (self.database or "").lower() == INFORMATION_SCHEMA
        if looks_around or not isinstance(statement, statements.Query):
            reads = not isinstance(statement, _CHANGES)
            answered = await self.in_thread(asked.kind, _answer_of, statement, self.database or "", reads=reads)
            if answered is not None:
                return self._noted(self._held(*answered), len(answered[1]))
        if asked.statement == "select $$":  # MySQL's command line asks whether `$` may begin a name
            raise EndpointError(errors.UNKNOWN_COLUMN, "Unknown column '$$'.")
        return await self._run(parsed, parameters)

    def _held(self, result: Result, rows: Sequence[Row], weight: int) -> Result:
        """The result; rows that are many count for the account until the client has them. Raises EndpointError."""
        if weight <= LARGE_ROW:
            return result
        files, holder = self.endpoint.files, self._holder
        files.reserve_room(holder, weight)
        return replace(result, rows=HeldRows(rows, partial(files.release_room, holder, weight)))

    async def _submit(self, parsed: Parsed, parameters: tuple[Value, ...], *, synchronous: bool = False) -> str:
        number = _CONNECTION_ID_BASE + self.connection.connection_id
        arguments = (parsed, self.database or "", number, parameters)
        task_id: str = await self.in_thread("submit", submit_task, *arguments, reads=False, synchronous=synchronous)
        return task_id

    async def _run(self, parsed: Parsed, parameters: tuple[Value, ...]) -> Result:
        """A statement without hint: run as a task too, while the client waits for its rows."""
        task_id = await self._submit(parsed, parameters, synchronous=True)
        limit_s = self._time_limit_s()
        try:
            async with asyncio.timeout(limit_s):
                if not await self.endpoint.waiter.ended(task_id, lambda: self.connection.stream.client_gone):
                    raise ConnectionAbortedError("the client went away")
        except BaseException as error:
            await asyncio.shield(self.endpoint.own_threads.run(give_up_task, task_id))
            if isinstance(error, TimeoutError):
                raise EndpointError(errors.TIME_LIMIT, too_slow(limit_s)) from error
            raise
        done = await self.in_thread("finished", finished_task, task_id)
        if not done.columns:
            return self._noted(Result(affected=done.row_count), 0)
        columns = [results.column_of(column["name"], column["type"]) for column in done.columns]
        most = int(self.variables.get("sql_select_limit") or 0)
        rows = await self.endpoint.files.rows(done.location, most if most < done.row_count else None, self._holder)
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
            raise EndpointError(errors.ACCESS_DENIED, "Nobody is signed in.")
        stream = self.connection.stream

        def act() -> Any:
            actor: Actor = load_actor(account, source_ip=stream.peer, secure=stream.secure)
            with attempt(actor, f"sql.statement.{name}", reads=reads):
                return call(actor, *args, **options)

        return await self.endpoint.threads.run_for(self._holder, act)


def _answer_of(actor: Actor, statement: statements.Statement, schema: str) -> tuple[Result, Sequence[Row], int] | None:
    """The console's answer as a result, with its rows and about the bytes that they take; None when it is Spark's."""
    answer = answers.answer(actor, statement, schema)
    return None if answer is None else (results.of_answer(answer), answer.rows, results.weight(answer.rows))
