"""The capture libraries that Python programs use, alone, in a process of their own: `python -m …` with JSON.

`mysql-replication` reads the binlog. For PostgreSQL there is psycopg2's stream of logical replication; what reads the
messages of pgoutput is below, as programs have it around that: a row is a dictionary of integers, decimals and texts.
It prints `ready` once the log is followed, and the changes a second, from the first that came to the last.
"""

from __future__ import annotations

import json
import select
import struct
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

#: By the type's number in PostgreSQL: integers, and numeric. All else stays a text.
_CONVERTED: dict[int, Callable[[str], Any]] = dict.fromkeys((20, 21, 23), int) | {1700: Decimal}
_ANSWERS_S = 1.0
_SERVER_ID = 4_711_001
_Table = list[tuple[str, Callable[[str], Any]]]


def main(told: dict[str, Any]) -> None:
    """Count up to as many changes as are expected."""
    changes = _of_postgres(told) if told["source"]["kind"] == "postgresql" else _of_mysql(told)
    next(changes)
    begun, seen = time.perf_counter(), 1
    for _ in changes:
        seen += 1
        if seen == told["expected"]:
            break
    print((seen - 1) / (time.perf_counter() - begun), flush=True)


def _of_mysql(told: dict[str, Any]) -> Iterator[Any]:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    source, (place,) = told["source"], told["tables"]
    schema, table = place.split(".")
    settings = {"host": source["address"], "port": source["port"], "user": source["user"], "passwd": source["password"]}
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=_SERVER_ID,
        blocking=True,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[schema],
        only_tables=[table],
        is_mariadb=True,
        log_file=told["file"],
        log_pos=told["position"],
        resume_stream=True,
    )
    print("ready", flush=True)
    for event in stream:
        yield from event.rows


def _of_postgres(told: dict[str, Any]) -> Iterator[Any]:
    import psycopg2
    from psycopg2.extras import LogicalReplicationConnection

    source = told["source"]
    connection = psycopg2.connect(
        host=source["address"],
        port=source["port"],
        user=source["user"],
        password=source["password"],
        dbname=source["database"],
        connection_factory=LogicalReplicationConnection,
    )
    cursor, name = connection.cursor(), source["name"]
    cursor.create_replication_slot(name, output_plugin="pgoutput")
    options = {"proto_version": "1", "publication_names": name}
    cursor.start_replication(slot_name=name, options=options, decode=False)
    print("ready", flush=True)
    tables: dict[int, _Table] = {}
    told_at = time.monotonic()
    while True:
        message = cursor.read_message()
        if message is None:
            select.select([cursor], [], [], _ANSWERS_S)
            continue
        if (row := _row(message.payload, tables)) is not None:
            yield row
        if time.monotonic() - told_at > _ANSWERS_S:
            told_at = time.monotonic()
            cursor.send_feedback(flush_lsn=message.data_start)


def _row(payload: bytes, tables: dict[int, _Table]) -> dict[str, Any] | None:
    kind = payload[:1]
    if kind == b"R":
        number, columns = _relation(payload)
        tables[number] = columns
        return None
    if kind not in {b"I", b"U", b"D"}:
        return None
    columns = tables[struct.unpack_from(">I", payload, 1)[0]]
    found: dict[str, Any] = {}
    place = 5
    while place < len(payload):
        image = payload[place : place + 1]
        values, place = _values(payload, place + 1, columns)
        found["after" if image == b"N" else "before"] = values
    return found


def _relation(payload: bytes) -> tuple[int, _Table]:
    (number,) = struct.unpack_from(">I", payload, 1)
    place = payload.index(b"\0", payload.index(b"\0", 5) + 1) + 2  # schema, table, identity
    (count,) = struct.unpack_from(">H", payload, place)
    place += 2
    columns: _Table = []
    for _ in range(count):
        end = payload.index(b"\0", place + 1)
        (kind,) = struct.unpack_from(">I", payload, end + 1)
        columns.append((payload[place + 1 : end].decode(), _CONVERTED.get(kind, str)))
        place = end + 9
    return number, columns


def _values(payload: bytes, place: int, columns: _Table) -> tuple[dict[str, Any], int]:
    place += 2
    found: dict[str, Any] = {}
    for name, convert in columns:
        kind = payload[place]
        place += 1
        if kind == ord("t"):
            (length,) = struct.unpack_from(">I", payload, place)
            place += 4 + length
            found[name] = convert(payload[place - length : place].decode())
        elif kind == ord("n"):
            found[name] = None
    return found, place


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
