from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.outbox.models import Notification


class AlarmsConfig(AppConfig):
    name = "console.alarms"

    def ready(self) -> None:
        """Give the outbox what sends a notice of an alarm."""
        Provided.promise("console.outbox.routing.send_alarm", _send)


def _send() -> Callable[[Notification], str]:
    from console.alarms import sending

    return sending.send
