from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.accounts.models import Tenant


class TrackingConfig(AppConfig):
    name = "console.tracking"

    def ready(self) -> None:
        """Give the limits what they ask of change tracking tasks."""
        Provided.promise("console.rights.limits.tracking_tasks", _used)


def _used() -> Callable[[Tenant], int]:
    from console.tracking import queries

    return queries.used
