"""The source `datagen`: made-up rows, so many a second, or so many at once; all in Spark, none in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analytics.pipelines.plan import Column
from analytics.sql import spelling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RANGES = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "float": (-1e6, 1e6),
    "double": (-1e9, 1e9),
}
_HEX = 32  # characters of an MD5


def rows(spark: SparkSession, columns: tuple[Column, ...], options: Mapping[str, Any], interval_ms: int) -> DataFrame:
    """The rows; with an interval a stream that gives those of the interval with each batch, else all that there are.

    A stream has none any more behind the end of a sequence, and goes on.

    Raises ValueError for a type that nothing is made up for, and for rows without an end where there is no interval.
    """
    most = _most(columns, options)
    if interval_ms:
        count = max(1, round(int(options.get("rows-per-second", 10_000)) * interval_ms / 1000))
        made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", count).load()
        made = made if most is None else made.where(f"value < {most}")
    elif most is None:
        raise ValueError("a batch job needs number-of-rows, or a column of the kind sequence")
    else:
        made = spark.range(most).withColumnRenamed("id", "value")
    return made.selectExpr(*(f"{_expression(column, options)} as {spelling.quoted(column.name)}" for column in columns))


def _most(columns: tuple[Column, ...], options: Mapping[str, Any]) -> int | None:
    limits = [int(options["number-of-rows"])] if "number-of-rows" in options else []
    for column in columns:
        if _option(options, column, "kind") == "sequence":
            limits.append(int(_option(options, column, "end")) - int(_option(options, column, "start")) + 1)
    return min(limits, default=None)


def _option(options: Mapping[str, Any], column: Column, name: str, default: Any = None) -> Any:
    return options.get(f"fields.{column.name}.{name}", default)


def _expression(column: Column, options: Mapping[str, Any]) -> str:
    if _option(options, column, "kind") == "sequence":
        return f"cast(value + {int(_option(options, column, 'start'))} as {column.type})"
    made = f"cast({_random(column, options)} as {column.type})"
    rate = float(_option(options, column, "null-rate", 0))
    return f"if(rand() < {rate}, null, {made})" if rate else made


def _random(column: Column, options: Mapping[str, Any]) -> str:
    kind = column.type.lower()
    length = int(_option(options, column, "length", 100))
    taken = f"cast(1 + floor(rand() * {length}) as int)" if _option(options, column, "var-len") else str(length)
    hexadecimal = f"substring(repeat(md5(cast(rand() as string)), {-(-length // _HEX)}), 1, {taken})"
    past_s = int(_option(options, column, "max-past", 0)) / 1000
    moment = f"timestamp_seconds(unix_micros(current_timestamp()) / 1e6 - rand() * {past_s})"
    simple = {
        "string": hexadecimal,
        "binary": f"cast({hexadecimal} as binary)",
        "boolean": "rand() < 0.5",
        "timestamp": moment,
        "timestamp_ntz": moment,
        "date": f"cast({moment} as date)",
    }
    if kind in simple:
        return simple[kind]
    if kind not in _RANGES and not kind.startswith("decimal"):
        raise ValueError(f"nothing is made up for the type {column.type} of the column {column.name}")
    if kind == "bigint" and not {f"fields.{column.name}.min", f"fields.{column.name}.max"} & options.keys():
        return "xxhash64(rand())"  # all of 64 bits, which a product of floating numbers has not
    low, high = _RANGES.get(kind, (0, 1))
    low, high = _option(options, column, "min", low), _option(options, column, "max", high)
    if kind in ("float", "double") or kind.startswith("decimal"):
        return f"rand() * ({float(high)!r}D - {float(low)!r}D) + {float(low)!r}D"
    return f"floor(rand() * ({int(high)}BD - {int(low)}BD + 1BD)) + {int(low)}BD"
