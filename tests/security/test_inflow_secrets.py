"""Passwords of databases and groups, secrets of sinks and tokens of webhooks are on no page and in no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from analytics.inflow.changes import CaptureFailed
from console.audit.models import Entry
from console.feeds.middleware import PREFIX
from console.inflow import services
from console.openapi.operations import OPERATIONS
from console.pipelines import lifecycle as pipelines_lifecycle
from console.pipelines import services as pipelines
from console.tracking import lifecycle
from console.tracking import services as tracking
from console.tracking.models import Kind, TrackingTask
from tests.console.inflow.conftest import no_message
from tests.console.openapi.caller import Caller
from tests.console.tracking.conftest import VALUES
from tests.support.cast import Cast

__all__ = ["no_message"]
pytestmark = pytest.mark.process
SECRETS = {"database": "pw-of-the-database", "group": "pw-of-the-group", "sink": "value-of-the-secret"}
SINK: dict[str, Any] = {
    "kind": "http", "url": "https://events.example.com/in",
    "headers": {"authorization": "Bearer ${secret_values.token}"},
}  # fmt: skip
PAGES = [
    *((f"inflow.{one}", "hook") for one in ("detail", "live", "update", "statistics", "log", "versions", "delete")),
    ("inflow.list", ""), ("inflow.version", "version"), ("inflow.enable", "hook"), ("inflow.create", ""),
    ("audit.list", ""),
    *((f"tracking.{one}", "task") for one in ("detail", "live", "events", "update", "delete", "group_create")),
    ("tracking.list", ""),
]  # fmt: skip
ANSWERS = [
    "inflow/get", "inflow/versions", "inflow/version", "inflow/events", "inflow/log", "inflow/statistics",
    "inflow/list", "inflow/test", "tracking/list", "tracking/get", "tracking/check", "tracking/events",
    "tracking/groups",
]  # fmt: skip


@pytest.fixture
def told(cast: Cast) -> dict[str, str]:
    """Everything secret that a task knows; by its name. One task has failed, and said so."""
    alice = cast.actor("alice")
    task = tracking.create(
        actor=alice, name="orders", kind=Kind.POSTGRESQL, **VALUES | {"password": SECRETS["database"]}
    )
    tracking.create_group(actor=alice, task=task, name="g", account="a", password=SECRETS["group"])
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    lifecycle.fail(lease, CaptureFailed("The password of reader is wrong.", "PASSWORD_WRONG"))
    pipelines.set_secret(actor=alice, name="token", value=SECRETS["sink"])
    hook = {"name": "hook", "source": {"kind": "webhook", "signature": "x-signature"}, "sink": SINK}
    made = services.create(actor=alice, document=hook)
    path, key = services.new_webhook(actor=alice, pipeline=made)
    run = pipelines_lifecycle.claim(made.pk, "one")
    assert run is not None
    pipelines_lifecycle.run(run)
    assert path.startswith(PREFIX) and key
    return SECRETS | {"address": path.removeprefix(PREFIX), "key": key}


def test_no_page_shows_one(cast: Cast, told: dict[str, str]) -> None:
    task = TrackingTask.objects.get()
    arguments: dict[str, list[Any]] = {"": [], "hook": ["hook"], "version": ["hook", 1], "task": [task.task_id]}
    for name, what in PAGES:
        own = [] if name.endswith(".list") else arguments[what]
        response = cast.client("alice").get(reverse(name, args=own))
        assert response.status_code == 200, name
        content = response.content.decode()
        assert [secret for secret, value in told.items() if value in content] == [], name


def test_no_answer_and_no_record_tells_one(cast: Cast, told: dict[str, str]) -> None:
    alice, task = Caller.of(cast.alice), TrackingTask.objects.get()
    document = json.dumps({"name": "hook", "source": {"kind": "webhook"}, "sink": SINK})
    for path in ANSWERS:
        given = {"task": task.task_id if path.startswith("tracking") else "hook", "version": "1", "document": document}
        fields = set(OPERATIONS[path].parameters.model_fields) - ({"task"} if path.endswith("/list") else set())
        answer = alice(path, **{name: value for name, value in given.items() if name in fields})
        assert answer["code"] == 200, (path, answer)
        assert [secret for secret, value in told.items() if value in json.dumps(answer)] == [], path
    records = json.dumps(list(Entry.objects.values()), default=str)
    assert "tracking.task.create" in records
    assert [secret for secret, value in told.items() if value in records] == []
