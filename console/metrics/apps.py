from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.topics.live import Sampled


class MetricsConfig(AppConfig):
    name = "console.metrics"

    def ready(self) -> None:
        """Give the lists of topics and groups their rates."""
        Provided.promise("console.topics.live.sampled", _sampled)


def _sampled() -> Sampled:
    from console.metrics import queries

    return queries.rates
