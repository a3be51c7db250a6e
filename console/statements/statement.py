"""What a statement asks for, as plain data: one class a form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from console.statements.select import Constant
from console.statements.write import TargetStatement
from console.web.errors import Refused


@dataclass(frozen=True, slots=True)
class ShowTask:
    """`show query_task where id = '…'`."""

    task_id: str


@dataclass(frozen=True, slots=True)
class SearchTasks:
    """`show query_task [like '…'] [where …] [order by …] [limit n]`; the clauses are read by `task_search`."""

    clauses: str = ""
    like: str | None = None


@dataclass(frozen=True, slots=True)
class CancelTask:
    """`cancel query_task where id = '…'`, `… where id in ('…', '…')`."""

    task_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """`show databases [like '…' | where …]`, also written `show schemas`."""

    like: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """`show [full] tables [from schema] [like '…' | where …]`."""

    schema: str | None = None
    like: str | None = None
    full: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """`show [full] columns from table [from schema] [like '…' | where …]`, `describe table`."""

    table: str
    schema: str | None = None
    like: str | None = None
    full: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ShowVariables:
    """`show [session|global] variables [like '…'|where variable_name = '…' or …]`."""

    like: str | None = None
    names: tuple[str, ...] = ()


class Subject(Enum):
    """What clients ask about their own connection."""

    WARNINGS = "warnings"
    ERRORS = "errors"
    WARNING_COUNT = "count(*) warnings"
    ERROR_COUNT = "count(*) errors"
    STATUS = "status"
    PROCESSES = "processlist"
    GRANTS = "grants"
    PRIVILEGES = "privileges"


@dataclass(frozen=True, slots=True)
class ShowConnection:
    """`show [count(*)] warnings|errors`, `show status`, `… processlist`, `… grants`, `… privileges`.

    `like` narrows the names of a status, `full` asks for whole statements.
    """

    subject: Subject
    like: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class ShowNothing:
    """A question of clients whose answer is an empty list: open tables, indexes, routines, triggers."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShowList:
    """`show collation`, `show character set`, `show engines`, `show plugins`: short lists that are always the same."""

    kind: str
    like: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """`use schema`."""

    schema: str


@dataclass(frozen=True, slots=True)
class SetVariables:
    """`set …`: names, session variables, transaction characteristics."""

    text: str


@dataclass(frozen=True, slots=True)
class SelectConstants:
    """`select` of constants, system variables and facts of the connection, without FROM."""

    items: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """`begin`, `start transaction`, `commit`, `rollback`: accepted, since every statement stands alone."""


@dataclass(frozen=True, slots=True)
class Kill:
    """`kill [connection|query] id`."""

    connection_id: int
    query_only: bool


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """`show create table t`."""

    table: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateSchema:
    """`show create schema s`, also written `show create database s`."""

    schema: str


@dataclass(frozen=True, slots=True)
class ShowTableStatus:
    """`show table status [from schema] [like '…' | where …]`."""

    schema: str | None = None
    like: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """`show partitions t`."""

    table: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """`describe formatted t`, `describe extended t`: columns, then what the table is."""

    table: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class InformationSchemaQuery:
    """A query on `information_schema` and nothing else."""

    text: str


@dataclass(frozen=True, slots=True)
class Ddl:
    """A definition: `create`, `drop`, `alter` … of schemas and tables. `console.catalog.ddl` reads it further."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    """`explain [mode] query`: the mode is simple, extended, formatted, codegen or cost."""

    mode: str
    query: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """What begins as INSERT or CREATE TABLE … AS and goes on as nothing that can be run; the reason is a sentence."""

    reason: str

    def refusal(self) -> Refused:
        """The error that tells it."""
        return Refused("SYNTAX_ERROR", self.reason, "text")


@dataclass(frozen=True, slots=True)
class Query:
    """Everything else: for Spark, behind its guard."""

    text: str


Statement = (
    ShowTask
    | SearchTasks
    | CancelTask
    | ShowDatabases
    | ShowTables
    | ShowColumns
    | ShowVariables
    | ShowConnection
    | ShowNothing
    | ShowList
    | Use
    | SetVariables
    | SelectConstants
    | Transaction
    | Kill
    | ShowCreateTable
    | ShowCreateSchema
    | ShowTableStatus
    | ShowPartitions
    | DescribeTable
    | InformationSchemaQuery
    | Ddl
    | Explain
    | TargetStatement
    | Malformed
    | Query
)
