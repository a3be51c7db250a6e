"""Writes the rows of `insert …` and `create table … as …` into a table over files of the lake, whole or not at all."""

import contextlib
import time
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import TYPE_CHECKING

from analytics import lake
from analytics.errors import AnalyticsError, QueryFailed
from analytics.lake import reach
from analytics.lake.locations import parse
from analytics.session import TASK_PATIENCE_S
from analytics.specs import Column, Target
from analytics.sql import assignment, moves, tables
from analytics.sql.backend import Backend, unless
from analytics.sql.moves import Plan
from analytics.sql.result import NO_ROOM, SMALL_ROWS, Written
from analytics.sql.running import Statement
from analytics.sql.type_names import type_name

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: The result file of a statement with a target: one row with the count.
RESULT_COLUMN = Column("rows", "bigint")
#: A statement that writes more is ended: a cross join writes a gigabyte in a quarter of a minute.
MOST_BYTES = 32 * 1024**3
#: Options of a table that its writer heeds too; all others are the reader's.
_WRITER_OPTIONS = {
    "csv": (
        *("sep", "delimiter", "header", "quote", "escape", "quoteall", "escapequotes", "nullvalue", "emptyvalue"),
        *("dateformat", "timestampformat", "timestampntzformat", "encoding", "charset", "linesep", "compression"),
        *("ignoreleadingwhitespace", "ignoretrailingwhitespace", "chartoescapequoteescaping"),
    ),
    "json": ("dateformat", "timestampformat", "timestampntzformat", "encoding", "linesep", "compression"),
    "parquet": ("compression",),
    "orc": ("compression",),
}
#: Characters that Spark writes as %XX in the name of a partition's folder (its ExternalCatalogUtils).
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(number) for number in range(1, 32)}
#: How often it is looked whether the tasks of a statement that failed have ended, s.
_LOOK_S = 0.1
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def write(backend: Backend, frame: "DataFrame", target: Target, statement: Statement) -> Written:
    """Run the query and leave its rows in the table; returns their count and the columns of the table.

    A statement that is run again after its worker died finds what it has done and does nothing twice (`moves`). Raises
    QueryFailed when rows and table do not fit, or the table that is to be made has files already.
    """
    if target.table.problem:
        raise QueryFailed(target.table.problem, "TABLE_UNUSABLE")
    location, task_id, tag = target.table.location, statement.task_id, f"{statement.tag}-insert"
    with _turn(target) as writers:
        plan = moves.read(location, task_id)
        if plan is not None:
            moves.carry_out(location, task_id, plan)
        else:
            moves.recover(location, writers)
            moves.forget(location, task_id)
            _require_empty(target)
    if plan is None:
        try:
            plan = _written(backend, frame, target, statement, tag)
        except BaseException:
            if moves.read(location, task_id) is None:
                _wait_for_tasks(backend, statement.tag)
                moves.forget(location, task_id)
            raise
    return Written(plan.rows, tag, [Column(name, kind) for name, kind in plan.columns], stored=plan.size)


def count_file(written: Written) -> BytesIO:
    """What result.csv holds of a statement with a target."""
    return BytesIO(f"{RESULT_COLUMN.name}\n{written.rows}\n".encode())


def _wait_for_tasks(backend: Backend, tag: str) -> None:
    """Until no task of the statement writes any more: what it made after the folder was removed would stay for ever."""
    patience_ends = time.monotonic() + TASK_PATIENCE_S
    with contextlib.suppress(Exception):  # a dead Spark has no tasks, and the statement's own error tells of it
        while backend.holds_cores(tag) and time.monotonic() < patience_ends:
            backend.cancel(tag)
            time.sleep(_LOOK_S)


def _turn(target: Target) -> AbstractContextManager[Mapping[str, bool]]:
    return target.turn() if target.turn is not None else nullcontext({})


def _written(backend: Backend, frame: "DataFrame", target: Target, statement: Statement, tag: str) -> Plan:
    location, task_id = target.table.location, statement.task_id
    rows = (
        _of_a_new_table(frame, target) if target.create else assignment.fitted(frame, target, _columns(frame, target))
    )
    columns = [[field.name, type_name(field.dataType)] for field in rows.schema.fields]
    known = backend.most_rows(frame)
    if known is not None and known <= SMALL_ROWS:
        rows = rows.coalesce(1)
    attempt = f"{moves.staging(location, task_id)}{uuid.uuid4().hex}/"
    statement.limit = lambda: _too_large(attempt, target)
    with backend.tagged(tag):
        counted = _stoppable(rows, backend.interrupted(rows))
        writer = counted.write.format(target.table.format)
        for name, value in _options(target).items():
            writer = writer.option(name, value)
        if target.table.partitions:
            writer = writer.partitionBy(*target.table.partitions)
        lake.make_ready(attempt)
        with reach.reaching(frame.sparkSession, attempt) as url:
            writer.save(url)
    statement.limit = lambda: None
    statement.check()
    if failure := _too_large(attempt, target, is_all=True):
        raise failure
    count = backend.counters(tag).output_rows
    emptied = _fixed_partition(rows, target)
    with _turn(target) as writers:
        moves.recover(location, writers)
        _require_empty(target)
        statement.check()
        plan = moves.planned(target, task_id, attempt, count, columns, emptied)
        if target.decide is not None:
            base = target.table.location.rstrip("/")
            changed = [destination for _, destination in plan.moves] + plan.removals
            target.decide([parse(f"{base}/{name}") for name in changed])
        moves.commit(location, task_id, plan)
    return plan


