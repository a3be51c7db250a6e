"""`manage.py openapi`: the OpenAPI document, or the table of operations of docs/use/management-api.md."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from console.openapi import operations  # noqa: F401 - declares what the document lists
from console.openapi.document import document
from console.openapi.reference import markdown_table


class Command(BaseCommand):
    help = "Print the OpenAPI document, or with --table the table of operations as Markdown."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--table", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(markdown_table() if options["table"] else json.dumps(document(), indent=2))
