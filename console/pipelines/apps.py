from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.accounts.models import Tenant


class PipelinesConfig(AppConfig):
    name = "console.pipelines"

    def ready(self) -> None:
        """Give the limits what they ask of jobs."""
        Provided.promise("console.rights.limits.jobs", _used)


def _used() -> Callable[[Tenant], Mapping[str, int]]:
    from console.pipelines import queries

    return queries.used
