"""What PostgreSQL needs before its changes can be captured: looked at, made where it is allowed, told where not.

Each thing that is missing is a CaptureFailed with the statement that mends it. A slot keeps the log of the server until
its changes are confirmed, so one that nobody reads fills the disk: `max_slot_wal_keep_size` bounds that, and a slot
which falls behind further is lost (SLOT_LOST).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import class_row, tuple_row

from analytics.inflow.changes import CaptureFailed, TablePatterns

#: PostgreSQL 13: publications by way of the root of partitions, and slots that tell whether they are lost.
OLDEST = 130_000
#: A reader that was killed holds its slot until the server notices, s.
SLOT_FREE_S = 2.0
_LOOK_S = 0.05
_GENERATED_COLUMNS = 180_000
_ALL_OPERATIONS = "insert, update, delete, truncate"

_SERVER = """
SELECT current_setting('wal_level') AS wal_level, pg_is_in_recovery() AS is_replica, current_user::text AS role,
       role.rolsuper OR role.rolreplication OR EXISTS (
           SELECT FROM pg_roles cloud WHERE cloud.rolname = 'rds_replication'
           AND pg_has_role(current_user, cloud.oid, 'MEMBER')) AS may_replicate,
       current_setting('max_replication_slots')::int AS slots,
       (SELECT count(*) FROM pg_replication_slots) AS used_slots,
       current_setting('max_wal_senders')::int AS senders,
       (SELECT count(*) FROM pg_stat_replication) AS used_senders
FROM pg_roles role WHERE role.rolname = current_user
"""

#: A table without a replica identity that is published refuses UPDATE and DELETE to everybody.
_TABLES = """
SELECT s.nspname::text AS schema, t.relname::text AS name, t.relispartition AS is_partition,
       t.relpersistence::text AS persistence, has_schema_privilege(s.oid, 'USAGE') AS may_use,
       has_table_privilege(t.oid, 'SELECT') OR has_any_column_privilege(t.oid, 'SELECT') AS may_select,
       CASE t.relreplident
           WHEN 'f' THEN true
           WHEN 'n' THEN false
           ELSE EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid
                        AND CASE t.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END)
       END AS has_identity
FROM pg_class t JOIN pg_namespace s ON s.oid = t.relnamespace
WHERE t.relkind IN ('r', 'p') AND t.relpersistence <> 't'
      AND s.nspname <> 'information_schema' AND s.nspname NOT LIKE 'pg\\_%'
ORDER BY 1, 2
"""

_PUBLICATION = """
SELECT puballtables AS all_tables, pubviaroot AS via_root,
       pubinsert AND pubupdate AND pubdelete AND pubtruncate AS has_all
FROM pg_publication WHERE pubname = %s
"""

_MEMBERS = """
SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %(name)s
UNION SELECT s.nspname::text, t.relname::text FROM pg_publication_rel m JOIN pg_publication p ON p.oid = m.prpubid
      JOIN pg_class t ON t.oid = m.prrelid JOIN pg_namespace s ON s.oid = t.relnamespace WHERE p.pubname = %(name)s
"""


class _Server(NamedTuple):
    """A row of _SERVER."""

    wal_level: str
    is_replica: bool
    role: str
    may_replicate: bool
    slots: int
    used_slots: int
    senders: int
    used_senders: int


class _Table(NamedTuple):
    """A row of _TABLES."""

    schema: str
    name: str
    is_partition: bool
    persistence: str
    may_use: bool
    may_select: bool
    has_identity: bool


class _Publication(NamedTuple):
    """A row of _PUBLICATION."""

    all_tables: bool
    via_root: bool
    has_all: bool


class TableName(NamedTuple):
    """A table of the database."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class Tables(NamedTuple):
    """The tables that are captured, and those that a pattern with `*` has and that cannot be, with the reason."""

    captured: list[TableName]
    left_out: dict[TableName, CaptureFailed]


def quoted(*names: str) -> str:
    """Names as an identifier in a statement: "public"."orders"."""
    return sql.Identifier(*names).as_string()


