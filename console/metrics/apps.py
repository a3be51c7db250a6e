from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.instances.models import Cluster
    from console.topics.live import Rates


class MetricsConfig(AppConfig):
    name = "console.metrics"

    def ready(self) -> None:
        """Give the lists of topics and groups their rates."""
        Provided.promise("console.topics.live.sampled", _sampled)


def _sampled() -> Callable[[Cluster], Rates]:
    from console.metrics import queries

    return queries.rates
