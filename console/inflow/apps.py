from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.pipelines.event_logs import Sources


class InflowConfig(AppConfig):
    name = "console.inflow"

    def ready(self) -> None:
        """Give pipelines the logs that they may read."""
        Provided.promise("console.pipelines.event_logs.sources", _sources)


def _sources() -> Sources:
    from console.inflow.sources import TrackingTasks

    return TrackingTasks()
