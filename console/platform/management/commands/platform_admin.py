"""`manage.py platform_admin NAME`: the first way into a new copy, and the way back in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts import policy_documents
from console.accounts.services import draw_password
from console.accounts.services.platform_admins import set_platform_admin
from console.instances.services import ensure_cluster
from console.web.errors import Refused


class Command(BaseCommand):
    help = "Create an administrator of the platform, or reset its password, devices and sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="1 to 32 letters, digits, dots, - or _")

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        password = draw_password()
        try:
            # All that a copy without the demo needs before anybody can make an account and an instance.
            policy_documents.ensure_system_policies()
            ensure_cluster()
            new = set_platform_admin(name=name, password=password)
        except Refused as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"The platform's administrator {name} is {'created' if new else 'reset'}.")
        self.stdout.write(f"First password, shown only once, to be changed at the sign-in: {password}")
