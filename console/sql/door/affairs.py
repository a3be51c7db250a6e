"""What concerns a connection alone: its schema, variables, warnings, transactions, and the user's other connections."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from mysql_mimic.constants import KillKind

from console.sql import catalog, statements
from console.sql.catalog import Answer
from console.sql.constants import Constant, Fact, UserVariable, Variable
from console.sql.door import errors, questions, results
from console.sql.door.errors import DoorError
from console.sql.door.questions import Question, Subject, Warned
from console.sql.door.results import DONE, Result
from console.sql.door.shared import Shared
from console.sql.door.variables import SessionVariables
from console.sql.patterns import like_pattern

if TYPE_CHECKING:
    from console.sql.door.hardening import DoorConnection

Handler = Callable[[Any], Awaitable[Result]]
#: Characters of a statement that `show processlist` shows, as MySQL does.
_SHOWN_CHARACTERS = 100
#: net_write_timeout may be this long, seconds: Connector/J asks for 600.
_LONGEST_WRITE_S = 3600
_PROCESS_COLUMNS = ("Id", "User", "Host", "db", "Command", "Time", "State", "Info")


class Session(Protocol):
    """What is asked of a signed-in client's session."""

    door: Shared
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
    def client(self) -> DoorConnection:
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

    async def answer(self, text: str) -> Result | None:
        """Answer a statement; None when it is about more than the connection."""
        question = questions.read(text)
        if question is not None:
            return results.of_answer(await self._asked(question))
        statement = statements.parse(text)
        handler = self._handlers.get(type(statement))
        if handler is None:
            return None
        result = await handler(statement)
        self._session.warned = []
        if not isinstance(statement, statements.SelectConstants):
            self._session.changed_rows = -1 if result else 0
        return result

    def kill(self, connection_id: int, *, query_only: bool) -> None:
        """End a connection, or its statement. Only connections of the same user are seen. Raises DoorError."""
        other = self._connections().get(connection_id)
        if other is None:
            raise DoorError(errors.NO_SUCH_CONNECTION, f"There is no connection {connection_id} of yours.")
        other.kill(KillKind.QUERY if query_only else KillKind.CONNECTION)

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
        self._session.client.stream.write_s = min(max(seconds, 1), _LONGEST_WRITE_S)
        return DONE

    async def _show_variables(self, statement: statements.ShowVariables) -> Result:
        pattern = like_pattern(statement.like) if statement.like is not None else None
        wanted = {name.lower() for name in statement.names}
        rows = [
            (name, "" if value is None else str(value))
            for name, value in self._session.variables.listed()
            if (pattern is None or pattern.fullmatch(name)) and (not wanted or name in wanted)
        ]
        return results.of_answer(Answer(("Variable_name", "Value"), list(rows)))

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
                Fact.USER: f"{session.username}@{session.client.stream.peer}",
                Fact.CONNECTION_ID: session.client.connection_id,
                Fact.LAST_INSERT_ID: 0,
                Fact.ROW_COUNT: session.changed_rows,
                Fact.FOUND_ROWS: session.found_rows,
            }
            return facts[value]
        return value

    # --- Questions --------------------------------------------------------------------------------------------------

    async def _asked(self, question: Question) -> Answer:
        subject, session = question.subject, self._session
        match subject:
            case Subject.STATUS:
                return questions.status(self._status(), question.like)
            case Subject.PROCESSES:
                return self._processes(full=question.full)
            case Subject.GRANTS:
                schemas = await session.in_thread("show_grants", catalog.schemas, None)
                return questions.grants(session.username or "", [str(row[0]) for row in schemas.rows])
            case Subject.PRIVILEGES:
                return questions.PRIVILEGES
            case Subject.OPEN_TABLES:
                return questions.OPEN_TABLES
            case _:
                return questions.warnings(subject, session.warned)

    def _errors(self) -> int:
        return sum(1 for warned in self._session.warned if warned.level == "Error")

    def _status(self) -> dict[str, str | int]:
        door = self._session.door
        cipher, version = self._session.client.stream.cipher
        return {
            "Connections": len(self._connections()),
            "Questions": sum(c.session.questions for c in self._connections().values()),
            "Ssl_cipher": cipher,
            "Ssl_version": version,
            "Threads_connected": len(self._connections()),
            "Threads_running": sum(1 for c in self._connections().values() if c.session.statement),
            "Uptime": int(time.monotonic() - door.started),
        }

    def _processes(self, *, full: bool) -> Answer:
        rows: list[catalog.Cells] = []
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
        every = self._session.door.connections()
        return {n: c for n, c in every.items() if c.session.principal == self._session.principal}
