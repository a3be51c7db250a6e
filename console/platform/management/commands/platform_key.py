"""`manage.py platform_key NAME`: an AccessKey with which the platform's administrator adopts names by API."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.services.platform_admins import create_platform_key, delete_platform_key
from console.web.errors import Refused


class Command(BaseCommand):
    help = "Issue an AccessKey of an administrator of the platform, which opens the operations of adoption alone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the administrator")
        parser.add_argument("--delete", metavar="ID", help="delete this AccessKey of the administrator instead")

    def handle(self, *args: Any, name: str, delete: str | None, **options: Any) -> None:
        try:
            if delete:
                delete_platform_key(name=name, access_key_id=delete)
                self.stdout.write(f"The AccessKey {delete} is deleted.")
                return
            issued = create_platform_key(name=name)
        except Refused as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"AccessKey ID: {issued.access_key_id}")
        self.stdout.write(f"AccessKey secret, shown only once: {issued.access_key_secret}")
