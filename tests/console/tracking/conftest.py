"""A change tracking task of acme's that no process captures."""

from __future__ import annotations

from typing import Any

import pytest

from console.tracking import services
from console.tracking.models import Kind, TrackingTask
from tests.support.cast import Cast

VALUES: dict[str, Any] = {
    "host": "127.0.0.1", "port": 1, "database": "shop", "user": "reader", "password": "read-it-all",
    "tables": ["public.*"],
}  # fmt: skip


@pytest.fixture
def task(cast: Cast) -> TrackingTask:
    return services.create(actor=cast.actor("alice"), name="orders", kind=Kind.POSTGRESQL, **VALUES)


def reloaded(task: TrackingTask) -> TrackingTask:
    return TrackingTask.objects.select_related("tenant").get(pk=task.pk)
