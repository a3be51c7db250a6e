from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.accounts.models import Tenant


class InstancesConfig(AppConfig):
    name = "console.instances"

    def ready(self) -> None:
        """Tell accounts where their things are."""
        Provided.promise("console.accounts.resources.places", _places)


def _places() -> Callable[[Tenant], Callable[[str], str]]:
    from console.instances.places import places_of

    return places_of
