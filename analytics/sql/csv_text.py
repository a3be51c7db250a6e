"""How a value is written in result.csv, by Spark's tasks and by the driver: both give the same bytes (docs/lake.md)."""

from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from analytics.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

#: Types whose text never holds a comma, a quote or a line end.
_PLAIN_TYPES = {
    *("byte", "short", "integer", "long", "float", "double", "decimal"),
    *("boolean", "date", "timestamp", "timestamp_ntz"),
}


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
        case "string" | "byte" | "short" | "integer" | "long" | "boolean" | "date":
            return name
        case "array" | "map" | "struct" | "variant":
            return f"to_json({name})"
        case "binary":
            return f"base64({name})"
        case _:
            return f"cast({name} as string)"


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
            cells.append(f"coalesce(if({text} = '' or {text} rlike r'[\",\\r\\n]', {quoted}, {text}), '')")
    names = [f"c{number}" for number in range(len(cells))]
    line = functions.expr(f"concat_ws(',', {', '.join(cells)})")
    stopped = functions.when(interrupted == "true", functions.raise_error(functions.lit("cancelled")))
    return frame.toDF(*names).select(stopped.otherwise(line).alias("line"))


def write_header(file: IO[bytes], columns: list[Column]) -> None:
    """The names of the columns as the first line."""
    names = pa.array([[column.name] for column in columns])
    file.write(b",".join(_quoted(names.flatten()).cast(pa.binary()).to_pylist()) + b"\n")


def write_rows(file: IO[bytes], table: pa.Table) -> None:
    """The rows of a gathered result, whose columns went through `as_texts`."""
    if table.num_rows == 0:
        return
    cells = [_quoted(pc.cast(column.combine_chunks(), pa.string())) for column in table.columns]
    lines = pc.binary_join_element_wise(*cells, ",")
    file.write("\n".join(lines.to_pylist()).encode() + b"\n")


def _quoted(texts: pa.Array) -> pa.Array:
    """Cells as RFC 4180 wants them: quotes around what holds a comma, a quote or a line end; null becomes nothing."""
    needed = pc.or_(pc.match_substring_regex(texts, '[",\r\n]'), pc.equal(texts, ""))
    if pc.any(needed).as_py():
        doubled = pc.replace_substring(texts, '"', '""')
        texts = pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), texts)
    return pc.fill_null(texts, "")
