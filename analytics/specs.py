"""The words between the console and analytics: what to run, what came out. Plain data, no Spark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `type` is Spark's name of the type, such as `int`, `decimal(10,2)` or `array<string>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table over files of the lake.

    `location` is an `oss://bucket/folder/`, `format` one of parquet, csv, json, orc. Without `columns` the schema is
    taken from the files when the table is first used, which costs a look into them.
    """

    name: str
    location: str
    format: str
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """One statement of one tenant, and everything that it may read."""

    task_id: str
    tenant: str
    sql: str
    #: Default schema: `select * from flights` means this schema's table.
    schema: str
    #: Every schema and table the statement may name; nothing else exists for it.
    tables: dict[str, list[TableSpec]]
    #: Values for the `?` of the statement, in order: str, int, float, bool, Decimal, date, datetime, bytes or None.
    parameters: tuple[object, ...]
    #: Where result.csv goes, an `oss://` location.
    result_file: str
    time_limit_s: float
    #: More rows than this fail the statement.
    max_result_rows: int | None = None


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
