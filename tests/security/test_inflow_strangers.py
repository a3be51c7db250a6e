"""Another account's things in the documents of inflow tasks are answered like things that are not there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from analytics.inflow.event_log import EventLog
from analytics.inflow.segments import NewEntry
from console.catalog.models import ExternalTable, Schema
from console.inflow import services
from console.pipelines import event_logs
from console.pipelines import services as pipelines
from console.tracking import services as tracking
from console.tracking.models import Kind, TrackingTask
from console.web.errors import Refused
from tests.console.inflow.conftest import log, no_message, topics
from tests.console.tracking.conftest import VALUES
from tests.support.cast import Cast, make_topic

__all__ = ["log", "no_message", "topics"]
pytestmark = pytest.mark.process
#: Of the same shapes as acme's, and nobody's.
NOBODYS = {"task": "dtszzzzzzzzzz", "instance": "MQ_INST_1234567890123456_zzzzzzzz", "bucket": "nobodys-logs"}
KINDS = (
    "change tracking task", "log of the platform", "log in a bucket", "topic read", "topic written", "other topics",
    "dead letters", "dead letters beside a queue", "table of a query", "secret of a header",
)  # fmt: skip


@pytest.fixture
def theirs(cast: Cast, log: EventLog, topics: None) -> dict[str, str]:
    """What acme has, by what a document calls it."""
    made = tracking.create(actor=cast.actor("alice"), name="orders", kind=Kind.POSTGRESQL, **VALUES)
    tracking.create_group(
        actor=cast.actor("alice"), task=made, name="readers", account="reader", password="read-it-all"
    )
    schema = Schema.objects.create(tenant=cast.acme, name="acme_only")
    ExternalTable.objects.create(
        schema=schema, name="customers", location="oss://acme-logs/c/", columns=[{"name": "id", "type": "int"}]
    )
    pipelines.set_secret(actor=cast.actor("alice"), name="token", value="of-acme")
    make_topic(cast.users["charlie"], cast.charlies, "order_changes")
    return {
        "task": made.task_id, "instance": cast.instance.instance_id, "bucket": "acme-logs", "uid": str(cast.acme.uid),
        "schema": "acme_only", "secret": "token",
    }  # fmt: skip


def asked(cast: Cast, kind: str, ids: dict[str, str]) -> dict[str, Any]:
    """A task of Charlie's, all of whose parts but one are his own or need nothing."""
    sink = {"topic": "order_changes", "instanceID": cast.charlies.instance_id}
    whole: dict[str, Any] = {"name": "mine", "source": {"kind": "webhook"}, "sink": sink}
    endpoint = {
        "kind": "http",
        "url": "https://events.example.com/",
        "headers": {"x-key": f"${{secret_values.{ids['secret']}}}"},
    }
    parts: dict[str, dict[str, Any]] = {
        "change tracking task": {"source": {"task": ids["task"], "group": "readers"}},
        "log of the platform": {"source": {"log": f"oss://gantry-tracking/{ids['uid']}/{ids['task']}/"}},
        "log in a bucket": {"source": {"log": f"oss://{ids['bucket']}/event-logs/x/"}},
        "topic read": {
            "source": {"kind": "topic", "topic": "order_changes", "instanceID": ids["instance"], "group": "GID_mine"}
        },
        "topic written": {"sink": sink | {"instanceID": ids["instance"]}},
        "other topics": {"sink": sink | {"routes": ["order_changes_dead"]}},
        "dead letters": {"deadLetterTopic": "order_changes_dead"},
        "dead letters beside a queue": {
            "sink": endpoint | {"headers": {}},
            "deadLetterTopic": "order_changes_dead", "deadLetterInstance": ids["instance"],
        },
        "table of a query": {
            "transform": {"kind": "sql", "sql": f"select c.id from events e, {ids['schema']}.customers c"}
        },
        "secret of a header": {"sink": endpoint},
    }  # fmt: skip
    return whole | parts[kind]


def refusal(cast: Cast, told: dict[str, Any], ids: dict[str, str]) -> tuple[str, str, str]:
    """How Charlie is refused, without the names that he gave himself."""
    with pytest.raises((Refused, PermissionDenied)) as refused:
        services.create(actor=cast.actor("charlie"), document=told)
    symbol, message = getattr(refused.value, "symbol", "denied"), str(refused.value)
    for name in sorted(ids.values(), key=len, reverse=True):
        message = message.replace(name, "…")
    return symbol, message, getattr(refused.value, "field", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_does_not_tell_whether_another_account_has_it(
    cast: Cast, theirs: dict[str, str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.undo()  # the sources of the product
    nobodys = {"uid": "9999999999999999", "schema": "nobodys", "secret": "nobodys"} | NOBODYS
    found = refusal(cast, asked(cast, kind, theirs), theirs)
    assert found == refusal(cast, asked(cast, kind, nobodys), nobodys)


def test_no_journey_shows_events_of_another_account(
    cast: Cast, theirs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    task = TrackingTask.objects.select_related("tenant").get()
    with EventLog(task.folder, 1) as kept:
        event = {"id": "1", "subject": "public.orders", "data": {"operation": "INSERT", "after": {"name": "of acme's"}}}
        kept.append([NewEntry("0/1", 1000, json.dumps(event).encode())])
    assert event_logs.sources.get().source(cast.actor("alice"), task.task_id) is not None
    form = {"source": task.task_id, "group": f"{task.task_id}/readers", "messages": "1", "interval": "0"}
    shown = {
        who: cast.client(who).post(reverse("inflow.journey"), form).content.decode() for who in ("alice", "charlie")
    }
    assert "of acme&#x27;s" in shown["alice"]
    assert "of acme" not in shown["charlie"]
