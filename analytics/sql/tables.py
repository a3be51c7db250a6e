"""Tables as Spark sees them: files of the lake, messages of a topic with their archive, and rows.

Rows are what the console gives; they are kept as a file of the lake for as long as the one statement runs.
"""

import contextlib
import itertools
import json
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import lake, option_values
from analytics import session as spark_session
from analytics.errors import QueryFailed
from analytics.lake import allowed_paths
from analytics.lake.locations import SNAPSHOTS
from analytics.specs import READER_OPTIONS, TableSpec
from analytics.sql import spelling
from analytics.sql.spelling import column_list, full_name, quoted, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Formats of files, with the options that hold unless the table says otherwise.
FILE_FORMATS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {},
    "json": {},
    "csv": {"header": "true", "escape": '"', "multiLine": "true"},
}
#: Column of an archive that its folders give: the UTC day of the store time.
DAY = "day"
_CHUNK_ROWS = 5_000

_kept: ContextVar[list[str]] = ContextVar("snapshots")
_lock = threading.Lock()
_rules: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def create(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> None:
    """Make the table known to the session as (schema, table). Raises QueryFailed."""
    schema, name = relation
    safe = schema, spelling.safe(name)
    match table.format:
        case "mq":
            create_messages(spark, safe, table)
        case "rows":
            kept = write_snapshot(table)
            spark.sql(create_statement(spark, safe, TableSpec(name, kept, "parquet", table.columns)))
        case _:
            spark.sql(create_statement(spark, safe, table))
    spelling.rename(spark, schema, name)


def create_statement(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> str:
    """The CREATE TABLE of Spark for a table over files. Raises QueryFailed for an unknown format."""
    if table.format not in FILE_FORMATS:
        known = ", ".join(FILE_FORMATS)
        raise QueryFailed(f"The table {'.'.join(relation)} has the format {table.format}; possible are {known}.")
    require_options(table)
    options = ", ".join(f"{text(n)} {text(v)}" for n, v in (FILE_FORMATS[table.format] | dict(table.options)).items())
    partitions = ", ".join(map(quoted, table.partitions))
    return (
        f"create table {full_name(relation)} {column_list(spark, table.columns)} using {table.format}"
        f" {f'options ({options})' if options else ''} {f'partitioned by ({partitions})' if partitions else ''}"
        f" location {text(allowed_paths.add(spark, table.location))}"
    )


def require_options(table: TableSpec) -> None:
    """Raise QueryFailed for an option that a table of its format cannot have: Spark would take it for a setting.

    Also for a value that the option cannot have.
    """
    known = {name.lower() for name in READER_OPTIONS.get(table.format, ())}
    for name, value in table.options:
        if name.lower() not in known:
            raise QueryFailed(
                f"The table {table.name} has the option {name!r}, which is not supported.", "TABLE_UNUSABLE"
            )
        if problem := option_values.problem(name, value):
            raise QueryFailed(f"The table {table.name} has the {name} {value[:80]!r}; {problem}.", "TABLE_UNUSABLE")


def choose_by_time(spark: "SparkSession") -> None:
    """Give the session the rule by which a bound of the store time skips days of an archive (ArchiveDays.java)."""
    java: Any = getattr(spark, "_jsparkSession", None)
    if java is None:
        return
    jvm: Any = spark._jvm
    rules = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList([_rule(spark)])).toSeq()
    getattr(java.experimental(), "extraOptimizations_$eq")(rules)


def _rule(spark: "SparkSession") -> Any:
    gateway: Any = spark.sparkContext._gateway
    with _lock:
        rule = _rules.get(gateway)
        if rule is None:
            jvm: Any = spark._jvm
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(spark._jsparkSession.getClass().getClassLoader())
            compiler.cook(Path(__file__).with_name("ArchiveDays.java").read_text())
            compiled = compiler.getClassLoader().loadClass("ArchiveDays")
            no_types, no_values = gateway.new_array(jvm.Class, 0), gateway.new_array(jvm.Object, 0)
            rule = _rules[gateway] = compiled.getDeclaredConstructor(no_types).newInstance(no_values)
        return rule


def create_messages(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> None:
    """Make the table.

    Raises QueryFailed when the broker cannot be asked how far the topic reaches, and EngineOutdated when its readers
    could not connect to it.
    """
    from analytics.sources import mq

    options = dict(table.options)
    try:
        topic = mq.fix(options) if "namesrv" in options else None
    except mq.MessagesUnreadable as error:
        raise QueryFailed(str(error), "MESSAGES_UNREADABLE") from error
    if topic is not None and (outdated := spark_session.outdated(topic.addresses)) is not None:
        raise outdated
    has_archive = bool(table.location and lake.files(table.location))
    schema, name = relation
    stored = (schema, f"{name}_stored") if has_archive else relation
    if topic is not None:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        label = f"mq_{name}".lower()
        spark.dataSource.register(mq.source_class(label, topic))
        spark.sql(f"create table {full_name(stored)} {column_list(spark, table.columns)} using {quoted(label)}")
    if has_archive:
        _create_union(spark, relation, stored if topic is not None else None, table)
    elif topic is None:
        raise QueryFailed(f"The archive {table.name} has no files.")


def _create_union(
    spark: "SparkSession", relation: tuple[str, str], stored: tuple[str, str] | None, table: TableSpec
) -> None:
    """A view over both. What the archive does not own yet is left out of it, even when its file is there already."""
    choose_by_time(spark)
    archive = (relation[0], f"{relation[1]}_archive")
    columns = column_list(spark, table.columns)
    spark.sql(
        f"create table {full_name(archive)} {columns[:-1]}, {DAY} date) using parquet partitioned by ({DAY})"
        f" location {text(allowed_paths.add(spark, table.location))}"
    )
    begins: dict[str, int] = json.loads(dict(table.options).get("begin", "{}"))
    places = ", ".join(map(text, begins))
    offsets = ", ".join(f"{offset}L" for offset in begins.values())
    end = f"try_element_at(map_from_arrays(array({places}), array({offsets})), concat(broker, ':', queue))"
    names = ", ".join(quoted(column.name) for column in table.columns)
    halves = [f"select {names} from {full_name(archive)} where offset < {end}"]  # noqa: S608  all quoted
    if stored:
        halves.append(f"select {names} from {full_name(stored)}")  # noqa: S608
    spark.sql(f"create view {full_name(relation)} as {' union all '.join(halves)}")


@contextlib.contextmanager
def removed_afterwards() -> Iterator[None]:
    """Remove the snapshots that the block writes when it ends."""
    token = _kept.set([])
    try:
        yield
    finally:
        for location in _kept.get():
            with contextlib.suppress(Exception):  # the lake's own error would hide the statement's
                lake.remove(location)
        _kept.reset(token)


def write_snapshot(table: TableSpec) -> str:
    """Write the rows of a table; returns the folder. A few thousand are in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if table.rows is None:
        raise QueryFailed(f"The table {table.name} has no rows to be read.")
    types = {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    schema = pa.schema([(column.name, types[column.type]) for column in table.columns])
    location = f"{SNAPSHOTS}/{uuid.uuid4().hex}/"
    _kept.get().append(location)
    rows = iter(table.rows())
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema) as writer:
            while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
                columns = [
                    pa.array(values, kind) for values, kind in zip(zip(*chunk, strict=True), schema.types, strict=True)
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        file.seek(0)
        lake.write_file(f"{location}rows.parquet", file)
    return location
