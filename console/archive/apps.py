from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.catalog.virtual.mq import Archives


class ArchiveConfig(AppConfig):
    name = "console.archive"

    def ready(self) -> None:
        """Give the tables of schema `mq` what is archived of their topics."""
        Provided.promise("console.catalog.virtual.mq.archives", _archives)


def _archives() -> Archives:
    from console.archive import queries

    return queries
