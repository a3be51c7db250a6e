"""How a table of a tenant is made known to a session, by its format."""

from typing import TYPE_CHECKING

from analytics import option_values
from analytics.errors import QueryFailed
from analytics.lake import reach
from analytics.specs import READER_OPTIONS, TableSpec
from analytics.sql import messages, naming, snapshots
from analytics.sql.spelling import column_list, full_name, quoted, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FILE_FORMATS", "create", "create_statement", "full_name", "quoted", "text"]

#: Formats of files, with the options that hold unless the table says otherwise.
FILE_FORMATS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {},
    "json": {},
    "csv": {"header": "true", "escape": '"', "multiLine": "true"},
}


def create(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> None:
    """Make the table known to the session as (schema, table). Raises QueryFailed."""
    schema, name = relation
    safe = schema, naming.safe(name)
    match table.format:
        case "mq":
            messages.create(spark, safe, table)
        case "rows":
            kept = snapshots.write(table)
            spark.sql(create_statement(spark, safe, TableSpec(name, kept, "parquet", table.columns)))
        case _:
            spark.sql(create_statement(spark, safe, table))
    naming.rename(spark, schema, name)


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
        f" location {text(reach.add(spark, table.location))}"
    )


def require_options(table: TableSpec) -> None:
    """Raise QueryFailed for an option that a table of its format cannot have: Spark would take it for a setting.

    Also for a value that the option cannot have.
    """
    known = {name.lower() for name in READER_OPTIONS.get(table.format, ())}
    for name, value in table.options:
        if name.lower() not in known:
            raise QueryFailed(
                f"The table {table.name} has the option {name!r}, which is not offered.", "TABLE_UNUSABLE"
            )
        if problem := option_values.problem(name, value):
            raise QueryFailed(f"The table {table.name} has the {name} {value[:80]!r}; {problem}.", "TABLE_UNUSABLE")
