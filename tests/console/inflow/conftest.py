"""A source of acme's with changes, topics for them, and a task."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics import lake
from analytics.inflow.event_log import EventLog
from console.catalog.models import Bucket
from console.inflow import services
from console.inflow.providers.changes import EXAMPLE
from console.pipelines import event_logs, queries
from console.pipelines import services as pipelines
from console.pipelines.models import Kind, Pipeline
from tests.console.inflow.folders import FoldersOfTheLake
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_topic

SOURCE = "dtsorders0001"


def change(number: int, table: str = "orders") -> dict[str, Any]:
    """A change of a table, the number is its primary key."""
    data = EXAMPLE["data"] | {"tableName": table, "primaryKey": {"id": number}, "position": f"bin.1:{number}"}
    return EXAMPLE | {"id": f"e{number}", "subject": f"shop.{table}", "data": data}


def append(log: EventLog, *events: dict[str, Any]) -> None:
    """As the capturing process does; the event with the number n at n s."""
    log.append(
        (one["data"]["position"], one["data"]["primaryKey"]["id"] * 1000, json.dumps(one).encode()) for one in events
    )


def document(cast: Cast, **parts: Any) -> dict[str, Any]:
    """A whole task from the source to the topic order_changes, with other parts."""
    whole: dict[str, Any] = {
        "name": "orders-to-topic",
        "source": {"task": SOURCE, "group": SOURCE, "messages": 200, "interval": 0},
        "pattern": {"data": {"tableName": ["orders"]}},
        "sink": {
            "topic": "order_changes",
            "instanceID": cast.instance.instance_id,
            "key": {"method": "data_extraction", "path": "$.data.primaryKey.id"},
        },
    }
    return whole | parts


@pytest.fixture(autouse=True)
def no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes the message of a start, for which it would wait seconds."""
    monkeypatch.setattr(pipelines, "hand_over", lambda: None)


@pytest.fixture
def log(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLog]:
    """The event log of the source, with two changes."""
    monkeypatch.setattr(event_logs.sources, "_given", FoldersOfTheLake())
    Bucket.objects.create(tenant=cast.acme, name="acme-logs")
    folder = Path(lake.lake_path(f"oss://acme-logs/event-logs/{SOURCE}/"))
    shutil.rmtree(folder, ignore_errors=True)  # of the test before
    folder.parent.mkdir(parents=True, exist_ok=True)
    with EventLog(folder) as log:
        append(log, change(1), change(2, "customers"))
        yield log


@pytest.fixture
def topics(cast: Cast, broker: BrokerProcess) -> None:
    for name in ("order_changes", "order_changes_dead"):
        make_topic(cast.alice, cast.instance, name)


@pytest.fixture
def task(cast: Cast, log: EventLog, topics: None) -> Pipeline:
    """Made, and not started."""
    services.create(actor=cast.actor("alice"), document=document(cast), start=False)
    return reloaded(cast)


def reloaded(cast: Cast, name: str = "orders-to-topic") -> Pipeline:
    found = queries.pipeline(cast.acme, Kind.INFLOW, name)
    assert found is not None
    return found
