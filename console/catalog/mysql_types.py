"""Spark's types in the words of MySQL, for programs that know no others: drivers' metadata and `information_schema`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = 65_535
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True, slots=True)
class MysqlType:
    """Columns of `information_schema.columns` that tell the type; None where MySQL has null too."""

    data_type: str
    column_type: str
    characters: int | None = None
    precision: int | None = None
    scale: int | None = None
    datetime_precision: int | None = None


_PLAIN = {
    "boolean": MysqlType("tinyint", "tinyint(1)", precision=3, scale=0),
    "tinyint": MysqlType("tinyint", "tinyint", precision=3, scale=0),
    "smallint": MysqlType("smallint", "smallint", precision=5, scale=0),
    "int": MysqlType("int", "int", precision=10, scale=0),
    "bigint": MysqlType("bigint", "bigint", precision=19, scale=0),
    "float": MysqlType("float", "float", precision=12),
    "double": MysqlType("double", "double", precision=22),
    "date": MysqlType("date", "date"),
    "timestamp": MysqlType("datetime", "datetime(6)", datetime_precision=6),
    "timestamp_ntz": MysqlType("datetime", "datetime(6)", datetime_precision=6),
    "binary": MysqlType("blob", "blob", _TEXT),
    "string": MysqlType("text", "text", _TEXT),
}
#: Nested values arrive as JSON, everything else that MySQL does not know as a text.
_JSON = MysqlType("json", "json")


def of(spark_type: str) -> MysqlType:
    """MySQL's type for what Spark calls `spark_type`."""
    if found := _PLAIN.get(spark_type):
        return found
    if match := _DECIMAL.fullmatch(spark_type):
        precision, scale = int(match[1]), int(match[2])
        return MysqlType("decimal", f"decimal({precision},{scale})", precision=precision, scale=scale)
    return _JSON if spark_type.startswith(("array<", "map<", "struct<", "variant")) else _PLAIN["string"]
