"""Changes as Debezium's records: the envelope that its connectors give their consumers, as JSON without schemas.

A record has `before`, `after`, `source`, `op` (c, u, d, r, t), `ts_ms`, `ts_us`, `ts_ns` and `transaction` (null).
Values are as Debezium's connectors write them by themselves (`debezium_values`), but that decimals are texts
(`decimal.handling.mode=string`). Of an UPDATE that changes the primary key there are two records, as Debezium has them:
the old row is deleted, and the new one created.

A record's key is the primary key, as JSON. It stands in the record as `gantrykey`, which is not delivered.

What is other than Debezium's, and why, is told in `docs/develop/debezium.md`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from analytics.inflow.debezium_values import Convert, converter
from analytics.inflow.fields import MAX_KEY, EventRejected

Record = dict[str, Any]
KEY = "gantrykey"
"""The field with the key of a record."""
UNAVAILABLE = "__debezium_unavailable_value"
"""What stands in the place of a value that did not change and that the database did not send."""
_OPERATIONS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "READ": "r", "TRUNCATE": "t"}
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_OFFSET = re.compile(r"(.+):(\d+)")
_MARIADB_GTID = re.compile(r"\d+-(\d+)-\d+")
_GTID = re.compile(r"\d+-\d+-\d+|[0-9a-f-]{36}:\d+")
#: What says which connector has made a record, where Debezium has its own version.
_VERSION = "gantry"


def records(event: Mapping[str, Any]) -> list[Record]:
    """The records of a change (`changes`): one, or two of a changed key. Raises EventRejected for what is no change."""
    data = event.get("data")
    operation = _OPERATIONS.get(str(data.get("operation"))) if isinstance(data, dict) else None
    if not isinstance(data, dict) or operation is None:
        raise EventRejected("", "Only the change of a row can be a record of Debezium's, and this event is none")
    if "omittedBytes" in data:
        raise EventRejected("", f"The row has {data['omittedBytes']} bytes, and its values were left out")
    try:
        return _records(event, data, operation)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        raise EventRejected("", "The event is not of the form that changes have") from None


def taken_key(record: Record) -> str | None:
    """Take the key out of a record, for its message. None without one, and for one that is too long for a message."""
    key = record.pop(KEY, None)
    return key if isinstance(key, str) and len(key.encode(errors="replace")) <= MAX_KEY else None


def _records(event: Mapping[str, Any], data: Mapping[str, Any], operation: str) -> list[Record]:
    types = data.get("types") or {}
    is_postgres = data.get("schemaName") is not None
    convert = {name: found for name, kind in types.items() if (found := converter(kind, is_postgres=is_postgres))}
    before, after = _row(data["before"], convert), _row(data["after"], convert)
    if after is not None:
        after |= dict.fromkeys(data.get("unavailable") or (), UNAVAILABLE)
    source = _source(event, data, is_postgres=is_postgres)
    primary = _row(data.get("primaryKey"), convert)
    key = None if primary is None else _text(primary)
    if operation == "u" and primary and before and (old := _old_key(primary, before)) is not None:
        return [_record(before, None, source, "d", _text(old)), _record(None, after, source, "c", key)]
    return [_record(before, after, source, operation, key)]


def _record(before: Record | None, after: Record | None, source: Record, operation: str, key: str | None) -> Record:
    now = time.time_ns()
    made = {
        "before": before,
        "after": after,
        "source": source,
        "transaction": None,
        "op": operation,
        "ts_ms": now // 1_000_000,
        "ts_us": now // 1000,
        "ts_ns": now,
    }
    return made if key is None else made | {KEY: key}


def _row(values: Mapping[str, Any] | None, convert: Mapping[str, Convert]) -> Record | None:
    if values is None:
        return None
    if not convert:
        return dict(values)
    return {
        name: value if value is None or (make := convert.get(name)) is None else make(value)
        for name, value in values.items()
    }


def _old_key(primary: Record, before: Record) -> Record | None:
    """The key that a row had; None where it is the same, or not known."""
    if any(name not in before for name in primary):
        return None
    old = {name: before[name] for name in primary}
    return None if old == primary else old


def _text(key: Record) -> str:
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def _source(event: Mapping[str, Any], data: Mapping[str, Any], *, is_postgres: bool) -> Record:
    milliseconds = int(data["commitTime"])
    made: Record = {
        "version": _VERSION,
        "connector": "postgresql" if is_postgres else "mysql",
        "name": event.get("source"),
        "ts_ms": milliseconds,
        "snapshot": "true" if data.get("snapshot") else "false",
        "db": data["databaseName"],
        "sequence": None,
        "ts_us": milliseconds * 1000,
        "ts_ns": milliseconds * 1_000_000,
    }
    return made | (_of_postgres(data) if is_postgres else _of_mysql(event, data))


def _of_postgres(data: Mapping[str, Any]) -> Record:
    found = _LSN.fullmatch(str(data["position"]))
    place = int(found[1], 16) << 32 | int(found[2], 16) if found else None
    transaction = str(data.get("transaction") or "")
    return {
        "sequence": None if place is None else f'[null,"{place}"]',
        "schema": data["schemaName"],
        "table": data["tableName"],
        "txId": int(transaction) if transaction.isdecimal() else None,
        "lsn": place,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }


def _of_mysql(event: Mapping[str, Any], data: Mapping[str, Any]) -> Record:
    place = _OFFSET.fullmatch(str(data["position"]))
    transaction = str(data.get("transaction") or "")
    number = str(event.get("id")).rpartition(":")[2]
    server = _MARIADB_GTID.fullmatch(transaction)
    return {
        "table": data["tableName"],
        "server_id": int(server[1]) if server else 0,
        "gtid": transaction if _GTID.fullmatch(transaction) else None,
        "file": place[1] if place else None,
        "pos": int(place[2]) if place else None,
        "row": int(number) - 1 if number.isdecimal() and not data.get("snapshot") else 0,
        "thread": None,
        "query": None,
    }
