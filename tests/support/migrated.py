"""A migrated SQLite database for the tests of several processes: all migrations take one of them five seconds."""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush
from django.db import connection

ROOT = Path(__file__).resolve().parents[2]
_KEPT = ROOT / ".pytest_cache" / "databases"
_IMPORT = re.compile(r"^from (console[\w.]*) import (\w+)", re.MULTILINE)


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest, django_db_modify_db_settings: None) -> bool:
    """Where the database is kept from an earlier process, Django finds it, and no migration that it lacks."""
    if connection.vendor == "sqlite" and _file().exists():
        shutil.copyfile(_file(), connection.settings_dict["TEST"]["NAME"])
        return True
    return bool(request.config.getvalue("reuse_db"))


def keep() -> None:
    """Keep this process's test database, which has just been migrated."""
    if connection.vendor != "sqlite" or _file().exists():
        return
    _KEPT.mkdir(parents=True, exist_ok=True)
    for old in _KEPT.glob("*.sqlite3"):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
        copy = sqlite3.connect(Path(folder) / "copy")
        connection.connection.backup(copy)
        copy.close()
        (Path(folder) / "copy").replace(_file())


def fill_after_a_flush() -> None:
    """Let the flush after a test that commits write again what migrations have left, in two statements.

    Django would look for each model's type and rights, and make each, by two hundred.
    """
    types, rights = list(ContentType.objects.order_by("pk")), list(Permission.objects.order_by("pk"))

    def fill(*_of_the_command: object) -> None:
        ContentType.objects.clear_cache()
        ContentType.objects.bulk_create(types)
        Permission.objects.bulk_create(rights)

    flush.emit_post_migrate_signal = fill  # type: ignore[attr-defined]  # the name that the command calls
    if connection.vendor == "postgresql" and _is_superuser():
        connection.ops.sql_flush = _deletions  # type: ignore[method-assign, assignment]  # of this process only


def _is_superuser() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('is_superuser')")
        return bool(cursor.fetchone() == ("on",))


def _deletions(_style: object, tables: Sequence[str], **_options: object) -> list[str]:
    """Empty tables of few rows, in whichever order: TRUNCATE would make new files for each, and for its indexes.

    As a replica the server asks no trigger: neither one that looks for rows that refer to these, nor ours that refuse.
    """
    if not tables:
        return []
    quoted = map(connection.ops.quote_name, tables)
    return ["SET LOCAL session_replication_role = replica", "; ".join(f"DELETE FROM {table}" for table in quoted)]


@cache
def _file() -> Path:
    """Another one for other migrations, for other code that one of them calls, and for other libraries' migrations."""
    migrations = sorted((ROOT / "console").glob("*/migrations/*.py"))
    called = {
        path
        for migration in migrations
        for package, name in _IMPORT.findall(migration.read_text())
        for folder in [ROOT / package.replace(".", "/")]
        for path in (folder.with_suffix(".py"), folder / f"{name}.py")
        if path.exists()
    }
    read = [*migrations, *sorted(called), ROOT / "uv.lock"]
    text = b"".join(str(path.relative_to(ROOT)).encode() + path.read_bytes() for path in read)
    return _KEPT / f"{hashlib.sha256(text).hexdigest()[:16]}.sqlite3"
