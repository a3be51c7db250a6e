from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.accounts.changes import Table


class RightsConfig(AppConfig):
    name = "console.rights"

    def ready(self) -> None:
        """Give accounts the table that follows their changes."""
        Provided.promise("console.accounts.changes.table", _table)


def _table() -> Table:
    from console.rights import access_table

    return access_table
