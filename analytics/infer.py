"""What the files of a folder look like: their format, columns and partitions. Reads a beginning of one file."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from analytics import lake
from analytics.errors import LakeError
from analytics.specs import Column

#: How much of a text file is looked at.
_LOOK_BYTES = 1024**2
_ENDINGS = {"parquet": "parquet", "orc": "orc", "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv"}
_TEXT_ENDINGS = {"tsv": "\t", "txt": ","}
_PACKED = (".gz", ".bz2", ".zst", ".snappy")
_INTEGER = re.compile(r"-?\d{1,18}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Inferred:
    """A proposal for a table over a folder; the columns of partitions are the last ones."""

    format: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


def infer_table(location: str, file_format: str | None, options: Mapping[str, str]) -> Inferred:
    """Look at the first file of a folder; without `file_format` its ending tells. Raises LakeError with the reason."""
    files = [file for file in lake.files(location) if file.size > 0]
    if not files:
        raise LakeError(f"There are no files in {location} to take the columns from.")
    first = files[0]
    name = first.location.rsplit("/", 1)[-1]
    found, delimiter = _format_of(name)
    file_format = file_format or found
    if file_format is None:
        raise LakeError(f"The ending of {name} tells no format; known are {', '.join([*_ENDINGS, *_TEXT_ENDINGS])}.")
    chosen = dict(options)
    if file_format == "csv" and delimiter and "delimiter" not in chosen:
        chosen["delimiter"] = delimiter
    try:
        with lake.open_file(first.location) as file:
            columns = _READERS[file_format](file, name, chosen)
            if file_format in ("csv", "json"):  # text without a zone is read in the session's, which is UTC
                columns = [Column(c.name, c.type.replace("timestamp_ntz", "timestamp")) for c in columns]
    except (ValueError, OSError) as error:  # Arrow's errors are of these
        reason = str(error).splitlines()[0][:200] if str(error) else "it is damaged"
        raise LakeError(f"The file {name} cannot be read as {file_format}: {reason}.") from error
    partitions = _partitions(location, [file.location for file in files])
    names = {partition.name.lower() for partition in partitions}
    own = [column for column in columns if column.name.lower() not in names]
    return Inferred(
        file_format,
        (*own, *partitions),
        tuple(partition.name for partition in partitions),
        tuple(sorted(chosen.items())),
    )


def _format_of(name: str) -> tuple[str | None, str]:
    """Format and, for text, its delimiter, by the ending of a name."""
    plain = name.lower()
    for packed in _PACKED:
        plain = plain.removesuffix(packed)
    ending = plain.rpartition(".")[2]
    if ending in _TEXT_ENDINGS:
        return "csv", _TEXT_ENDINGS[ending]
    return _ENDINGS.get(ending), ""


def _parquet(file: IO[bytes], name: str, options: dict[str, str]) -> list[Column]:
    import pyarrow.parquet as pq

    return _of_schema(pq.ParquetFile(file).schema_arrow)


def _orc(file: IO[bytes], name: str, options: dict[str, str]) -> list[Column]:
    from pyarrow import orc

    return _of_schema(orc.ORCFile(file).schema)


def _json(file: IO[bytes], name: str, options: dict[str, str]) -> list[Column]:
    import pyarrow.json as arrow_json

    if options.get("multiLine", "false").lower() == "true":
        raise LakeError("The columns of multi-line JSON cannot be told here.")
    return _of_schema(arrow_json.read_json(io.BytesIO(_beginning(file, name))).schema)


def _csv(file: IO[bytes], name: str, options: dict[str, str]) -> list[Column]:
    import pyarrow.csv as arrow_csv

    header = options.get("header", "true").lower() == "true"
    quote = options.get("quote", '"')
    read = arrow_csv.ReadOptions(autogenerate_column_names=not header)
    parse = arrow_csv.ParseOptions(
        delimiter=options.get("delimiter", ","), quote_char=quote or False, newlines_in_values=bool(quote)
    )
    schema = arrow_csv.read_csv(io.BytesIO(_beginning(file, name)), read, parse).schema
    if header:
        return _of_schema(schema)
    return [Column(f"_c{number}", _type(field)) for number, field in enumerate(schema)]


_READERS = {"parquet": _parquet, "orc": _orc, "json": _json, "csv": _csv}


def _beginning(file: IO[bytes], name: str) -> bytes:
    """Whole lines of the beginning of a text file, unpacked."""
    import pyarrow as pa

    packing = next((p for p in _PACKED if name.lower().endswith(p)), None)
    if packing:
        kind = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".snappy": "snappy"}[packing]
        content = bytes(pa.CompressedInputStream(pa.PythonFile(file, "r"), kind).read(_LOOK_BYTES))
    else:
        content = file.read(_LOOK_BYTES)
    if len(content) < _LOOK_BYTES:
        return content
    whole, _, _ = content.rpartition(b"\n")
    if not whole:
        raise LakeError(f"The first line of {name} is longer than {_LOOK_BYTES} bytes.")
    return whole


def _of_schema(schema: Any) -> list[Column]:
    names = [field.name.lower() for field in schema]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LakeError(f"The column {twice} is there twice; the case of letters does not count.")
    return [Column(field.name, _type(field)) for field in schema]


def _type(field: Any) -> str:
    """Spark's name of an Arrow type, as Spark reads such a file."""
    import pyarrow as pa

    kind = field.type
    is_ = pa.types
    if is_.is_dictionary(kind):
        return _type(pa.field(field.name, kind.value_type))
    if is_.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    nested = _nested(kind)
    if nested:
        return nested
    found = _TYPES.get(str(kind))
    if found is None:
        raise LakeError(f"The column {field.name} has the type {kind}, which Spark does not read.")
    return found


def _nested(kind: Any) -> str:
    """Spark's name of a type whose values hold others; empty for any other."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return f"array<{_type(kind.value_field)}>"
    if is_.is_map(kind):
        return f"map<{_type(kind.key_field)},{_type(kind.item_field)}>"
    if is_.is_struct(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return f"struct<{','.join(f'{_quoted(f.name)}:{_type(f)}' for f in inner)}>"
    return ""


#: By Arrow's name. Unsigned numbers take the next larger type, as Spark does.
_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "halffloat": "float",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "null": "string",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
    "date64[ms]": "date",
}


def _quoted(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum()
    return name if plain else "`" + name.replace("`", "``") + "`"


def _partitions(location: str, files: list[str]) -> list[Column]:
    """Columns that all files have in the names of their folders: `day=2026-01-15/`."""
    base = len(location.rstrip("/")) + 1
    named: list[tuple[str, ...]] = []
    seen: dict[str, list[str]] = {}
    for file in files:
        pairs = [part.partition("=") for part in file[base:].split("/")[:-1]]
        if not pairs or any(not separator for _, separator, _ in pairs):
            return []
        named.append(tuple(key for key, _, _ in pairs))
        for key, _, value in pairs:
            seen.setdefault(key, []).append(value)
    if len(set(named)) != 1:
        raise LakeError(f"The folders below {location} do not all name the same columns.")
    return [Column(key, _type_of_values(seen[key])) for key in named[0]]


def _type_of_values(values: list[str]) -> str:
    given = [value for value in values if value != "__HIVE_DEFAULT_PARTITION__"]
    if given and all(_INTEGER.fullmatch(value) for value in given):
        leading = any(len(v.lstrip("-")) > 1 and v.lstrip("-").startswith("0") for v in given)
        return "string" if leading else ("int" if all(len(v) <= 9 for v in given) else "bigint")
    if given and all(_DAY.fullmatch(value) for value in given):
        return "date"
    return "string"
