"""How a table of a tenant is made known to a session."""

from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics.errors import QueryFailed
from analytics.specs import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Formats of files, with the options that hold unless the table says otherwise.
FILE_FORMATS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {},
    "json": {},
    "csv": {"header": "true", "escape": '"', "multiLine": "true"},
}


def create_statement(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> str:
    """The CREATE TABLE of Spark for a table over files. Raises QueryFailed for an unknown format."""
    if table.format not in FILE_FORMATS:
        known = ", ".join(FILE_FORMATS)
        raise QueryFailed(f"The table {'.'.join(relation)} has the format {table.format}; possible are {known}.")
    columns = ", ".join(f"{quoted(column.name)} {_type(spark, column.type)}" for column in table.columns)
    options = ", ".join(f"{text(n)} {text(v)}" for n, v in (FILE_FORMATS[table.format] | dict(table.options)).items())
    partitions = ", ".join(map(quoted, table.partitions))
    return (
        f"create table {full_name(relation)} {f'({columns})' if columns else ''} using {table.format}"
        f" {f'options ({options})' if options else ''} {f'partitioned by ({partitions})' if partitions else ''}"
        f" location {text(lake.spark_url(table.location))}"
    )


def _type(spark: "SparkSession", written: str) -> str:
    """The type as Spark writes it, so that nothing but a type gets into the statement."""
    types: Any = spark._jvm.org.apache.spark.sql.types  # type: ignore[union-attr]
    return str(getattr(getattr(types, "DataType$"), "MODULE$").fromDDL(written).sql())


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A text in quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def full_name(relation: tuple[str, str]) -> str:
    """Schema and table, quoted."""
    return ".".join(map(quoted, relation))
