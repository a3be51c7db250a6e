from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.accounts.actor import Actor
    from console.catalog.storage import Tasks
    from console.catalog.virtual.gantry import Table
    from console.outbox.models import Notification


class SqlConfig(AppConfig):
    name = "console.sql"

    def ready(self) -> None:
        """Give the catalog what it asks of query tasks, and the table of them; and the outbox who asks for a notice."""
        Provided.promise("console.catalog.storage.tasks", _tasks)
        Provided.promise("console.catalog.virtual.gantry.query_tasks", _query_tasks)
        Provided.promise("console.outbox.queues.author_of", _author_of)


def _tasks() -> Tasks:
    from console.sql import quota

    return quota


def _query_tasks() -> Table:
    from console.sql import queries

    return queries.TASK_TABLE


def _author_of() -> Callable[[Notification], Actor | None]:
    from console.sql import specs

    return specs.author_of_notification