def check_server(connection: psycopg.Connection[Any]) -> None:
    """Version, settings, and the right to replicate. Raises CaptureFailed for the first that is wrong."""
    for failure in server_faults(connection):
        raise failure


def server_faults(connection: psycopg.Connection[Any]) -> list[CaptureFailed]:
    """All that is wrong with the server itself."""
    version = connection.info.server_version
    if version < OLDEST:
        text = f"The server is PostgreSQL {version // 10_000}; changes are captured from version 13 on."
        return [CaptureFailed(text, "VERSION_OLD")]
    server = connection.cursor(row_factory=class_row(_Server)).execute(_SERVER).fetchall()[0]
    if server.is_replica:
        return [CaptureFailed("The server is a replica; changes are captured from its primary.", "REPLICA")]
    found: list[CaptureFailed] = []
    if server.wal_level != "logical":
        found.append(
            CaptureFailed(
                f"The server's log does not have row changes: wal_level is {server.wal_level} and must be logical."
                " The server must be restarted after that.",
                "LOG_OFF",
                "ALTER SYSTEM SET wal_level = logical",
            )
        )
    if not server.may_replicate:
        found.append(
            CaptureFailed(
                f"The account {server.role} may not read the server's log: it lacks the attribute REPLICATION.",
                "RIGHT_MISSING",
                f"ALTER ROLE {quoted(server.role)} REPLICATION",
            )
        )
    if server.used_senders >= server.senders:
        found.append(
            CaptureFailed(
                f"All {server.senders} connections that may read the server's log (max_wal_senders) are taken."
                " The server must be restarted after that.",
                "SENDERS_FULL",
                f"ALTER SYSTEM SET max_wal_senders = {server.senders + 10}",
            )
        )
    return found


# --- Tables -----------------------------------------------------------------------------------------------------------


def find_tables(connection: psycopg.Connection[Any], patterns: TablePatterns) -> Tables:
    """The tables that the patterns have now.

    Raises CaptureFailed when a table that is named without `*` is missing or cannot be captured, or when none can.
    Partitions belong to the table that they are of, unless they are named.
    """
    tables, faults = look_for_tables(connection, patterns)
    for failure in faults:
        raise failure
    return tables


def look_for_tables(connection: psycopg.Connection[Any], patterns: TablePatterns) -> tuple[Tables, list[CaptureFailed]]:
    """As `find_tables`, with all that is wrong instead of the first of it."""
    captured: list[TableName] = []
    left_out: dict[TableName, CaptureFailed] = {}
    faults: list[CaptureFailed] = []
    rows = connection.cursor(row_factory=class_row(_Table)).execute(_TABLES).fetchall()
    for row in rows:
        table = TableName(row.schema, row.name)
        if not patterns.match(*table) or (row.is_partition and table not in patterns.named):
            continue
        failure = _why_not(table, row, connection.info.user)
        if failure is None:
            captured.append(table)
        elif table in patterns.named:
            faults.append(failure)
        else:
            left_out[table] = failure
    missing = patterns.named - {(row.schema, row.name) for row in rows}
    if missing:
        names = ", ".join(sorted(".".join(name) for name in missing))
        faults.append(CaptureFailed(f"The database {connection.info.dbname} has no table {names}.", "NO_TABLE"))
    if not captured and not faults:
        faults += left_out.values()
        if not faults:
            text = f"The database {connection.info.dbname} has no table that one of these patterns has:"
            faults.append(CaptureFailed(f"{text} {', '.join(patterns.patterns)}.", "NO_TABLE"))
    return Tables(captured, left_out), faults


def _why_not(table: TableName, row: _Table, role: str) -> CaptureFailed | None:
    name = quoted(*table)
    if not row.may_use or not row.may_select:
        statements = [] if row.may_use else [f"GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {quoted(role)}"]
        statements.append(f"GRANT SELECT ON {name} TO {quoted(role)}")
        return CaptureFailed(
            f"The account {role} may not read the table {table}.", "RIGHT_MISSING", "; ".join(statements)
        )
    if row.persistence == "u":
        return CaptureFailed(
            f"The table {table} is unlogged: its changes are in no log.", "LOG_OFF", f"ALTER TABLE {name} SET LOGGED"
        )
    if not row.has_identity:
        return CaptureFailed(
            f"The table {table} has neither a primary key nor another replica identity. Captured, it would refuse"
            " UPDATE and DELETE.",
            "NO_IDENTITY",
            f"ALTER TABLE {name} REPLICA IDENTITY FULL",
        )
    return None


