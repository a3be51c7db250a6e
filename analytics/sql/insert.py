"""Writes the rows of `insert …` and `create table … as …` into a table over files of the lake, whole or not at all."""

import contextlib
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import TYPE_CHECKING

from analytics import lake
from analytics.errors import AnalyticsError, QueryFailed
from analytics.lake import allowed_paths
from analytics.lake.locations import parse_location
from analytics.session import TASK_PATIENCE_S
from analytics.specs import Column, Target
from analytics.sql import moves, tables
from analytics.sql.backend import Backend, unless
from analytics.sql.moves import Plan
from analytics.sql.result import NO_ROOM, SMALL_ROWS, Written
from analytics.sql.running import Statement
from analytics.sql.spelling import quoted, type_name

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

#: Begins the message of a value that does not fit, so that it can be told from what a statement raises itself.
DOES_NOT_FIT = "A value does not fit into the column"
_LENGTH = re.compile(r"(?P<kind>varchar|char|character)\s*\(\s*(?P<length>\d+)\s*\)", re.IGNORECASE)
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


def fitted(frame: "DataFrame", target: Target, columns: tuple[Column, ...]) -> "DataFrame":
    """The rows in the table's columns, in their order. Raises QueryFailed for a count or a type that does not fit."""
    from pyspark.sql import functions

    given = _positions(target, columns, len(frame.columns))
    fixed = {name.lower(): value for name, value in target.partition if value is not None}
    sources = [field.dataType for field in frame.schema.fields]
    numbered = frame.toDF(*[f"c{number}" for number in range(len(sources))])
    cells = []
    for column in columns:
        kind = parsed_type(column.type)
        name = column.name.lower()
        if name in fixed:
            cell = functions.lit(fixed[name]).cast(kind)
        elif name in given:
            number = given[name]
            cell = _assigned(functions.col(f"c{number}"), sources[number], kind, column)
        else:
            cell = functions.lit(None).cast(kind)
        cells.append(cell.alias(column.name))
    return numbered.select(*cells)


def _positions(target: Target, columns: tuple[Column, ...], count: int) -> dict[str, int]:
    """Which column of the query each column of the table takes."""
    fixed = {name.lower() for name, value in target.partition if value is not None}
    dynamic = [name.lower() for name, value in target.partition if value is None]
    if target.columns:
        wanted = [name.lower() for name in target.columns]
        wanted += [name for name in dynamic if name not in wanted]
        missing = {name.lower() for name in target.table.partitions} - set(wanted) - fixed
        if missing:
            raise QueryFailed(f"The partition column {sorted(missing)[0]} gets no value: name it among the columns.")
    else:
        wanted = [column.name.lower() for column in columns if column.name.lower() not in fixed]
    known = {column.name.lower() for column in columns}
    for name in [*wanted, *fixed]:
        if name not in known:
            raise QueryFailed(f"The table {target.table.name} has no column {name}; it has {_names(columns)}.")
    if len(wanted) != count:
        raise QueryFailed(
            f"The query gives {count} columns; {target.schema}.{target.table.name} takes {len(wanted)}:"
            f" {', '.join(wanted)}."
        )
    return {name: number for number, name in enumerate(wanted)}


def _names(columns: tuple[Column, ...]) -> str:
    return ", ".join(column.name for column in columns)


def parsed_type(written: str) -> "DataType":
    """The type that Spark's name stands for; the length of varchar and char is looked at apart."""
    from pyspark.sql.types import DataType, StringType

    return StringType() if _LENGTH.fullmatch(written.strip()) else DataType.fromDDL(written)


def can_assign(source: "DataType", kind: "DataType") -> bool:  # noqa: PLR0911  a case for each rule
    """Whether ANSI store assignment casts the one type to the other (Spark's `Cast.canANSIStoreAssign`)."""
    from pyspark.sql import types

    datetimes = (types.DateType, types.TimestampType, types.TimestampNTZType)
    match (source, kind):
        case _ if source == kind or isinstance(source, types.NullType):
            return True
        case (types.ArrayType(), types.ArrayType()):
            return can_assign(source.elementType, kind.elementType)
        case (types.MapType(), types.MapType()):
            return can_assign(source.keyType, kind.keyType) and can_assign(source.valueType, kind.valueType)
        case (types.StructType(), types.StructType()):
            return len(source.fields) == len(kind.fields) and all(
                can_assign(one.dataType, other.dataType) for one, other in zip(source.fields, kind.fields, strict=True)
            )
        case (types.NumericType(), types.NumericType()):
            return True
        case (types.AtomicType(), types.StringType()):
            return True
        case _:
            return isinstance(source, datetimes) and isinstance(kind, datetimes)


def _assigned(cell: "SparkColumn", source: "DataType", kind: "DataType", column: Column) -> "SparkColumn":
    """The value in the column's type; one that does not fit ends the statement."""
    from pyspark.sql import functions, types

    if not can_assign(source, kind):
        raise QueryFailed(
            f"The column {column.name} is of the type {column.type}, and a {source.simpleString()} cannot be stored"
            " there; CAST it in the query."
        )
    if isinstance(source, types.NumericType) and isinstance(kind, types.NumericType) and source != kind:
        fits = cell.try_cast(kind)
        return functions.when(cell.isNotNull() & fits.isNull(), _refuse(cell, column)).otherwise(fits)
    value = cell.cast(kind)
    if length := _LENGTH.fullmatch(column.type.strip()):
        most = int(length["length"])
        if length["kind"].lower() != "varchar":
            value = functions.rpad(value, most, " ")
            value = functions.when(functions.length(cell.cast("string")) > most, cell.cast("string")).otherwise(value)
        value = functions.when(functions.length(value) > most, _refuse(value, column)).otherwise(value)
    return value


def _refuse(cell: "SparkColumn", column: Column) -> "SparkColumn":
    from pyspark.sql import functions

    said = functions.substring(cell.cast("string"), 1, 50)
    prefix = functions.lit(f"{DOES_NOT_FIT} {quoted(column.name)} of the type {column.type}: ")
    return functions.raise_error(functions.concat(prefix, said))


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
    rows = _of_a_new_table(frame, target) if target.create else fitted(frame, target, _columns(frame, target))
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
        with allowed_paths.reaching(frame.sparkSession, attempt) as url:
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
            target.decide([parse_location(f"{base}/{name}") for name in changed])
        moves.commit(location, task_id, plan)
    return plan


def _too_large(attempt: str, target: Target, *, is_all: bool = False) -> AnalyticsError | None:
    """Why a statement that has written so much must end. Raises LakeError."""
    size = lake.size_of(attempt)
    if size > MOST_BYTES:
        return QueryFailed(
            f"The statement writes more than {MOST_BYTES / 1024**3:g} GiB, which is the limit; split it."
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
        raise QueryFailed(f"The table {target.table.name} has neither columns nor files to take them from.")
    tables.require_options(target.table)
    reader = frame.sparkSession.read.format(target.table.format).options(
        **(tables.FILE_FORMATS[target.table.format] | dict(target.table.options))
    )
    with allowed_paths.reaching(frame.sparkSession, target.table.location) as url:
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
    cells = [functions.col(quoted(name)) for name in others]
    return rows.select(unless(interrupted, functions.col(quoted(first))).alias(first), *cells)


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
