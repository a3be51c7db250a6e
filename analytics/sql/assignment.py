"""Fits the rows of an INSERT to the columns of its table: by position, with the casts that the ANSI store assignment
of Spark allows (its default `storeAssignmentPolicy`). What may lose a value fails and names the column.
"""

import re
from typing import TYPE_CHECKING

from analytics.errors import QueryFailed
from analytics.specs import Column, Target
from analytics.sql.tables import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

#: Begins the message of a value that does not fit, so that it can be told from what a statement raises itself.
DOES_NOT_FIT = "A value does not fit into the column"
_LENGTH = re.compile(r"(?P<kind>varchar|char|character)\s*\(\s*(?P<length>\d+)\s*\)", re.IGNORECASE)


def fitted(frame: "DataFrame", target: Target, columns: tuple[Column, ...]) -> "DataFrame":
    """The rows in the table's columns, in their order. Raises QueryFailed for a count or a type that does not fit."""
    from pyspark.sql import functions

    given = _positions(target, columns, len(frame.columns))
    fixed = {name.lower(): value for name, value in target.partition if value is not None}
    sources = [field.dataType for field in frame.schema.fields]
    numbered = frame.toDF(*[f"c{number}" for number in range(len(sources))])
    cells = []
    for column in columns:
        kind = parsed_type(column.type)
        name = column.name.lower()
        if name in fixed:
            cell = functions.lit(fixed[name]).cast(kind)
        elif name in given:
            number = given[name]
            cell = _assigned(functions.col(f"c{number}"), sources[number], kind, column)
        else:
            cell = functions.lit(None).cast(kind)
        cells.append(cell.alias(column.name))
    return numbered.select(*cells)


def _positions(target: Target, columns: tuple[Column, ...], count: int) -> dict[str, int]:
    """Which column of the query each column of the table takes."""
    fixed = {name.lower() for name, value in target.partition if value is not None}
    dynamic = [name.lower() for name, value in target.partition if value is None]
    if target.columns:
        wanted = [name.lower() for name in target.columns]
        wanted += [name for name in dynamic if name not in wanted]
        missing = {name.lower() for name in target.table.partitions} - set(wanted) - fixed
        if missing:
            raise QueryFailed(f"The partition column {sorted(missing)[0]} gets no value: name it among the columns.")
    else:
        wanted = [column.name.lower() for column in columns if column.name.lower() not in fixed]
    known = {column.name.lower() for column in columns}
    for name in [*wanted, *fixed]:
        if name not in known:
            raise QueryFailed(f"The table {target.table.name} has no column {name}; it has {_names(columns)}.")
    if len(wanted) != count:
        raise QueryFailed(
            f"The query gives {count} columns; {target.schema}.{target.table.name} takes {len(wanted)}:"
            f" {', '.join(wanted)}."
        )
    return {name: number for number, name in enumerate(wanted)}


def _names(columns: tuple[Column, ...]) -> str:
    return ", ".join(column.name for column in columns)


def parsed_type(written: str) -> "DataType":
    """The type that Spark's name stands for; the length of varchar and char is looked at apart."""
    from pyspark.sql.types import DataType, StringType

    return StringType() if _LENGTH.fullmatch(written.strip()) else DataType.fromDDL(written)


def can_assign(source: "DataType", kind: "DataType") -> bool:  # noqa: PLR0911  a case for each rule
    """Whether ANSI store assignment casts the one type to the other (Spark's `Cast.canANSIStoreAssign`)."""
    from pyspark.sql import types

    datetimes = (types.DateType, types.TimestampType, types.TimestampNTZType)
    match (source, kind):
        case _ if source == kind or isinstance(source, types.NullType):
            return True
        case (types.ArrayType(), types.ArrayType()):
            return can_assign(source.elementType, kind.elementType)
        case (types.MapType(), types.MapType()):
            return can_assign(source.keyType, kind.keyType) and can_assign(source.valueType, kind.valueType)
        case (types.StructType(), types.StructType()):
            return len(source.fields) == len(kind.fields) and all(
                can_assign(one.dataType, other.dataType) for one, other in zip(source.fields, kind.fields, strict=True)
            )
        case (types.NumericType(), types.NumericType()):
            return True
        case (types.AtomicType(), types.StringType()):
            return True
        case _:
            return isinstance(source, datetimes) and isinstance(kind, datetimes)


def _assigned(cell: "SparkColumn", source: "DataType", kind: "DataType", column: Column) -> "SparkColumn":
    """The value in the column's type; one that does not fit ends the statement."""
    from pyspark.sql import functions, types

    if not can_assign(source, kind):
        raise QueryFailed(
            f"The column {column.name} is of the type {column.type}, and a {source.simpleString()} cannot be stored"
            " there; CAST it in the query."
        )
    if isinstance(source, types.NumericType) and isinstance(kind, types.NumericType) and source != kind:
        fits = cell.try_cast(kind)
        return functions.when(cell.isNotNull() & fits.isNull(), _refuse(cell, column)).otherwise(fits)
    value = cell.cast(kind)
    if length := _LENGTH.fullmatch(column.type.strip()):
        most = int(length["length"])
        if length["kind"].lower() != "varchar":
            value = functions.rpad(value, most, " ")
            value = functions.when(functions.length(cell.cast("string")) > most, cell.cast("string")).otherwise(value)
        value = functions.when(functions.length(value) > most, _refuse(value, column)).otherwise(value)
    return value


def _refuse(cell: "SparkColumn", column: Column) -> "SparkColumn":
    from pyspark.sql import functions

    said = functions.substring(cell.cast("string"), 1, 50)
    prefix = functions.lit(f"{DOES_NOT_FIT} {quoted(column.name)} of the type {column.type}: ")
    return functions.raise_error(functions.concat(prefix, said))