# --- Publication ------------------------------------------------------------------------------------------------------


def ensure_publication(connection: psycopg.Connection[Any], name: str, tables: Sequence[TableName]) -> None:
    """Make the publication, or add to it what it lacks. It must be there before the slot is made."""
    publication = connection.cursor(row_factory=class_row(_Publication)).execute(_PUBLICATION, [name]).fetchone()
    # ONLY: a table that inherits is one by itself.
    if publication is None:
        listed = ", ".join(f"ONLY {quoted(*table)}" for table in tables)
        options = "publish_via_partition_root = true"
        if connection.info.server_version >= _GENERATED_COLUMNS:
            options += ", publish_generated_columns = stored"
        _change(connection, f"CREATE PUBLICATION {quoted(name)} FOR TABLE {listed} WITH ({options})")
        return
    if not publication.has_all:
        _change(connection, f"ALTER PUBLICATION {quoted(name)} SET (publish = '{_ALL_OPERATIONS}')")
    if not publication.via_root:
        _change(connection, f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true)")
    members = set(connection.cursor(row_factory=tuple_row).execute(_MEMBERS, {"name": name}).fetchall())
    missing = [] if publication.all_tables else [table for table in tables if table not in members]
    if missing:
        listed = ", ".join(f"ONLY {quoted(*table)}" for table in missing)
        _change(connection, f"ALTER PUBLICATION {quoted(name)} ADD TABLE {listed}")


def _change(connection: psycopg.Connection[Any], statement: str) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise CaptureFailed(
            f"The account {connection.info.user} may not make or change the publication: {_reason(error)}. The owner of"
            " the tables, or a superuser, can.",
            "RIGHT_MISSING",
            statement,
        ) from error
    except psycopg.Error as error:
        raise CaptureFailed(f"The publication cannot be made: {_reason(error)}.", "PUBLICATION", statement) from error


# --- Slot -------------------------------------------------------------------------------------------------------------


class Slot(NamedTuple):
    """A slot that is there and can be read."""

    name: str
    confirmed: str


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot | None:
    """The slot, None if there is none. Raises CaptureFailed when it is lost, taken, or of another kind.

    A slot that is in use is looked at again for a moment, since the server may not know yet that its reader is gone.
    """
    deadline = time.monotonic() + SLOT_FREE_S
    query = "SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s"
    while (found := connection.cursor(row_factory=tuple_row).execute(query, [name]).fetchone()) is not None:
        slot: dict[str, Any] = found[0]
        if slot.get("wal_status") == "lost" or slot.get("invalidation_reason") is not None:
            raise slot_lost(name)
        if slot["plugin"] != "pgoutput" or slot["database"] != connection.info.dbname:
            raise CaptureFailed(
                f"The slot {name} is of the database {slot['database']} and the plugin {slot['plugin']}; this capture"
                f" needs one of {connection.info.dbname} and pgoutput.",
                "SLOT_OTHER",
                drop_statement(name),
            )
        if not slot["active"]:
            return Slot(name, slot["confirmed_flush_lsn"])
        if time.monotonic() > deadline:
            raise slot_taken(name, slot["active_pid"])
        time.sleep(_LOOK_S)
    return None


def check_slots_left(connection: psycopg.Connection[Any]) -> None:
    """Whether the server has place for one slot more."""
    server = connection.cursor(row_factory=class_row(_Server)).execute(_SERVER).fetchall()[0]
    if server.used_slots >= server.slots:
        raise CaptureFailed(
            f"All {server.slots} replication slots of the server (max_replication_slots) are taken. The server must be"
            " restarted after that.",
            "SLOTS_FULL",
            f"ALTER SYSTEM SET max_replication_slots = {server.slots + 10}",
        )


