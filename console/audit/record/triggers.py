"""The triggers that keep the audit trail append-only, and the one door through them.

A DELETE passes only while the table `audit_retention` has a row, which `console.audit.retention` inserts and removes in
its own transaction, so no other session ever sees it. An UPDATE never passes. Django knows nothing of that table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_SQLITE = (
    "CREATE TABLE audit_retention (days integer NOT NULL)",
    "CREATE TRIGGER audit_entry_no_update BEFORE UPDATE ON audit_entry "
    "BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END",
    "CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry "
    "WHEN NOT EXISTS (SELECT 1 FROM audit_retention) "
    "BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END",
)
_SQLITE_DROP = (
    "DROP TRIGGER IF EXISTS audit_entry_no_delete",
    "DROP TRIGGER IF EXISTS audit_entry_no_update",
    "DROP TABLE IF EXISTS audit_retention",
)
_POSTGRESQL = (
    "CREATE TABLE audit_retention (days integer NOT NULL)",
    """CREATE FUNCTION audit_entry_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' AND EXISTS (SELECT 1 FROM audit_retention) THEN
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'restrict_violation';
END $$""",
    "CREATE TRIGGER audit_entry_rows BEFORE UPDATE OR DELETE ON audit_entry "
    "FOR EACH ROW EXECUTE FUNCTION audit_entry_append_only()",
    "CREATE TRIGGER audit_entry_truncate BEFORE TRUNCATE ON audit_entry "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_append_only()",
)
_POSTGRESQL_DROP = (
    "DROP TRIGGER IF EXISTS audit_entry_truncate ON audit_entry",
    "DROP TRIGGER IF EXISTS audit_entry_rows ON audit_entry",
    "DROP FUNCTION IF EXISTS audit_entry_append_only()",
    "DROP TABLE IF EXISTS audit_retention",
)
_CREATE = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}
_DROP = {"sqlite": _SQLITE_DROP, "postgresql": _POSTGRESQL_DROP}


def create(schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make the triggers, anew when they are there. Raises KeyError on a database that is not supported."""
    drop(schema_editor)
    for statement in _CREATE[schema_editor.connection.vendor]:
        schema_editor.execute(statement, None)


def drop(schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Remove the triggers."""
    for statement in _DROP[schema_editor.connection.vendor]:
        schema_editor.execute(statement, None)


@contextmanager
def deletes_allowed(days: int) -> Iterator[None]:
    """A transaction in which old entries may be deleted; `days` is the retention that asks for it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO audit_retention (days) VALUES (%s)", [days])
        yield
        cursor.execute("DELETE FROM audit_retention WHERE days = %s", [days])
