"""Names, texts, types and columns as they are spelled in statements of ours for Spark.

Topics and schemas may have `%` and `-` in their names, which Spark's CREATE refuses and its catalog can hold: names are
checked when something is made by a statement, not when it is found. So a table is made under a name of letters and
digits, and renamed below that check: columns that are qualified with the true name resolve as always, and so do error
messages.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Any

from analytics.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

#: What Spark's session catalog accepts in CREATE.
_PLAIN = re.compile(r"\w+", re.ASCII)


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


def type_name(kind: "DataType") -> str:
    """Spark's name of a type, with the names of fields in backticks where they need it."""
    from pyspark.sql import types

    match kind:
        case types.ArrayType():
            return f"array<{type_name(kind.elementType)}>"
        case types.MapType():
            return f"map<{type_name(kind.keyType)},{type_name(kind.valueType)}>"
        case types.StructType():
            fields = (f"{_field_name(field.name)}:{type_name(field.dataType)}" for field in kind.fields)
            return f"struct<{','.join(fields)}>"
        case _:
            return kind.simpleString()


def _field_name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quoted(name)


def is_plain(name: str) -> bool:
    """Whether Spark accepts the name in a CREATE."""
    return _PLAIN.fullmatch(name) is not None


def safe(name: str) -> str:
    """The name itself when it is plain, otherwise one made from it that no other name has."""
    return name if is_plain(name) else "t_" + hashlib.sha256(name.encode()).hexdigest()[:24]


def create_database(spark: "SparkSession", name: str) -> None:
    """Make a database of any name in the session's catalog; nothing when it is there."""
    if is_plain(name):
        spark.sql(f"create database if not exists `{name}`")
        return
    catalog = _catalog(spark)
    if catalog.databaseExists(name):
        return
    default = catalog.getDatabase("default")
    database = spark._jvm.org.apache.spark.sql.catalyst.catalog.CatalogDatabase  # type: ignore[union-attr]
    catalog.createDatabase(database(name, "", default.locationUri(), default.properties()), True)


def rename(spark: "SparkSession", schema: str, name: str) -> None:
    """Give the table or view that was made as `safe(name)` its own name."""
    if not is_plain(name):
        _catalog(spark).renameTable(schema, safe(name), name)


def _catalog(spark: "SparkSession") -> Any:
    return spark._jsparkSession.sharedState().externalCatalog()
