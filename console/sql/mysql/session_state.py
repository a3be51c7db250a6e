"""What concerns a connection alone: its schema, variables, warnings, transactions, and the user's other connections."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from console import statements
from console.catalog import describe
from console.catalog.describe import Answer, Cells
from console.sql.mysql import errors, results
from console.sql.mysql.errors import EndpointError
from console.sql.mysql.shared import Shared
from console.sql.mysql.variables import SessionVariables
from console.statements import Parsed, Subject, show
from console.statements.lexer import quoted
from console.statements.like import like_pattern
from console.statements.select import Constant, Fact, UserVariable, Variable
from mysqlwire.aio.results import DONE, Result
from mysqlwire.aio.session import Client, Kill

PRIVILEGES = Answer(
    show.PRIVILEGE_COLUMNS,
    [("Select", "Tables", "To run statements on tables"), ("Usage", "Server Admin", "No privileges - sign in only")],
)

Handler = Callable[[Any], Awaitable[Result]]
#: Characters of a statement that `show processlist` shows, as MySQL does.
_SHOWN_CHARACTERS = 100
#: net_write_timeout may be this long, seconds: Connector/J asks for 600.
_LONGEST_WRITE_S = 3600
_PROCESS_COLUMNS = ("Id", "User", "Host", "db", "Command", "Time", "State", "Info")


@dataclass(frozen=True, slots=True)
class Warned:
    """What the last statement was warned of, or failed with, in the words of `show warnings`."""

    level: str
    code: int
    message: str


def warnings_answer(subject: Subject, warned: list[Warned]) -> Answer:
    """The answer to the four questions about warnings and errors."""
    if subject in (Subject.ERRORS, Subject.ERROR_COUNT):
        warned = [w for w in warned if w.level == "Error"]
    if subject in (Subject.WARNING_COUNT, Subject.ERROR_COUNT):
        name = "@@session.warning_count" if subject is Subject.WARNING_COUNT else "@@session.error_count"
        return Answer((name,), [(len(warned),)])
    return Answer(show.WARNING_COLUMNS, [(w.level, w.code, w.message) for w in warned], integers=frozenset({"Code"}))


def status_answer(values: dict[str, str | int], like: str | None) -> Answer:
    """`show status`: a few values of many that MySQL has."""
    pattern = like_pattern(like) if like is not None else None
    rows: list[Cells] = [
        (name, str(value)) for name, value in sorted(values.items()) if not pattern or pattern.fullmatch(name)
    ]
    return Answer(show.STATUS_COLUMNS, rows)


def grants_answer(user: str, schemas: list[str]) -> Answer:
    """`show grants`: what the account may query. The rules themselves are the console's policies."""
    name = f"{quoted(user)}@`%`"
    rows: list[Cells] = [(f"GRANT USAGE ON *.* TO {name}",)]
    rows += [(f"GRANT SELECT ON {quoted(schema)}.* TO {name}",) for schema in schemas]
    return Answer((f"Grants for {user}@%",), rows)


