"""The words between the console and analytics: what to run, what came out. Plain data, no Spark."""

import itertools
import secrets
import string
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from analytics.lake.locations import LakeFile, Place

_sequence = itertools.count()
#: Tells the processes apart, as a coordinator's id does in the vendor's.
_PROCESS_ID = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))

#: Decides on files of the lake before they are read or written; raises QueryRefused for the first that must not be.
Decide = Callable[[Iterable[Place]], None]
#: Told now and then, from any thread, how many bytes a statement has written by now, and with True how many they are at
#: its end, before anybody sees them; answers why the statement must end, or nothing.
Room = Callable[[int, bool], str]

_COMMON = ("pathGlobFilter", "recursiveFileLookup", "mode", "columnNameOfCorruptRecord")
_DATES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "encoding", "lineSep", "compression")
#: By format of files: the options of Spark's reader that a table may set. None names a further path or a class: `path`,
#: `basePath`, schemas to be fetched, and Hadoop's own settings, which Spark takes for options too, are not among them.
READER_OPTIONS = {
    "parquet": (*_COMMON, "mergeSchema", "compression"),
    "orc": (*_COMMON, "mergeSchema", "compression"),
    "json": (*_COMMON, *_DATES, "multiLine", "primitivesAsString", "allowComments", "allowSingleQuotes",
             "allowUnquotedFieldNames", "dropFieldIfAllNull", "prefersDecimal"),
    "csv": (*_COMMON, *_DATES, "header", "delimiter", "sep", "quote", "escape", "multiLine", "nullValue", "emptyValue",
            "comment", "nanValue", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "enforceSchema"),
}  # fmt: skip


def new_query_id() -> str:
    """`yyyyMMdd_HHmmss_nnnnn_xxxxx`, a new one with each call."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{next(_sequence) % 100_000:05d}_{_PROCESS_ID}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `type` is Spark's name of the type, such as `int`, `decimal(10,2)` or `array<string>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table that a statement may name.

    `format` is one of parquet, csv, json, orc: then `location` is the folder `oss://bucket/folder/`, and without
    `columns` the schema is taken from the files when the table is first used, which costs a look into them.
    Other formats have no files of the tenant: `mq` (messages of a topic), `rows` (given by the console).
    """

    name: str
    location: str
    format: str
    columns: tuple[Column, ...] = ()
    #: The last of `columns` that the folders `name=value` give, in their order.
    partitions: tuple[str, ...] = ()
    #: Options of the reader, such as ("delimiter", ";") for csv; secrets may be among them.
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: For the format `rows`: gives the rows, as tuples of the columns, when the statement names the table.
    rows: Callable[[], Iterable[tuple[object, ...]]] | None = None
    #: A folder without files is an empty table, and not a mistake in the location.
    may_be_empty: bool = False
    #: Why a stored table cannot be used, such as a location that breaks a rule; a statement that names it ends with it.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Inferred:
    """What the files of a folder look like, a proposal for a table; the columns of partitions are the last ones."""

    format: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rows of an INSERT or a CREATE TABLE … AS SELECT go: a table over files of the lake."""

    schema: str
    table: TableSpec
    #: Replace the table's files (of the partitions that the rows are of) instead of adding to them.
    overwrite: bool = False
    #: The columns that the rows are for, in their order; empty for all.
    columns: tuple[str, ...] = ()
    #: Fixed values of partition columns: `partition (day = '2026-01-15')`.
    partition: tuple[tuple[str, str | None], ...] = ()
    #: The table is made by this statement: its columns are those of the query, and its location must be empty.
    create: bool = False
    #: Waits until nobody else changes the table's files; gives its other writers: task id → whether it has ended.
    turn: Callable[[], AbstractContextManager[Mapping[str, bool]]] | None = None
    #: Decides on every file that is put in place or removed.
    decide: Decide | None = None
    #: How much the account may still store.
    room: Room | None = None


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """One statement of one tenant, and everything that it may read."""

    task_id: str
    tenant: str
    sql: str
    #: Default schema: `select * from flights` means this schema's table.
    schema: str
    #: Every schema and table the statement may name; nothing else exists for it, what `lookup` finds aside.
    tables: dict[str, list[TableSpec]]
    #: Values for the `?` of the statement, in order: str, int, float, bool, Decimal, date, datetime, bytes or None.
    parameters: tuple[object, ...]
    #: Where result.csv goes, an `oss://` location.
    result_file: str
    time_limit_s: float
    #: More rows, or a larger result.csv, than this fail the statement.
    max_result_rows: int | None = None
    max_result_bytes: int | None = None
    #: Tables of schemas that are too large to list: called with (schema, table) as the statement writes them.
    lookup: Callable[[str, str], TableSpec | None] | None = None
    #: Tell the plan instead of running the statement: "simple", "extended", "formatted", "cost" or "codegen".
    explain: str | None = None
    #: Write the rows there instead of to the result file, which then holds the count of rows.
    target: Target | None = None
    #: A client waits: the statement does not stand behind the tenant's others for a core.
    synchronous: bool = False
    #: Decides on every file of the tables that the statement names; None when their author is denied none.
    decide: Decide | None = None
    #: How much the account may still store of results.
    result_room: Room | None = None
    #: The engine's own id of this run (`new_query_id`); drawn when it is not given.
    engine_query_id: str | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a finished statement cost and gave."""

    row_count: int
    #: Rows and bytes read from tables, as Spark's tasks counted them.
    scanned_row_count: int
    scanned_data_bytes: int
    #: `yyyyMMdd_HHmmss_nnnnn_xxxxx`, UTC.
    engine_query_id: str
    #: From the call of `run_query` to the finished file, ms.
    elapse_ms: int
    columns: list[Column]
    #: Size of result.csv.
    result_bytes: int = 0
    #: With a target: the columns of the table that was written, and the bytes that were added to its files.
    table_columns: tuple[Column, ...] = ()
    table_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running statement is, by Spark's stages and tasks so far known."""

    stages: int
    stages_done: int
    tasks: int
    tasks_done: int
    scanned_row_count: int
    scanned_data_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Messages counted in the `seconds` up to `ts_ms`: kind "in" into a topic, kind "out" out of it by a group.

    `topic` and `group` are physical names; `group` is empty for "in".
    """

    ts_ms: int
    kind: str
    topic: str
    group: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ArchiveRanges:
    """What a step is to archive: offsets by `<broker>:<queue>`, from `begin` to before `end`.

    `missed` messages were dropped by the broker before they could be archived.
    """

    begin: dict[str, int]
    end: dict[str, int]
    missed: int = 0

    @property
    def messages(self) -> int:
        """How many offsets that are."""
        return sum(end - self.begin[place] for place, end in self.end.items())


@dataclass(frozen=True, slots=True)
class ArchiveStep:
    """A step: the topic's table with the step's ranges among its options, and where its files go."""

    task_id: str
    tenant: str
    table: TableSpec
    location: str
    number: int
    time_limit_s: float


@dataclass(frozen=True, slots=True)
class Archived:
    """What a step wrote."""

    messages: int
    files: int
    size: int
    #: The files as they are in their places.
    placed: tuple[LakeFile, ...] = ()
