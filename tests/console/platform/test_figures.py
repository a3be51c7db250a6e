"""What the console tells Prometheus: what waits, and what the processes have counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
from django.utils import timezone
from prometheus_client import CollectorRegistry

from console.outbox.models import Notification, NotificationStatus
from console.platform import figures
from console.web.figures import RESPONSES, VIEW_SECONDS
from tests.support.cast import Cast
from tests.support.redis_server import redis_server

pytestmark = pytest.mark.django_db


def value(name: str, **labels: str) -> float | None:
    """A figure as it is now."""
    registry = CollectorRegistry()
    registry.register(figures.Installation())
    return registry.get_sample_value(name, labels)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Redis is not where Celery's queues are looked for."""
    monkeypatch.setattr(figures, "redis_url", lambda _: "unix:///nonexistent/redis.sock")
    yield


def test_what_waits_in_the_outbox_is_counted_with_its_age(cast: Cast) -> None:
    assert value("gantry_outbox_waiting") == 0
    assert value("gantry_outbox_oldest_seconds") == 0
    now = timezone.now()
    due = Notification.objects.create(tenant=cast.acme, notify_by="ons", key="a", body="", due_at=now)
    Notification.objects.filter(pk=due.pk).update(created_at=now - timedelta(minutes=5))
    Notification.objects.create(tenant=cast.acme, notify_by="ons", key="b", body="", due_at=now + timedelta(hours=1))
    failed = NotificationStatus.FAILURE
    Notification.objects.create(tenant=cast.acme, notify_by="ons", key="c", body="", due_at=now, status=failed)
    assert value("gantry_outbox_waiting") == 2
    assert value("gantry_outbox_failed") == 1
    age = value("gantry_outbox_oldest_seconds")
    assert age is not None
    assert 300 <= age < 400


def test_tasks_that_wait_for_a_worker_are_counted_by_queue(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server() as store:
        monkeypatch.setattr(figures, "redis_url", lambda database: f"{store.url}?db={database}")
        with redis.Redis.from_url(f"{store.url}?db=1") as celery:
            celery.lpush("pipelines", "one", "two")
        assert value("gantry_celery_waiting", queue="pipelines") == 2
        assert value("gantry_celery_waiting", queue="default") == 0
        assert value("gantry_console_ready") == 1


@pytest.mark.usefixtures("away")
def test_an_outage_is_told_and_the_rest_is_still_there(cast: Cast) -> None:
    assert value("gantry_console_ready") == 0
    assert value("gantry_celery_waiting", queue="default") is None
    assert value("gantry_sql_tasks", state="queued") == 0


def test_answers_are_counted_by_view_and_never_by_what_a_client_asked_for(cast: Cast) -> None:
    def answered() -> dict[tuple[str, ...], float]:
        return {
            tuple(sample.labels.values()): sample.value
            for metric in RESPONSES.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }

    before = answered()
    client = cast.client("alice")
    client.get("/topics-of-nobody-4711/")
    client.get("/healthz")
    new = {labels: count - before.get(labels, 0) for labels, count in answered().items()}
    assert new["none", "404"] == 1
    assert new["health", "200"] == 1
    assert not [labels for labels in new if "4711" in str(labels)]
    assert any(s.labels == {"view": "health"} for m in VIEW_SECONDS.collect() for s in m.samples)
