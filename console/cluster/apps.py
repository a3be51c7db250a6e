from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from collections.abc import Callable


class ClusterConfig(AppConfig):
    name = "console.cluster"

    def ready(self) -> None:
        """Give rights who carries them over to clusters that keep lists of their own."""
        Provided.promise("console.rights.access_table.carriers", _carriers)


def _carriers() -> Callable[[], None]:
    from console.cluster import services

    return services.carry_over
