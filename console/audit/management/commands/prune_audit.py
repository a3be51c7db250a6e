"""`manage.py prune_audit --days 400`: delete old entries of the audit trail. Nothing else can."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.audit import retention


class Command(BaseCommand):
    help = "Delete audit entries older than a number of days, and record the deletion."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, required=True, help=f"days to keep, at least {retention.SHORTEST_DAYS}")

    def handle(self, *args: Any, days: int, **options: Any) -> None:
        try:
            removed = retention.prune(days)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{removed} entries older than {days} days are deleted.")
