from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.accounts.models import Tenant


class CatalogConfig(AppConfig):
    name = "console.catalog"

    def ready(self) -> None:
        """Give rights what they ask of the lake."""
        Provided.promise("console.rights.limits.stored", _stored)


def _stored() -> Callable[[Tenant], Mapping[str, int | None]]:
    from console.catalog import storage

    return storage.in_use
