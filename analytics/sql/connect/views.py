"""A table of a tenant as a frame of a Spark Connect session."""

from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics.errors import QueryFailed
from analytics.specs import Column, TableSpec
from analytics.sql import snapshots
from analytics.sql.tables import FILE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


def frame_of(spark: "SparkSession", relation: tuple[str, str], table: TableSpec) -> Any:
    """The rows of the table; nothing is read yet. Raises QueryFailed for a format that cannot be had here."""
    match table.format:
        case "rows":
            return spark.read.parquet(lake.spark_url(snapshots.write(table)))
        case name if name in FILE_FORMATS:
            reader: Any = spark.read.format(name).options(**(FILE_FORMATS[name] | dict(table.options)))
            if table.columns:
                reader = reader.schema(_schema(spark, table.columns))
            return reader.load(lake.spark_url(table.location))
    raise QueryFailed(
        f"The table {'.'.join(relation)} has the format {table.format}, which Spark Connect cannot read here;"
        f" possible are {', '.join(FILE_FORMATS)}."
    )


def empty_frame(spark: "SparkSession", table: TableSpec) -> Any:
    """No rows, in the columns of a table whose folder does not exist yet."""
    return spark.createDataFrame([], _schema(spark, table.columns))


def _schema(spark: "SparkSession", columns: tuple[Column, ...]) -> Any:
    """The columns as the server's parser of types has them, so that nothing but a type gets into a schema."""
    from pyspark.sql.types import StructType

    fields = StructType()
    for column in columns:
        parsed: Any = spark._parse_ddl(f"c {column.type}")
        fields.add(column.name, parsed["c"].dataType)
    return fields