def _too_large(attempt: str, target: Target, *, is_all: bool = False) -> AnalyticsError | None:
    """Why a statement that has written so much must end. Raises LakeError."""
    size = lake.size_of(attempt)
    if size > MOST_BYTES:
        return QueryFailed(
            f"The statement writes more than {MOST_BYTES / 1024**3:g} GiB, the most there is; divide it."
        )
    reason = target.room(size, is_all) if target.room is not None else ""
    return QueryFailed(reason, NO_ROOM) if reason else None


def _require_empty(target: Target) -> None:
    if target.create and lake.files(target.table.location):
        raise QueryFailed(
            f"There are files at {target.table.location} already; a new table needs an empty folder.",
            "LOCATION_ALREADY_EXISTS",
        )


def _columns(frame: "DataFrame", target: Target) -> tuple[Column, ...]:
    """The columns of the table: those told, or else those of its files."""
    if target.table.columns:
        return target.table.columns
    if not lake.files(target.table.location):
        raise QueryFailed(f"The table {target.table.name} has neither columns nor files that tell them.")
    tables.require_options(target.table)
    reader = frame.sparkSession.read.format(target.table.format).options(
        **(tables.FILE_FORMATS[target.table.format] | dict(target.table.options))
    )
    with reach.reaching(frame.sparkSession, target.table.location) as url:
        fields = reader.load(url).schema.fields
    return tuple(Column(field.name, field.dataType.simpleString()) for field in fields)


def _of_a_new_table(frame: "DataFrame", target: Target) -> "DataFrame":
    """The rows with the partition columns last. Raises QueryFailed for names and types that no table can have."""
    from pyspark.sql import functions, types

    names = [field.name for field in frame.schema.fields]
    lower = [name.lower() for name in names]
    for field in frame.schema.fields:
        if lower.count(field.name.lower()) > 1:
            raise QueryFailed(f"Two columns of the query are named {field.name}; give one another name with AS.")
        if isinstance(field.dataType, types.NullType):
            raise QueryFailed(f"The column {field.name} has no type, since it is always null; CAST it to one.")
    wanted = [name.lower() for name in target.table.partitions]
    for name in wanted:
        if name not in lower:
            raise QueryFailed(f"PARTITIONED BY names {name}; the query has the columns {', '.join(names)}.")
    if len(wanted) == len(lower):
        raise QueryFailed("A table needs a column that it is not partitioned by.")
    order = [n for n, name in enumerate(lower) if name not in wanted] + [lower.index(name) for name in wanted]
    numbered = frame.toDF(*[f"c{number}" for number in range(len(names))])
    return numbered.select(*[functions.col(f"c{number}").alias(names[number]) for number in order])


def _stoppable(rows: "DataFrame", interrupted: "SparkColumn") -> "DataFrame":
    """The rows, in tasks that can be stopped."""
    from pyspark.sql import functions

    first, *others = rows.columns
    cells = [functions.col(tables.quoted(name)) for name in others]
    return rows.select(unless(interrupted, functions.col(tables.quoted(first))).alias(first), *cells)


def _options(target: Target) -> dict[str, str]:
    """What the writer is told: the defaults of the format, and the table's own options that concern writing."""
    heeded = _WRITER_OPTIONS.get(target.table.format)
    if heeded is None:
        raise QueryFailed(f"Tables of the format {target.table.format} cannot be written.")
    if any(name.startswith(("_", ".")) for name in target.table.partitions):
        raise QueryFailed("A partition column whose name begins with _ or . cannot be written: its folders are hidden.")
    tables.require_options(target.table)
    given = tables.FILE_FORMATS[target.table.format] | dict(target.table.options)
    return {name: value for name, value in given.items() if name.lower() in heeded}


def _fixed_partition(rows: "DataFrame", target: Target) -> str | None:
    """The folder of the one partition that PARTITION (…) fixes; None when it leaves one open."""
    fixed = {name.lower(): value for name, value in target.partition if value is not None}
    names = [name for name in target.table.partitions if name.lower() in fixed]
    if not target.overwrite or not names or len(names) < len(target.table.partitions):
        return None
    from pyspark.sql import functions

    kinds = {field.name.lower(): field.dataType for field in rows.schema.fields}
    cells = [functions.lit(fixed[n.lower()]).cast(kinds[n.lower()]).cast("string") for n in names]
    found = rows.sparkSession.range(1).select(*[c.alias(f"c{i}") for i, c in enumerate(cells)])
    # By Arrow: what `collect` reads is pickled, and the JVM must not choose what this process unpickles.
    values = found.toArrow().to_pylist()[0].values()
    return "".join(f"{_folder_part(n)}={_folder_part(v or _NO_VALUE)}/" for n, v in zip(names, values, strict=True))


def _folder_part(text: str) -> str:
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in text)
