"""Makes a topic a table: its archive in the lake, as far as there is one, and the rest from the broker."""

import json
from typing import TYPE_CHECKING

from analytics import lake
from analytics.errors import QueryFailed
from analytics.lake import reach
from analytics.specs import TableSpec
from analytics.sql import days
from analytics.sql.spelling import column_list, full_name, quoted, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Column of an archive that its folders give: the UTC day of the store time.
DAY = "day"


def create(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> None:
    """Make the table. Raises QueryFailed when the broker cannot be asked how far the topic reaches."""
    from analytics.sources import mq

    options = dict(table.options)
    try:
        topic = mq.fix(options) if "namesrv" in options else None
    except mq.MessagesUnreadable as error:
        raise QueryFailed(str(error), "MESSAGES_UNREADABLE") from error
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
    days.choose_by_time(spark)
    archive = (relation[0], f"{relation[1]}_archive")
    columns = column_list(spark, table.columns)
    spark.sql(
        f"create table {full_name(archive)} {columns[:-1]}, {DAY} date) using parquet partitioned by ({DAY})"
        f" location {text(reach.add(spark, table.location))}"
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
