"""Changes as Debezium's records, without a database: keys, values, and what a task makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from analytics.inflow.debezium import KEY, records
from analytics.inflow.debezium_values import converter
from analytics.inflow.fields import MAX_KEY, EventRejected, Fields
from analytics.inflow.pattern import Pattern
from analytics.inflow.task import Task
from analytics.inflow.transform import Transformed
from tests.inflow.test_delivery import Scripted, Sent, deliver

CHANGE: dict[str, Any] = {
    "specversion": "1.0", "id": "0-1-36:2", "source": "mysql://db:3306", "type": "dts:Change", "subject": "shop.orders",
    "data": {
        "operation": "UPDATE", "databaseName": "shop", "schemaName": None, "tableName": "orders",
        "primaryKey": {"id": 7}, "before": {"id": 7, "due": "2024-02-29"}, "after": {"id": 7, "due": "2024-03-01"},
        "commitTime": 1768435200000, "position": "mysql-bin.000012:4711", "transaction": "0-1-36", "snapshot": False,
        "types": {"due": "date"},
    },
}  # fmt: skip
FLOW = Task.read({"name": "t", "source": {"log": "oss://b/l/", "envelope": "debezium"}, "sink": {"topic": "t"}}).flow(
    None
)


def change(**data: Any) -> dict[str, Any]:
    return CHANGE | {"data": CHANGE["data"] | data}


def sent(*changes: dict[str, Any], **more: Any) -> Sent:
    target = Sent()
    deliver(replace(FLOW, **more), [json.dumps(one).encode() for one in changes], target)
    return target


def test_a_record_has_the_envelope_and_its_values() -> None:
    (record,) = records(CHANGE)
    assert record.pop("ts_ms") == record.pop("ts_us") // 1000 == record.pop("ts_ns") // 1_000_000
    assert record == {
        "before": {"id": 7, "due": 19782}, "after": {"id": 7, "due": 19783}, "op": "u", "transaction": None,
        KEY: '{"id":7}',
        "source": {
            "version": "gantry", "connector": "mysql", "name": "mysql://db:3306", "ts_ms": 1768435200000,
            "ts_us": 1768435200000000, "ts_ns": 1768435200000000000, "snapshot": "false", "db": "shop",
            "sequence": None, "table": "orders", "server_id": 1, "gtid": "0-1-36", "file": "mysql-bin.000012",
            "pos": 4711, "row": 1, "thread": None, "query": None,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"data": {"n": 1}}, "Only the change of a row"),
        ({}, "Only the change of a row"),
        (change(before=None, after=None, omittedBytes=70_000_000), "70000000 bytes"),
        (change(after="no row"), "not of the form"),
        (change(commitTime=None), "not of the form"),
        (change(types={"due": 7}), "not of the form"),
        (change(after={"id": 7, "due": 5}), "not of the form"),
    ],
)
def test_what_is_no_change_is_refused(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventRejected, match=reason):
        records(event)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("date", "infinity", "infinity"),
        ("date", "0044-03-15 BC", -735160),
        ("date", "5874897-12-31", 2145042905),
        ("date", "0000-00-00", None),
        ("date", "2024-00-10", None),
        ("datetime(0)", "0000-00-00T00:00:00", None),
        ("datetime(6)", "1000-01-01T00:00:00.000001", -30610223999999999),
        ("timestamp", "0044-03-15T12:00:00 BC", -63517780800000000),
        ("timestamp(3)", "-infinity", -9223372036832400),
        ("timestamptz", "infinity", "infinity"),
        ("timestamptz(3)", "2024-02-29T22:59:59Z", "2024-02-29T22:59:59.000Z"),
        ("timetz", "24:00:00+00", "24:00:00+00"),
        ("interval", "P-1Y2M-3DT-4H5M-6.5S", -26_571_306_500_000),
        ("interval", "infinity", "infinity"),
        ("bit(9)", "000000000", ""),
        ("date[]", [["2024-02-29", None], []], [[19782, None], []]),
        ("json", [1, {"a": "ä"}], '[1,{"a":"ä"}]'),
        ("point", "POINT EMPTY", "POINT EMPTY"),
    ],
)
def test_values_that_are_rare(kind: str, value: Any, expected: Any) -> None:
    convert = converter(kind, is_postgres=True)
    assert convert is not None
    assert convert(value) == expected


def test_types_that_are_not_known_leave_values_as_they_are() -> None:
    assert converter("geometry", is_postgres=False) is None
    assert converter("no type!", is_postgres=False) is None


def test_a_message_without_a_key_has_debeziums() -> None:
    target = sent(CHANGE, change(operation="TRUNCATE", primaryKey=None, before=None, after=None))
    assert [one.message.key for one in target.messages] == ['{"id":7}', None]
    assert all(KEY not in json.loads(body) for body in target.bodies)
    given = Fields.compile({"body": {"method": "complete_data"}, "key": {"method": "fixed_value", "value": "k"}})
    assert sent(CHANGE, builder=given).messages[0].message.key == "k"


def test_a_key_that_no_message_takes_is_not_set() -> None:
    long = {"id": "x" * MAX_KEY}
    assert sent(change(primaryKey=long, before=None, after=long)).messages[0].message.key is None


def test_pattern_and_paths_are_about_the_record() -> None:
    fields = Fields.compile({"body": {"method": "data_extraction", "path": "$.after.due"}})
    pattern = Pattern.compile('{"op": ["u"], "source": {"table": ["orders"]}}')
    target = sent(CHANGE, change(operation="DELETE", after=None), builder=fields, pattern=pattern)
    assert target.bodies == [b"19783"]


def test_a_changed_key_is_a_deleted_row_and_a_new_one() -> None:
    target = sent(change(before={"id": 6, "due": None}), is_ordered=True)
    found = [(one.order, one.message.key, json.loads(one.message.body)["op"]) for one in target.messages]
    assert found == [('{"id":6}', '{"id":6}', "d"), ('{"id":7}', '{"id":7}', "c")]


def test_a_dead_letter_is_the_event_of_the_log() -> None:
    broken = change(after="no row")
    target = sent(broken, CHANGE, has_dead_letters=True)
    assert [json.loads(body) for body, _ in target.dead] == [broken]
    assert len(target.messages) == 1


def test_a_transform_that_keeps_no_origin_blames_no_other_event() -> None:
    made = Transformed([{"op": "x", "gantrytopic": "elsewhere"}], [None])
    target = sent(CHANGE, has_dead_letters=True, transform=Scripted(lambda events: made))
    assert json.loads(target.dead[0][0])["op"] == "x"
