"""How a value is written in result.csv, by Spark's tasks and by the driver: both give the same bytes.

See docs/operate/lake.md.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from analytics.specs import Column
from analytics.sql.backend import unless
from analytics.sql.spelling import type_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

#: Types whose text never holds a comma, a quote or a line end.
_PLAIN_TYPES = {
    *("byte", "short", "integer", "long", "float", "double", "decimal"),
    *("boolean", "date", "timestamp", "timestamp_ntz", "time"),
}
#: to_json leaves out null fields and the microseconds unless it is told not to.
_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX',"
    " 'timestampNTZFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS')"
)


def as_texts(frame: "DataFrame") -> "DataFrame":
    """The frame with every column that only Spark can write exactly as text, and with names that cannot clash."""
    fields = frame.schema.fields
    names = [f"c{number}" for number in range(len(fields))]
    expressions = [_text_expression(name, field.dataType) for name, field in zip(names, fields, strict=True)]
    if expressions == names and len({field.name.lower() for field in fields}) == len(fields):
        return frame
    return frame.toDF(*names).selectExpr(*[f"{text} as {name}" for text, name in zip(expressions, names, strict=True)])


def _text_expression(name: str, kind: "DataType") -> str:
    match kind.typeName():
        case "byte" | "short" | "integer" | "long" | "boolean":
            return name
        case "string" if kind.simpleString() == "string":
            return name
        case "array" | "map" | "struct" | "variant":
            keyed = _with_text_keys(kind)
            same = keyed.simpleString() == kind.simpleString()
            value = name if same else f"cast({name} as {type_name(keyed)})"
            return f"to_json({value}, {_JSON_OPTIONS})"
        case "binary":
            return f"base64({name})"
        case _:
            return f"cast({name} as string)"


def _with_text_keys(kind: "DataType") -> "DataType":
    """The type with texts as keys of maps: to_json writes another key as Spark keeps it, a date as a number."""
    from pyspark.sql import types

    match kind:
        case types.ArrayType():
            return types.ArrayType(_with_text_keys(kind.elementType))
        case types.MapType():
            return types.MapType(types.StringType(), _with_text_keys(kind.valueType))
        case types.StructType():
            return types.StructType([types.StructField(f.name, _with_text_keys(f.dataType)) for f in kind.fields])
        case _:
            return kind


def as_lines(frame: "DataFrame", interrupted: "SparkColumn") -> "DataFrame":
    """The frame as lines of CSV in one column, quoted as `_quoted` does: Spark's writer drops a line of one null.

    `interrupted` is the backend's; a task that sees it true ends.
    """
    from pyspark.sql import functions

    cells = []
    for number, field in enumerate(frame.schema.fields):
        text = _text_expression(f"c{number}", field.dataType)
        if field.dataType.typeName() in _PLAIN_TYPES:
            cells.append(f"coalesce(cast({text} as string), '')")
        else:
            quoted = f"concat('\"', replace({text}, '\"', '\"\"'), '\"')"
            cells.append(f"coalesce(if(octet_length({text}) = 0 or {text} rlike r'[\",\\r\\n]', {quoted}, {text}), '')")
    names = [f"c{number}" for number in range(len(cells))]
    line = functions.expr(f"concat_ws(',', {', '.join(cells)})")
    return frame.toDF(*names).select(unless(interrupted, line).alias("line"))


def header(columns: list[Column]) -> bytes:
    """The names of the columns as the first line."""
    import pyarrow as pa

    names = pa.array([column.name.encode() for column in columns], pa.large_binary())
    return b",".join(_quoted(names).to_pylist()) + b"\n"


def rows(table: "pa.Table") -> "Iterator[pa.Buffer]":
    """The rows of a gathered result, whose columns went through `as_texts`. Bytes, since a text may be no UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    comma, line_feed, nothing = map(_sign, (b",", b"\n", b""))
    for batch in table.to_batches():
        if batch.num_rows:
            cells = [_quoted(column.cast(pa.string()).cast(pa.large_binary())) for column in batch.columns]
            lines = pc.binary_join_element_wise(*cells, comma)
            yield pc.binary_join_element_wise(lines, nothing, line_feed).buffers()[2]  # one line after the other


def _quoted(texts: "pa.Array") -> "pa.Array":
    """Cells as RFC 4180 wants them: quotes around what holds a comma, a quote or a line end; null becomes nothing."""
    import pyarrow.compute as pc

    quote, nothing = _sign(b'"'), _sign(b"")
    needed = pc.or_(pc.match_substring_regex(texts, '[",\r\n]'), pc.equal(pc.binary_length(texts), 0))
    if pc.any(needed).as_py():
        doubled = pc.replace_substring(texts, b'"', b'""')
        texts = pc.if_else(needed, pc.binary_join_element_wise(quote, doubled, quote, nothing), texts)
    return pc.fill_null(texts, nothing)


@cache
def _sign(text: bytes) -> "pa.Scalar":
    import pyarrow as pa

    return pa.scalar(text, pa.large_binary())
