"""Bodies of messages as rows: JSON, CSV, Avro, Parquet, ORC, raw, and the events of buckets (docs/use/jobs.md).

A queue carries text, so what is binary (Avro, Parquet, ORC) comes in Base64, as the vendor's SDKs send it. JSON is
taken in Base64 too: they do so with every body unless they are told otherwise.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa

from analytics.pipelines.plan import OSS_EVENT_COLUMNS
from analytics.pipelines.values import ISO, SQL, Converter, Times, converter

Row = tuple[Any, ...]
#: Gives the rows of a body. Raises BadBody.
Decoder = Callable[[bytes], list[Row]]

#: Where an event has a column, by the column's name in lower case.
_EVENT_PATHS = {name.lower(): tuple(path.split(".")) for name, (path, _) in OSS_EVENT_COLUMNS.items()}
#: How raw numbers are written, by the type of Arrow.
_RAW_NUMBERS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "float": "f", "double": "d", "bool": "?"}
_CONTAINER = b"Obj\x01"
_PACKED = frozenset({"avro", "parquet", "orc"})
_MAGIC = {"parquet": b"PAR1", "orc": b"ORC"}
#: Of one body. What is packed may be a thousandth of what it says, and a batch goes through the engine of all.
MOST_ROWS, MOST_UNPACKED = 100_000, 16 << 20
_TOO_LARGE = f"it unpacks to more than {MOST_ROWS} rows or {MOST_UNPACKED >> 20} MiB"
#: Rows of a Parquet file that are read at once.
_SLICE = 4_096


class BadBody(Exception):  # noqa: N818
    """A body cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Format:
    """How bodies are written, and the columns of their rows. Options as in `plan.Source.format_options`."""

    name: str
    schema: pa.Schema
    options: Mapping[str, Any] = field(default_factory=dict)
    #: In which zone times without one are.
    zone: str = "UTC"
    #: Bodies are events of buckets; the columns are some of plan.OSS_EVENT_COLUMNS.
    is_event: bool = False

    def decoder(self) -> Decoder:
        """What reads the bodies. Raises ValueError for a type that no body of the format has."""
        return _DECODERS["event" if self.is_event else self.name](self)

    def unpacked(self, rows: Sequence[Row], body: bytes) -> int:
        """Bytes that the rows of a body take. Raises BadBody for too many."""
        if self.name not in _PACKED and not any(map(pa.types.is_nested, self.schema.types)):
            return len(body)
        size = int(batch_of(rows, self.schema).nbytes)
        if size > MOST_UNPACKED or len(rows) > MOST_ROWS:
            raise BadBody(_TOO_LARGE)
        return size

    @property
    def skips_errors(self) -> bool:
        """Whether what cannot be read is left out instead of ending the job."""
        return bool(self.options.get("ignore-parse-errors", False))

    def times(self, standard: str) -> Times:
        """How texts of times are read; the standard holds where the options tell none."""
        chosen = str(self.options.get("timestamp-format.standard", standard))
        return Times(chosen, str(self.options.get("timestamp-format.pattern", "")), self.zone)


def _columns(fmt: Format, standard: str) -> list[tuple[str, Converter]]:
    times = fmt.times(standard)
    return [(column.name, converter(column.type, times)) for column in fmt.schema]


def _value(name: str, make: Converter, value: Any, *, skips: bool) -> Any:
    try:
        return make(value)
    except ValueError as error:
        if skips:
            return None
        raise BadBody(f"the column {name} cannot be read: {error}") from None


