"""Bodies of messages that are small to send and would take the machine's memory from whoever unpacks them.

Those of Avro are made by hand, since no library writes such.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from analytics.pipelines.decoding import MOST_ROWS, BadBody, Format
from analytics.pipelines.intake import Intake
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.spool import Spool
from brokercore.smq.client import Delivered

A = pa.schema([("a", pa.string())])
SYNC = b"0" * 16
TOO_LARGE = "unpacks to more than"


def number(value: int) -> bytes:
    """As Avro writes whole numbers."""
    value, told = value << 1, b""
    while value > 127:
        told += bytes([value & 127 | 128])
        value >>= 7
    return told + bytes([value])


def avro(schema: Any, records: int, content: bytes) -> bytes:
    """A container of one block that says how many records it has."""
    written = json.dumps(schema).encode()
    head = number(1) + number(11) + b"avro.schema" + number(len(written)) + written + number(0)
    return b"Obj\x01" + head + SYNC + number(records) + number(len(content)) + content + SYNC


def record(kind: Any) -> Any:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def packed_avro() -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, record("string"), [{"a": "x" * (64 << 20)}], codec="xz")
    return file.getvalue()


def packed_parquet(*, rows: int = 1, length: int = 64 << 20) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({"a": ["x" * length] * rows}), file, compression="zstd", write_statistics=False)
    return file.getvalue()


def packed_orc() -> bytes:
    file = io.BytesIO()
    orc.write_table(pa.table({"a": ["x" * 100] * (MOST_ROWS * 5)}), file, compression="zstd")
    return file.getvalue()


BOMBS = {
    "Avro, a text that is packed": ("avro", packed_avro),
    "Avro, records of no bytes": ("avro", lambda: avro({"type": "record", "name": "r", "fields": []}, 2**31, b"")),
    "Parquet, a text that is packed": ("parquet", packed_parquet),
    "Parquet, a row again and again": ("parquet", lambda: packed_parquet(rows=MOST_ROWS * 5, length=10)),
    "ORC, a row again and again": ("orc", packed_orc),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_body_that_unpacks_to_more_than_a_batch_may_have_is_refused(bomb: str) -> None:
    name, make = BOMBS[bomb]
    body = make()
    assert len(body) < 64 * 1024
    fmt = Format(name, A)
    with pytest.raises(BadBody, match=TOO_LARGE):
        fmt.unpacked(fmt.decoder()(body), body)


def test_nulls_of_a_wide_row_count_as_well() -> None:
    wide = pa.schema([("a", pa.list_(pa.struct([(f"c{n}", pa.int64()) for n in range(200)])))])
    fmt = Format("json", wide)
    body = b'{"a":[' + b"{}," * 20_000 + b"{}]}"
    assert len(body) < 64 * 1024
    with pytest.raises(BadBody, match=TOO_LARGE):
        fmt.unpacked(fmt.decoder()(body), body)


@pytest.mark.parametrize(
    ("name", "body", "kind"),
    [
        ("json", b'{"a":' + b"[" * 32_000 + b"]" * 32_000 + b"}", pa.string()),
        ("json", b'{"a":"' + b"9" * 60_000 + b'"}', pa.int64()),
        ("json", b'{"a":"1e999999999"}', pa.decimal128(38, 10)),
        ("json", b'{"a":"nan"}', pa.decimal128(38, 10)),
        ("json", b'{"a":"-Infinity"}', pa.decimal128(38, 10)),
        ("json", b'{"a":1e300}', pa.timestamp("us", "UTC")),
        ("json", b'{"a":"\\ud800"}', pa.string()),
        ("csv", b'"' + b"a" * 200_000 + b'"', pa.string()),
        ("avro", avro(record("string"), 1, number(2**40)), pa.string()),
        ("avro", avro({"type": "r"}, 1, b""), pa.string()),
        ("avro", b"Obj\x01" + b"\xff" * 100, pa.string()),
        ("parquet", b"PAR1" + b"\xff" * 100 + b"PAR1", pa.string()),
        ("orc", b"ORC" + b"\xff" * 100, pa.string()),
    ],
)
def test_what_cannot_be_read_is_a_bad_body_and_nothing_else(name: str, body: bytes, kind: pa.DataType) -> None:
    """Else `ignore-parse-errors` would not leave it out, and one message would stop a job for good."""
    with pytest.raises(BadBody):
        Format(name, pa.schema([("a", kind)])).decoder()(body)


@pytest.mark.process
def test_a_body_without_end_costs_the_memory_of_its_reader_and_no_more() -> None:
    program = """
from analytics.pipelines import intake
intake.MOST_MEMORY = 200 << 20
intake.bound_memory()
try:
    bytearray(400 << 20)
except MemoryError:
    print("refused")
bytearray(50 << 20)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


def test_a_batch_takes_a_part_of_what_unpacks_to_much_and_the_next_one_the_rest(tmp_path: Path) -> None:
    """What was received is packed, so its bytes do not tell what a batch will have."""
    source = QueueSource("s", "http://127.0.0.1:1", "q", "id", "secret", str(tmp_path), Format("parquet", A))
    source.prepare()
    spool = Spool(source.spool)
    assert spool.lead()
    intake = Intake(source, spool)
    body = packed_parquet(length=15 << 20)
    intake._receiver._keep([Delivered(f"m{n}", body, 8, 1, 0, 0, f"h{n}") for n in range(12)], 1)
    for number, taken in ((1, 5), (2, 5), (3, 2)):
        assert intake.latest(number - 1) == number
        assert len(spool.batches[number].handles) == taken
    spool.release()
