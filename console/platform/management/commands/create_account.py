"""`manage.py create_account NAME --organization Sales`: a tenant account and its administrator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from console.accounts import policy_documents
from console.accounts.models import Organization
from console.accounts.services import create_tenant, draw_password
from console.web.errors import Refused


class Command(BaseCommand):
    help = "Create a tenant account with its administrator admin@NAME."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="2 to 32 lower-case letters, digits, - or _")
        parser.add_argument(
            "--organization", required=True, help="path of names, as in Head office/Sales; what is missing is created"
        )

    def handle(self, *args: Any, name: str, organization: str, **options: Any) -> None:
        password = draw_password()
        try:
            with transaction.atomic():
                policy_documents.ensure_system_policies()
                user = create_tenant(
                    name=name, organization=_at(organization), password=password, must_change_password=True
                )
        except Refused as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"The account {name} is created in {organization}; its administrator is {user.username}.")
        self.stdout.write(f"First password, shown only once, to be changed at the sign-in: {password}")


def _at(path: str) -> Organization:
    """The organization at the end of the path. Raises CommandError for an empty name in it."""
    found = None
    for name in (part.strip() for part in path.split("/")):
        if not name or len(name) > 64:
            raise CommandError("Each name in --organization has 1 to 64 characters.")
        found, _ = Organization.objects.get_or_create(parent=found, name=name)
    if found is None:
        raise CommandError("--organization is a name, or a path of names.")
    return found
