"""The formats of messages and files: their options, and which columns they can carry. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analytics.pipelines.plan import Value
from console.jobs.compiler.connectors.kinds import Option, any_text, boolean, charset, one_of, separator, text

ISO, SQL = "ISO-8601", "SQL"
_RAW_TYPES = frozenset({"string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"})

_JSON = (
    Option("fail-on-missing-field", boolean, default=False),
    Option("ignore-parse-errors", boolean, default=False),
    Option("timestamp-format.standard", one_of(SQL, ISO), default=SQL),
    Option("timestamp-format.pattern", text),
    Option("map-null-key.mode", one_of("FAIL", "DROP", "LITERAL"), default="FAIL"),
    Option("map-null-key.literal", any_text, default="null"),
    Option("encode.decimal-as-plain-number", boolean, default=False),
)
_CSV = (
    Option("field-delimiter", separator(1), default=","),
    Option("line-delimiter", separator(2), default="\n"),
    Option("disable-quote-character", boolean, default=False),
    Option("quote-character", separator(1), default='"'),
    Option("allow-comments", boolean, default=False),
    Option("ignore-parse-errors", boolean, default=False),
    Option("array-element-delimiter", separator(16), default=";"),
    Option("escape-character", separator(1)),
    Option("null-literal", any_text),
)
_AVRO = (
    Option("codec", one_of("null", "deflate", "snappy", "bzip2", "xz", "zstandard"), default="snappy"),
    Option("timestamp_mapping.legacy", boolean, default=True),
)
_PARQUET = (
    Option("utc-timezone", boolean, default=False),
    Option("compression", one_of("snappy", "none", "gzip", "zstd", "lz4"), default="snappy"),
)
_ORC = (Option("compress", one_of("snappy", "none", "zlib", "zstd", "lz4"), default="zlib"),)
_RAW = (
    Option("charset", charset, default="UTF-8"),
    Option("endianness", one_of("big-endian", "little-endian"), default="big-endian"),
)
#: Format → its options, which a definition writes behind the format's name and a point.
OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "json": _JSON,
    "csv": _CSV,
    "avro": _AVRO,
    "parquet": _PARQUET,
    "orc": _ORC,
    "raw": _RAW,
}
NAMES = tuple(OPTIONS)


@dataclass(frozen=True, slots=True)
class Wrong:
    """What cannot be: the option that says it, or the column, and the sentence."""

    sentence: str
    option: str = ""
    column: str = ""


def wrong(name: str, values: Mapping[str, Value], columns: Sequence[tuple[str, str]]) -> Wrong | None:
    """Why the options of a format contradict each other, or the columns (name and type) do not fit it; or nothing."""
    if name == "json":
        return _wrong_json(values)
    if name == "csv":
        return _wrong_csv(values, columns)
    if name == "raw":
        return _wrong_raw(columns)
    return None


def _wrong_json(values: Mapping[str, Value]) -> Wrong | None:
    if values["fail-on-missing-field"] and values["ignore-parse-errors"]:
        return Wrong(
            "json.fail-on-missing-field and json.ignore-parse-errors are both true; allowed is one of them.",
            option="json.ignore-parse-errors",
        )
    return None


def _wrong_csv(values: Mapping[str, Value], columns: Sequence[tuple[str, str]]) -> Wrong | None:
    if not values["disable-quote-character"] and values["field-delimiter"] == values["quote-character"]:
        return Wrong(
            "csv.field-delimiter and csv.quote-character are the same character.", option="csv.quote-character"
        )
    for column, kind in columns:
        if kind.startswith("map") or kind.count("<") > 1:
            return Wrong(f"csv cannot carry column {column}, whose type is {kind}; json can.", column=column)
    return None


def _wrong_raw(columns: Sequence[tuple[str, str]]) -> Wrong | None:
    if len(columns) != 1:
        return Wrong(
            f"the format raw is one column with the whole message; the table has {len(columns)}.", option="format"
        )
    column, kind = columns[0]
    if kind not in _RAW_TYPES:
        return Wrong(
            f"the format raw cannot carry column {column}, whose type is {kind}; allowed are STRING, BYTES, BOOLEAN and"
            " numbers but DECIMAL.",
            column=column,
        )
    return None
