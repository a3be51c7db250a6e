from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from console.instances.models import Cluster
    from console.topics.live import Figure, GroupHour, Line, Sampled


class MetricsConfig(AppConfig):
    name = "console.metrics"

    def ready(self) -> None:
        """Give the lists of topics and groups their figures."""
        Provided.promise("console.topics.live.sampled", _sampled)
        Provided.promise("console.topics.live.figure", _figure)
        Provided.promise("console.topics.live.topic_hours", _topic_hours)
        Provided.promise("console.topics.live.group_hours", _group_hours)


def _sampled() -> Sampled:
    from console.metrics import queries

    return queries.rates


def _figure() -> Callable[[Cluster, Figure], dict[str, float]]:
    from console.metrics import queries

    return queries.figure


def _topic_hours() -> Callable[[Cluster, Sequence[str]], dict[str, Line]]:
    from console.metrics import queries

    return queries.topic_hours


def _group_hours() -> Callable[[Cluster, Mapping[str, int]], dict[str, GroupHour]]:
    from console.metrics import queries

    return queries.group_hours