class Session(Protocol):
    """What is asked of a signed-in client's session."""

    endpoint: Shared
    database: str | None
    username: str | None
    variables: SessionVariables
    warned: list[Warned]
    found_rows: int
    changed_rows: int

    @property
    def principal(self) -> str:
        """Whose session it is."""

    @property
    def connection(self) -> Client:
        """Its connection."""

    async def use(self, database: str) -> None:
        """Change the default schema."""

    async def in_thread(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        """`call(actor, …)` in a thread, with the rights that the user has now."""


class OwnAffairs:
    """The part of a session that asks neither Spark nor, but for `use` and grants, the database."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._handlers: dict[type, Handler] = {
            statements.Use: self._use,
            statements.SetVariables: self._set,
            statements.ShowVariables: self._show_variables,
            statements.SelectConstants: self._select_constants,
            statements.Transaction: self._transaction,
            statements.Kill: self._kill,
        }

    async def answer(self, parsed: Parsed) -> Result | None:
        """Answer a statement; None when it is about more than the connection."""
        statement = parsed.form
        if isinstance(statement, statements.ShowConnection):
            return results.of_answer(await self._asked(statement))
        handler = self._handlers.get(type(statement))
        if handler is None:
            return None
        result = await handler(statement)
        self._session.warned = []
        if not isinstance(statement, statements.SelectConstants):
            self._session.changed_rows = -1 if result else 0
        return result

    def kill(self, connection_id: int, *, query_only: bool) -> None:
        """End a connection, or its statement. Only connections of the same user are seen. Raises EndpointError."""
        other = self._connections().get(connection_id)
        if other is None:
            raise EndpointError(errors.NO_SUCH_CONNECTION, f"You have no connection {connection_id}.")
        other.kill(Kill.QUERY if query_only else Kill.CONNECTION)

    def statistics(self) -> str:
        """The line of COM_STATISTICS."""
        status = self._status()
        return "  ".join(
            f"{label}: {status[name]}"
            for label, name in (("Uptime", "Uptime"), ("Threads", "Threads_connected"), ("Questions", "Questions"))
        )

    # --- Statements -------------------------------------------------------------------------------------------------

    async def _use(self, statement: statements.Use) -> Result:
        await self._session.use(statement.schema)
        return DONE

    async def _set(self, statement: statements.SetVariables) -> Result:
        variables = self._session.variables
        variables.assign(statement.text)
        seconds = int(variables.get("net_write_timeout") or 0)
        self._session.connection.stream.write_s = min(max(seconds, 1), _LONGEST_WRITE_S)
        return DONE

    async def _show_variables(self, statement: statements.ShowVariables) -> Result:
        pattern = like_pattern(statement.like) if statement.like is not None else None
        wanted = {name.lower() for name in statement.names}
        rows = [
            (name, "" if value is None else str(value))
            for name, value in self._session.variables.listed()
            if (pattern is None or pattern.fullmatch(name)) and (not wanted or name in wanted)
        ]
        return results.of_answer(Answer(show.STATUS_COLUMNS, list(rows)))

    async def _select_constants(self, statement: statements.SelectConstants) -> Result:
        values = [self._constant(item) for item in statement.items]
        return results.of_cells([item.column for item in statement.items], [values])

    async def _transaction(self, statement: statements.Transaction) -> Result:
        """Nothing to do: every statement stands alone."""
        return DONE

    async def _kill(self, statement: statements.Kill) -> Result:
        self.kill(statement.connection_id, query_only=statement.query_only)
        return DONE

    def _constant(self, item: Constant) -> str | int | None:
        session, value = self._session, item.value
        if isinstance(value, UserVariable):
            return session.variables.get_user(value.name)
        if isinstance(value, Variable):
            counts = {"warning_count": len(session.warned), "error_count": self._errors()}
            return counts[value.name] if value.name in counts else session.variables.get(value.name)
        if isinstance(value, Fact):
            facts: dict[Fact, str | int | None] = {
                Fact.VERSION: session.variables.get("version"),
                Fact.SCHEMA: session.database,
                Fact.USER: f"{session.username}@{session.connection.stream.peer}",
                Fact.CONNECTION_ID: session.connection.connection_id,
                Fact.LAST_INSERT_ID: 0,
                Fact.ROW_COUNT: session.changed_rows,
                Fact.FOUND_ROWS: session.found_rows,
            }
            return facts[value]
        return value

    # --- Questions --------------------------------------------------------------------------------------------------

    async def _asked(self, question: statements.ShowConnection) -> Answer:
        subject, session = question.subject, self._session
        match subject:
            case Subject.STATUS:
                return status_answer(self._status(), question.like)
            case Subject.PROCESSES:
                return self._processes(full=question.full)
            case Subject.GRANTS:
                schemas = await session.in_thread("show_grants", describe.schemas, None)
                return grants_answer(session.username or "", [str(row[0]) for row in schemas.rows])
            case Subject.PRIVILEGES:
                return PRIVILEGES
            case _:
                return warnings_answer(subject, session.warned)

    def _errors(self) -> int:
        return sum(1 for warned in self._session.warned if warned.level == "Error")

    def _status(self) -> dict[str, str | int]:
        endpoint = self._session.endpoint
        cipher, version = self._session.connection.stream.cipher
        return {
            "Connections": len(self._connections()),
            "Questions": sum(c.session.questions for c in self._connections().values()),
            "Ssl_cipher": cipher,
            "Ssl_version": version,
            "Threads_connected": len(self._connections()),
            "Threads_running": sum(1 for c in self._connections().values() if c.session.statement),
            "Uptime": int(time.monotonic() - endpoint.started),
        }

    def _processes(self, *, full: bool) -> Answer:
        rows: list[describe.Cells] = []
        for number, connection in sorted(self._connections().items()):
            other = connection.session
            text = other.statement if full else other.statement[:_SHOWN_CHARACTERS]
            seconds = int(time.monotonic() - other.since)
            command = "Query" if text else "Sleep"
            rows.append(
                (number, other.username, connection.stream.peer, other.database, command, seconds, "", text or None)
            )
        return Answer(_PROCESS_COLUMNS, rows, integers=frozenset({"Id", "Time"}))

    def _connections(self) -> dict[int, Any]:
        """The open connections of the same user."""
        every = self._session.endpoint.connections()
        return {n: c for n, c in every.items() if c.session.principal == self._session.principal}
