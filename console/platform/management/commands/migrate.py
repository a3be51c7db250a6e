"""`manage.py migrate`, which refuses a database of a newer release instead of finding nothing to do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.loader import MigrationLoader


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        if newer := _newer_migrations(options["database"]):
            raise CommandError(
                f"The database was written by a newer release: it has {', '.join(newer)}, which this release does not "
                "know. Start that release, or restore a backup of this one's."
            )
        super().handle(*args, **options)


def _newer_migrations(database: str) -> list[str]:
    """Migrations that were applied and have a higher number than any that this release has of the same app.

    One with a lower number may have been squashed since.
    """
    loader = MigrationLoader(connections[database], ignore_no_migrations=True)
    known: dict[str, int] = {}
    for app, name in loader.disk_migrations:
        known[app] = max(known.get(app, 0), _number(name))
    applied = loader.applied_migrations or {}
    return sorted(f"{app}.{name}" for app, name in applied if app in known and _number(name) > known[app])


def _number(name: str) -> int:
    digits = name.partition("_")[0]
    return int(digits) if digits.isdecimal() else 0
