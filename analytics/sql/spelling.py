"""Names, texts and columns as they are spelled in statements of ours for Spark."""

from typing import TYPE_CHECKING, Any

from analytics.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def column_list(spark: "SparkSession", columns: tuple[Column, ...]) -> str:
    """The columns in parentheses, or nothing when the files are to tell them."""
    listed = ", ".join(f"{quoted(column.name)} {_type(spark, column.type)}" for column in columns)
    return f"({listed})" if listed else ""


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