def slot_taken(name: str, pid: int | None) -> CaptureFailed:
    """Somebody else reads the slot."""
    return CaptureFailed(
        f"Another client reads the slot {name}; a slot has one client only.",
        "SLOT_TAKEN",
        "" if pid is None else f"SELECT pg_terminate_backend({pid})",
    )


def slot_lost(name: str) -> CaptureFailed:
    """The server has removed log that the slot had not read."""
    return CaptureFailed(
        f"The slot {name} is lost: the server has removed log that was not read, because the slot fell behind further"
        " than max_slot_wal_keep_size, or was idle too long. Changes are missing; begin again, with the rows that are"
        " there.",
        "SLOT_LOST",
        drop_statement(name),
    )


def slot_gone(name: str) -> CaptureFailed:
    """Changes were read up to a position, and the slot that kept those behind it does not exist."""
    return CaptureFailed(
        f"The server has no slot {name}: it was dropped, or the server is another one. Changes since the recorded"
        " position are missing; begin again, with the rows that are there.",
        "SLOT_LOST",
    )


def drop_statement(name: str) -> str:
    """What drops a slot."""
    return f"SELECT pg_drop_replication_slot({sql.Literal(name).as_string()})"


def drop_slot(connection: psycopg.Connection[Any], name: str) -> None:
    """Drop the slot, so that the server keeps no log for it."""
    connection.execute(drop_statement(name).encode())


# --- Errors of the driver ---------------------------------------------------------------------------------------------

_PASSWORD = ("password", "28P01", "authentication failed", "SCRAM")
_BY_STATE: dict[str, Callable[[str], CaptureFailed]] = {
    "55006": lambda slot: slot_taken(slot, None),
    "55000": slot_lost,
}


def failure_of(error: psycopg.Error, slot: str) -> CaptureFailed:
    """An error of the driver as what it means for a capture."""
    return _failure(error.sqlstate, _reason(error), slot)


def failure_of_result(state: bytes | None, message: bytes, slot: str) -> CaptureFailed:
    """An error of a command that was sent past the driver."""
    return _failure(None if state is None else state.decode(), _one_line(message.decode(errors="replace")), slot)


def connection_failure(error: psycopg.Error, host: str, port: int) -> CaptureFailed:
    """Why no connection came about. The protocol tells no code here, only the server's words."""
    told, reason = str(error), _reason(error)
    if any(word in told for word in _PASSWORD):
        return CaptureFailed(f"The server {host} does not accept account and password: {reason}.", "PASSWORD_WRONG")
    if "certificate" in told or "SSL" in told or "no encryption" in told:
        return CaptureFailed(f"No secure connection to {host}:{port}: {reason}.", "TLS")
    if "pg_hba.conf" in told:
        return CaptureFailed(
            f"The server {host}:{port} does not admit the account from here: {reason}.", "RIGHT_MISSING"
        )
    if "database" in told and "does not exist" in told:
        return CaptureFailed(f"The server {host}:{port} does not have the database: {reason}.", "NO_DATABASE")
    return CaptureFailed(f"The server {host}:{port} cannot be reached: {reason}.", "UNREACHABLE")


def _failure(state: str | None, reason: str, slot: str) -> CaptureFailed:
    known = _BY_STATE.get(state or "")
    if known is not None:
        return known(slot)
    if state == "42501":
        return CaptureFailed(f"The account lacks a right: {reason}.", "RIGHT_MISSING")
    if state == "42704":
        return CaptureFailed(
            f"The slot or the publication does not exist at the position to go on from: {reason}. Changes are missing;"
            " begin again, with the rows that are there.",
            "SLOT_LOST",
            drop_statement(slot),
        )
    return CaptureFailed(f"The connection to the server has ended: {reason}.", "UNREACHABLE")


def _reason(error: psycopg.Error) -> str:
    return _one_line(error.diag.message_primary or str(error))


def _one_line(message: str) -> str:
    """The first line, which tells what is wrong; hints and attempts at other addresses follow."""
    return " ".join(message.strip().partition("\n")[0].split()).rstrip(".")
