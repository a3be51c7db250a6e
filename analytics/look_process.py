"""A process that does nothing but look at one file that a tenant has brought: what that costs it costs nobody else.

Started by `infer`, by its path and alone, without settings and secrets, and behind the engine's wall where there is
one. It opens no file: it asks for pieces of the one on standard output and gets them on standard input. Every frame has
its length in four bytes in front; a request is an offset and a length, the last frame the outcome as JSON.
"""

import io
import json
import resource
import struct
import sys
from collections import Counter
from typing import Any, BinaryIO

#: How much of a text file is looked at, unpacked, bytes.
_LOOK_BYTES = 1024**2
#: Columns of a table, and characters of one column's type: what is beyond was made for something else.
MOST_COLUMNS = 5_000
LONGEST_TYPE = 64 * 1024
#: Address space, bytes: Arrow itself takes a quarter of it.
MOST_MEMORY = 2 * 1024**3
#: Processor time, s; then the kernel ends the process (SIGXCPU), however busy the machine is.
LONGEST_CPU_S = 10
#: What a request asks for at most, bytes.
_PIECE_BYTES = 1024**2
#: What a frame of this process is: a request, or the outcome.
ASK, TELL = b"?", b"!"
#: Endings of text files that are packed, and Arrow's names for these packings.
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".snappy": "snappy"}

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


class Unreadable(Exception):  # noqa: N818
    """The columns cannot be told; the message is a sentence."""


def main() -> None:
    """Look at the file, and end."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_CPU_S, LONGEST_CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    (length,) = struct.unpack(">I", source.read(4))
    wanted = json.loads(source.read(length))
    try:
        file = io.BufferedReader(_File(source, sink, wanted["size"]), _PIECE_BYTES // 16)
        columns = _READERS[wanted["format"]](file, wanted["name"], wanted["options"])
        outcome: dict[str, Any] = {"columns": columns}
    except Unreadable as error:
        outcome = {"unreadable": str(error)}
    except MemoryError:
        outcome = {"too_much": True}
    except (ValueError, OSError, RecursionError) as error:  # Arrow's errors are of these
        outcome = {"damaged": str(error).splitlines()[0][:200] if str(error) else "it is damaged"}
    answer = json.dumps(outcome).encode()
    sink.write(TELL + struct.pack(">I", len(answer)) + answer)
    sink.flush()


class _File(io.RawIOBase):
    """The file, piece by piece from the process that has it open."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, size: int) -> None:
        self._source, self._sink, self._size, self._at = source, sink, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = max(0, min(len(buffer), _PIECE_BYTES, self._size - self._at))
        if not wanted:
            return 0
        self._sink.write(ASK + struct.pack(">QI", self._at, wanted))
        self._sink.flush()
        (length,) = struct.unpack(">I", self._source.read(4))
        if not length:
            raise Unreadable("Its columns cannot be determined from the part of it that is read.")
        buffer[:length] = self._source.read(length)
        self._at += length
        return int(length)


def _parquet(file: BinaryIO, name: str, options: dict[str, str]) -> list[tuple[str, str]]:
    import pyarrow.parquet as pq

    return _of_schema(pq.ParquetFile(file).schema_arrow)


def _orc(file: BinaryIO, name: str, options: dict[str, str]) -> list[tuple[str, str]]:
    from pyarrow import orc

    return _of_schema(orc.ORCFile(file).schema)


def _json(file: BinaryIO, name: str, options: dict[str, str]) -> list[tuple[str, str]]:
    import pyarrow.json as arrow_json

    if options.get("multiLine", "false").lower() == "true":
        raise Unreadable("The columns of multi-line JSON cannot be determined here.")
    read = arrow_json.ReadOptions(use_threads=False)
    return _of_schema(arrow_json.read_json(io.BytesIO(_beginning(file, name)), read).schema)


def _csv(file: BinaryIO, name: str, options: dict[str, str]) -> list[tuple[str, str]]:
    import pyarrow.csv as arrow_csv

    header = options.get("header", "true").lower() == "true"
    quote = options.get("quote", '"')
    content, delimiter = _beginning(file, name), options.get("delimiter", ",")
    if content.partition(b"\n")[0].count(delimiter.encode()) >= MOST_COLUMNS:
        raise _too_many_columns()
    read = arrow_csv.ReadOptions(autogenerate_column_names=not header, use_threads=False)
    parse = arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote or False, newlines_in_values=bool(quote))
    schema = arrow_csv.read_csv(io.BytesIO(content), read, parse).schema
    if header:
        return _of_schema(schema)
    return [(f"_c{number}", _type(field)) for number, field in enumerate(schema)]


_READERS = {"parquet": _parquet, "orc": _orc, "json": _json, "csv": _csv}


def _beginning(file: BinaryIO, name: str) -> bytes:
    """Whole lines of the beginning of a text file, unpacked."""
    import pyarrow as pa

    packing = next((ending for ending in PACKED if name.lower().endswith(ending)), None)
    if packing:
        content = bytes(pa.CompressedInputStream(pa.PythonFile(file, "r"), PACKED[packing]).read(_LOOK_BYTES))
    else:
        content = file.read(_LOOK_BYTES)
    if len(content) < _LOOK_BYTES:
        return content
    whole, _, _ = content.rpartition(b"\n")
    if not whole:
        raise Unreadable(f"The first line of {name} is longer than {_LOOK_BYTES} bytes.")
    return whole


def _of_schema(schema: Any) -> list[tuple[str, str]]:
    if len(schema) > MOST_COLUMNS:
        raise _too_many_columns()
    names = Counter(field.name.lower() for field in schema)
    twice = next((name for name, times in names.items() if times > 1), None)
    if twice is not None:
        raise Unreadable(f"The column {twice[:80]} appears twice; names are not case-sensitive.")
    return [(field.name, _bounded(_type(field), field.name)) for field in schema]


def _too_many_columns() -> Unreadable:
    return Unreadable(f"The file has more than {MOST_COLUMNS:,} columns.")


def _bounded(kind: str, name: str) -> str:
    if len(kind) > LONGEST_TYPE:
        raise Unreadable(f"The type of the column {name[:80]} has more than {LONGEST_TYPE:,} characters.")
    return kind


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
        raise Unreadable(f"The column {field.name[:80]} has the type {str(kind)[:200]}, which Spark does not read.")
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


def _quoted(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum()
    return name if plain else "`" + name.replace("`", "``") + "`"


if __name__ == "__main__":
    main()
