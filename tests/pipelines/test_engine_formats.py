"""Bodies as rows, each format by a good and a bad one; no Spark."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from analytics.pipelines.decoding import BadBody, Format, batch_of
from analytics.pipelines.plan import OSS_EVENT_COLUMNS
from analytics.pipelines.topic_sink import TopicSink, csv_lines, problem_of

MOMENT = pa.timestamp("us", "UTC")
EVENT = {
    "eventName": "ObjectCreated:PutObject",
    "eventSource": "acs:oss",
    "eventTime": "2026-01-15T10:00:00.000Z",
    "eventVersion": "1.0",
    "region": "mq-private",
    "oss": {
        "bucket": {"arn": "acs:oss:mq-private:1:b1", "name": "b1", "ownerIdentity": "1"},
        "object": {"key": "x.png", "size": 12, "eTag": "AB", "deltaSize": 12, "readFrom": 1, "readTo": 9},
        "ossSchemaVersion": "1.0",
        "ruleId": "rule-1",
    },
    "requestParameters": {"sourceIPAddress": "10.0.0.1"},
    "responseElements": {"requestId": "5FC6"},
    "userIdentity": {"principalId": "1"},
}


def rows(fmt: str, schema: pa.Schema, body: bytes, **options: Any) -> list[dict[str, Any]]:
    found = Format(fmt, schema, options).decoder()(body)
    made: list[dict[str, Any]] = batch_of(found, schema).to_pylist()
    return made


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def test_it_reads_json_by_the_names_of_columns_and_their_types() -> None:
    schema = columns(
        visitor=pa.int64(), page=pa.string(), at=MOMENT, price=pa.decimal128(10, 2), ok=pa.bool_(), day=pa.date32(),
        tags=pa.list_(pa.string()), beside=pa.struct([("a", pa.int32())]), counts=pa.map_(pa.string(), pa.int64()),
        nothing=pa.float64(),
    )  # fmt: skip
    body = (
        b'{"visitor":7,"page":"/a","at":"2026-01-15T10:00:00.250","price":"1.5","ok":true,"day":"2026-01-15",'
        b'"tags":["x"],"beside":{"a":1,"b":2},"counts":{"k":3},"more":1}'
    )
    options = {"timestamp-format.standard": "ISO-8601"}
    for written in (body, base64.b64encode(body)):
        assert rows("json", schema, written, **options) == [
            {
                "visitor": 7, "page": "/a", "at": datetime(2026, 1, 15, 10, 0, 0, 250_000, UTC),
                "price": Decimal("1.50"), "ok": True, "day": date(2026, 1, 15), "tags": ["x"], "beside": {"a": 1},
                "counts": [("k", 3)], "nothing": None,
            }
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (pa.int32(), "1.5", "the column c cannot be read: '1.5' is no whole number"),
        (pa.int8(), 128, "'128' is no whole number of 8 bits"),
        (pa.bool_(), 1, "'1' is no true and no false"),
        (MOMENT, "2026-01-15T10:00:00", "is no time such as 2026-01-15 10:00:00.000"),
        (pa.decimal128(4, 2), 100, r"is no decimal\(4,2\)"),
        (pa.list_(pa.int64()), {}, "is no array"),
    ],
)
def test_a_value_of_another_type_is_told_or_left_out(kind: pa.DataType, value: Any, sentence: str) -> None:
    body = json.dumps({"c": value, "d": 1}).encode()
    schema = columns(c=kind, d=pa.int32())
    with pytest.raises(BadBody, match=sentence):
        rows("json", schema, body)
    assert rows("json", schema, body, **{"ignore-parse-errors": True}) == [{"c": None, "d": 1}]


def test_options_of_json_hold() -> None:
    schema = columns(at=MOMENT, n=pa.int64())
    with pytest.raises(BadBody, match="it has no field n"):
        rows("json", schema, b'{"at":"2026-01-15 10:00:00"}', **{"fail-on-missing-field": True})
    by_pattern = {"timestamp-format.pattern": "dd/MM/yyyy HH:mm"}
    assert rows("json", schema, b'{"at":"15/01/2026 10:30"}', **by_pattern)[0]["at"] == datetime(
        2026, 1, 15, 10, 30, tzinfo=UTC
    )
    for body in (b"[1]", b"no JSON", b""):
        with pytest.raises(BadBody, match=r"it is not (valid JSON|a JSON object)"):
            rows("json", schema, body)


def test_it_takes_the_first_event_of_a_bucket_with_all_19_columns() -> None:
    types = {"string": pa.string(), "bigint": pa.int64(), "timestamp": MOMENT}
    schema = pa.schema([(name.upper(), types[kind]) for name, (_, kind) in OSS_EVENT_COLUMNS.items()])
    decode = Format("json", schema, is_event=True).decoder()
    found = batch_of(decode(json.dumps({"events": [EVENT, {}]}).encode()), schema).to_pylist()[0]
    assert len(found) == 19
    assert list(found.values()) == [
        "ObjectCreated:PutObject", "acs:oss", datetime(2026, 1, 15, 10, tzinfo=UTC), "1.0", "mq-private",
        "acs:oss:mq-private:1:b1", "b1", "1", "x.png", 12, "AB", 12, 1, 9, "1.0", "rule-1", "10.0.0.1", "5FC6", "1",
    ]  # fmt: skip
    with pytest.raises(BadBody, match="it has no list of events"):
        decode(b'{"events": []}')


def test_it_reads_csv_by_position() -> None:
    schema = columns(n=pa.int32(), word=pa.string(), price=pa.float64())
    assert rows("csv", schema, b'1,"a,b",\n') == [{"n": 1, "word": "a,b", "price": None}]
    options = {"field-delimiter": "|", "null-literal": "-", "disable-quote-character": True}
    assert rows("csv", schema, b'1|"|-', **options) == [{"n": 1, "word": '"', "price": None}]
    with pytest.raises(BadBody, match="it has 2 fields, and the table 3 columns"):
        rows("csv", schema, b"1,a")
    assert rows("csv", schema, b"x,a", **{"ignore-parse-errors": True}) == [{"n": None, "word": "a", "price": None}]


def test_arrays_of_csv_are_parted_by_their_delimiter() -> None:
    schema = columns(id=pa.int64(), tags=pa.list_(pa.string()), counts=pa.list_(pa.int64()))
    assert rows("csv", schema, b"1,a;b,3;4") == [{"id": 1, "tags": ["a", "b"], "counts": [3, 4]}]
    assert rows("csv", schema, b"1,a;b,3|4", **{"array-element-delimiter": "|"})[0]["counts"] == [3, 4]
    assert rows("csv", schema, b"1,,") == [{"id": 1, "tags": None, "counts": None}]


def test_it_reads_raw_bodies() -> None:
    assert rows("raw", columns(b=pa.binary()), b"\xff") == [{"b": b"\xff"}]
    assert rows("raw", columns(b=pa.string()), "é".encode("latin-1"), charset="latin-1") == [{"b": "é"}]
    assert rows("raw", columns(b=pa.int32()), b"\1\0\0\0", endianness="little-endian") == [{"b": 1}]
    with pytest.raises(BadBody, match="it has 2 bytes, and a int64 8"):
        rows("raw", columns(b=pa.int64()), b"ab")


def test_it_reads_avro_with_and_without_a_schema_in_it() -> None:
    schema = columns(n=pa.int64(), word=pa.string(), at=MOMENT)
    moment = datetime(2026, 1, 15, 10, tzinfo=UTC)
    written = fastavro.parse_schema(
        {
            "type": "record",
            "name": "record",
            "fields": [
                {"name": "n", "type": ["null", "long"]},
                {"name": "word", "type": ["null", "string"]},
                {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
            ],
        }
    )
    record = {"n": 7, "word": None, "at": moment}
    alone, container = io.BytesIO(), io.BytesIO()
    fastavro.schemaless_writer(alone, written, record)
    fastavro.writer(container, written, [record, record])
    assert rows("avro", schema, base64.b64encode(alone.getvalue())) == [record]
    assert rows("avro", schema, base64.b64encode(container.getvalue())) == [record, record]
    with pytest.raises(BadBody, match="it is not Avro of these columns"):
        rows("avro", schema, b"?!")


@pytest.mark.parametrize("fmt", ["parquet", "orc"])
def test_it_reads_small_files(fmt: str) -> None:
    table = pa.table({"Word": ["a", None], "n": pa.array([1, 2], pa.int32()), "more": [0, 0]})
    content = io.BytesIO()
    (parquet.write_table if fmt == "parquet" else orc.write_table)(table, content)
    schema = columns(n=pa.int64(), word=pa.string(), none=pa.string())
    assert rows(fmt, schema, base64.b64encode(content.getvalue())) == [
        {"n": 1, "word": "a", "none": None},
        {"n": 2, "word": None, "none": None},
    ]
    with pytest.raises(BadBody, match=f"it is no {fmt} file"):
        rows(fmt, schema, b"AAAA")


def test_a_line_of_a_message_has_the_values_in_order_and_nothing_for_null() -> None:
    moments = pa.array([datetime(2026, 1, 15, 10, 0, 0, 250_000, UTC), None], MOMENT)
    rows_ = pa.record_batch(
        [pa.array([5, None]), pa.array(["new", "a,b"]), moments, pa.array([True, False])],
        names=["id", "note", "at", "ok"],
    )
    assert csv_lines(rows_, "\x01") == ["5\x01new\x012026-01-15 10:00:00.250\x01true", "\x01a,b\x01\x01false"]


def test_what_a_message_cannot_hold_is_told_beforehand() -> None:
    assert problem_of(columns(a=pa.binary()), "binary") == ""
    assert "exactly one column" in problem_of(columns(a=pa.binary(), b=pa.int64()), "binary")
    assert "which a line of CSV cannot hold" in problem_of(columns(a=pa.list_(pa.int64())), "csv")


def test_an_encoding_that_lacks_a_character_ends_the_write() -> None:
    sink = TopicSink("127.0.0.1:1", "t", "k", "s", "GID_t", "csv", encoding="latin-1")
    assert sink.bodies(pa.record_batch([pa.array(["é"])], names=["a"])) == [b"\xe9"]
    with pytest.raises(Exception, match="cannot be written in latin-1"):
        sink.bodies(pa.record_batch([pa.array(["飛"])], names=["a"]))
