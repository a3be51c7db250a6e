"""Types as the text that Spark's parser reads back."""

from typing import TYPE_CHECKING

from analytics.sql import tables

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


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
    return name if name.isidentifier() and name.isascii() else tables.quoted(name)