def _json_object(body: bytes) -> dict[str, Any]:
    if not body.lstrip().startswith(b"{"):
        body = _unwrapped(body) or body
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadBody(f"it is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadBody("it is not a JSON object")
    return found


def _unwrapped(body: bytes) -> bytes | None:
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        return None


def _json(fmt: Format) -> Decoder:
    columns, skips = _columns(fmt, SQL), fmt.skips_errors
    must_have = bool(fmt.options.get("fail-on-missing-field", False))

    def decode(body: bytes) -> list[Row]:
        found = _json_object(body)
        if must_have and (lacking := [name for name, _ in columns if name not in found]):
            raise BadBody(f"it has no field {lacking[0]}")
        try:
            return [tuple([make(found.get(name)) for name, make in columns])]
        except ValueError:  # rare: only then it matters which one
            return [tuple(_value(name, make, found.get(name), skips=skips) for name, make in columns)]

    return decode


def _event(fmt: Format) -> Decoder:
    columns = [(name, _EVENT_PATHS[name.lower()], make) for name, make in _columns(fmt, ISO)]
    skips, must_have = fmt.skips_errors, bool(fmt.options.get("fail-on-missing-field", False))

    def decode(body: bytes) -> list[Row]:
        events = _json_object(body).get("events")
        if not isinstance(events, list) or not events or not isinstance(events[0], dict):
            raise BadBody("it is no event of a bucket: it has no list of events")
        values = []
        for name, path, make in columns:
            value: Any = events[0]
            for part in path:
                value = value.get(part) if isinstance(value, dict) else None
            if must_have and value is None:
                raise BadBody(f"it has no {'.'.join(path)}")
            values.append(_value(name, make, value, skips=skips))
        return [tuple(values)]

    return decode


def further_events(body: bytes) -> int:
    """How many events a notification has beside the first, which is the only one that becomes a row."""
    return len(_json_object(body)["events"]) - 1


def _csv(fmt: Format) -> Decoder:
    columns, skips = _columns(fmt, SQL), fmt.skips_errors
    texts = [pa.types.is_string(kind) for kind in fmt.schema.types]
    lists = [pa.types.is_list(kind) for kind in fmt.schema.types]
    elements = str(fmt.options.get("array-element-delimiter", ";"))
    null = fmt.options.get("null-literal")
    has_quotes = not fmt.options.get("disable-quote-character", False)
    layout: dict[str, Any] = {
        "delimiter": str(fmt.options.get("field-delimiter", ",")),
        "quotechar": str(fmt.options.get("quote-character", '"')) if has_quotes else None,
        "quoting": csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
        "escapechar": fmt.options.get("escape-character") or None,
        "strict": True,
    }
    comments = bool(fmt.options.get("allow-comments", False))

    def decode(body: bytes) -> list[Row]:
        try:
            text = body.decode()
            if comments and text.startswith("#"):
                return []
            found = next(csv.reader(io.StringIO(text, newline=""), **layout), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadBody(f"it is not valid CSV: {error}") from None
        if len(found) != len(columns) and not skips:
            raise BadBody(f"it has {len(found)} fields, and the table {len(columns)} columns")
        found += [""] * (len(columns) - len(found))
        given = [
            None if _is_null(value, is_text, null) else value.split(elements) if is_list else value
            for value, is_text, is_list in zip(found, texts, lists, strict=False)
        ]
        return [
            tuple(_value(name, make, value, skips=skips) for (name, make), value in zip(columns, given, strict=True))
        ]

    return decode


def _is_null(value: str, is_text: bool, null: Any) -> bool:
    return value == null if null is not None else value == "" and not is_text


def _raw(fmt: Format) -> Decoder:
    kind = fmt.schema.types[0]
    charset = str(fmt.options.get("charset", "UTF-8"))
    order = "<" if fmt.options.get("endianness") == "little-endian" else ">"
    if pa.types.is_string(kind):
        return lambda body: [(_decoded(body, charset),)]
    if pa.types.is_binary(kind):
        return lambda body: [(body,)]
    code = _RAW_NUMBERS.get(str(kind))
    if code is None:
        raise ValueError(f"a raw body has no value of the type {kind}")
    layout = struct.Struct(order + code)

    def decode(body: bytes) -> list[Row]:
        try:
            return [layout.unpack(body)]
        except struct.error:
            raise BadBody(f"it has {len(body)} bytes, and a {kind} {layout.size}") from None

    return decode


def _decoded(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset)
    except UnicodeDecodeError as error:
        raise BadBody(f"it is no text in {charset}: {error}") from None


def _avro(fmt: Format) -> Decoder:
    import fastavro

    written = fastavro.parse_schema(_avro_record(fmt.schema))
    columns = _columns(fmt, SQL)

    def decode(body: bytes) -> list[Row]:
        data = body if body.startswith(_CONTAINER) else _unwrapped(body) or body
        try:
            if data.startswith(_CONTAINER):
                records: list[Any] = list(islice(fastavro.reader(io.BytesIO(data)), MOST_ROWS + 1))
            else:
                records = [fastavro.schemaless_reader(io.BytesIO(data), written, None)]
        except Exception as error:  # noqa: BLE001  what is no Avro fails anywhere in the library
            raise BadBody(f"it is not Avro of these columns: {error!r}") from None
        if len(records) > MOST_ROWS:
            raise BadBody(_TOO_LARGE)
        return [
            tuple(_value(name, make, record.get(name), skips=fmt.skips_errors) for name, make in columns)
            for record in records
        ]

    return decode


def _avro_record(schema: pa.Schema) -> dict[str, Any]:
    fields = [{"name": column.name, "type": _nullable(column.type, column.name), "default": None} for column in schema]
    return {"type": "record", "name": "record", "namespace": "org.apache.flink.avro.generated", "fields": fields}


def _nullable(kind: pa.DataType, name: str) -> list[Any]:
    return ["null", _avro_type(kind, name)]


def _avro_type(kind: pa.DataType, name: str) -> Any:  # noqa: PLR0911  one answer for each type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width > 32 else "int"
    if pa.types.is_floating(kind):
        return "double" if kind.bit_width > 32 else "float"
    if pa.types.is_binary(kind):
        return "bytes"
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-millis"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type, name)}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _nullable(kind.item_type, name)}
    if pa.types.is_struct(kind):
        fields = [{"name": part.name, "type": _nullable(part.type, f"{name}_{part.name}")} for part in kind]
        return {"type": "record", "name": f"record_{name}", "fields": fields}
    return "string"


def _files(fmt: Format) -> Decoder:
    """A body is a whole small file: as many rows as it has, columns by their names."""

    def decode(body: bytes) -> list[Row]:
        data = body if body.startswith(_MAGIC[fmt.name]) else _unwrapped(body) or body
        try:
            parts = _bounded(_parts(fmt.name, data, {column.name.lower() for column in fmt.schema}))
            return [row for part in parts for row in _rows_of(part, fmt.schema)]
        except (pa.ArrowException, OSError, MemoryError) as error:
            told = (str(error).splitlines() or [repr(error)])[0]
            raise BadBody(f"it is no {fmt.name} file of these columns: {told}") from None

    return decode


def _rows_of(part: pa.RecordBatch | pa.Table, schema: pa.Schema) -> list[Row]:
    by_name = {name.lower(): name for name in part.schema.names}
    columns = [
        part[by_name[column.name.lower()]].cast(column.type).to_pylist()
        if column.name.lower() in by_name
        else [None] * part.num_rows
        for column in schema
    ]
    return list(zip(*columns, strict=True))


def _bounded(parts: Iterable[pa.RecordBatch | pa.Table]) -> list[pa.RecordBatch | pa.Table]:
    """All of them. Raises BadBody as soon as they are too large together."""
    found, rows, size = [], 0, 0
    for part in parts:
        rows, size = rows + part.num_rows, size + part.nbytes
        if rows > MOST_ROWS or size > MOST_UNPACKED:
            raise BadBody(_TOO_LARGE)
        found.append(part)
    return found


def _parts(name: str, data: bytes, wanted: Collection[str]) -> Iterator[pa.RecordBatch | pa.Table]:
    """A file piece by piece, the wanted columns of it (small letters)."""
    if name == "orc":
        from pyarrow import orc

        stripes = orc.ORCFile(pa.BufferReader(data))
        if stripes.nrows > MOST_ROWS:  # a stripe is read whole
            raise BadBody(_TOO_LARGE)
        known = [column for column in stripes.schema.names if column.lower() in wanted]
        for number in range(stripes.nstripes):
            yield stripes.read_stripe(number, columns=known)
        return
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(data))
    known = [column for column in file.schema_arrow.names if column.lower() in wanted]
    yield from file.iter_batches(batch_size=_SLICE, columns=known, use_threads=False)


_DECODERS: dict[str, Callable[[Format], Decoder]] = {
    "json": _json,
    "event": _event,
    "csv": _csv,
    "raw": _raw,
    "avro": _avro,
    "parquet": _files,
    "orc": _files,
}


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """The rows as Arrow."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, column.type) for values, column in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
