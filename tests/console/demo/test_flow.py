"""The demo's database, the tasks that read it, and the traffic that changes it, on a real PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.accounts.crypto import decrypt
from console.demo import flow
from console.inflow import queries as inflow
from console.messaging import flight_rows
from console.messaging.flight_rows import Place, RowFeeder
from console.pipelines.models import Kind, Pipeline
from console.topics.models import OrderType, Topic
from console.tracking import services as tracking
from console.tracking.models import ConsumerGroup, State, TrackingTask
from tests.console.live import Live
from tests.support.postgres import embedded_binaries, postgres_server
from tests.support.product import eventually, free_ports

pytestmark = pytest.mark.postgres
#: Those of January.
ROWS = 27_004


@pytest.fixture(scope="module")
def server() -> Iterator[Place]:
    with postgres_server("wal_level=logical", programs=embedded_binaries()) as running:
        running.stop()
        (running.port,) = free_ports(1)
        running.run("listen_addresses=127.0.0.1")
        place = Place("127.0.0.1", running.port, "demo", "gantry", "flights-of-2013")
        with replace(place, database="postgres").connect() as connection:
            connection.execute("CREATE DATABASE demo")
        yield place


@pytest.fixture
def place(server: Place, settings: Any, tmp_path: Path) -> Place:
    """The database without its table, and the settings of a copy that has it."""
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS flights")
    settings.DEMO_PORT, settings.SECRETS = server.port, tmp_path
    (tmp_path / "demo_database_password").write_text(f"{server.password}\n")
    return server


def count(place: Place) -> int:
    with place.connect() as connection:
        (found,) = connection.execute("SELECT count(*) FROM flights").fetchone() or (0,)
        return int(found)


def test_the_table_is_filled_once(place: Place) -> None:
    assert flight_rows.ensure_table(place)
    assert count(place) == ROWS
    with place.connect() as connection:
        first = connection.execute("SELECT id, carrier, dep_time, tailnum, dest FROM flights ORDER BY id").fetchone()
        assert first == (1, "UA", 517, "N14228", "IAH")
        (cancelled,) = connection.execute("SELECT count(*) FROM flights WHERE dep_time IS NULL").fetchone() or (0,)
        assert cancelled == 521
        connection.execute("DELETE FROM flights WHERE id < 10")
    assert not flight_rows.ensure_table(place)
    assert count(place) == ROWS - 9


def test_traffic_changes_rows_of_every_kind_and_goes_on_after_an_outage(place: Place) -> None:
    flight_rows.ensure_table(place)
    counts: Counter[str] = Counter()
    feeder = RowFeeder(place, lambda what: counts.update([what]))
    for _ in range(50):
        feeder.feed()
    eventually(lambda: counts["rows changed"] == 50)
    with place.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'demo' AND pid <> pg_backend_pid()"
        )
    feeder.feed()
    eventually(lambda: counts["rows not changed"] > 0)
    for _ in range(50):
        feeder.feed()
    feeder.close()
    assert counts["rows changed"] + counts["rows not changed"] == 101
    with place.connect() as connection:
        rows = connection.execute("SELECT count(*), min(id), max(id) FROM flights").fetchone()
    # What an outage takes is one of them at most, of whichever kind.
    assert rows is not None
    total, first, last = rows
    assert first - 1 in range(19, 22)
    assert last - ROWS in range(19, 22)
    assert abs(total - ROWS) <= 1


def test_the_tasks_are_made_once_and_only_tracking_starts(place: Place, live: Live) -> None:
    flow.ensure(live.actor, live.instance, flow.place())
    task = TrackingTask.objects.get(name="flights")
    assert (task.state, task.port, task.patterns) == (State.STARTING, place.port, ["public.flights"])
    assert decrypt(task.password_encrypted) == place.password
    made = Pipeline.objects.get(kind=Kind.INFLOW, name="flight-changes")
    assert inflow.state_of(made) == "Not started"
    assert made.version is not None
    assert ConsumerGroup.objects.get(task=task).holder == f"inflow-{made.pk}"
    topic = Topic.objects.get(instance=live.instance, name="flight-changes")
    assert OrderType(topic.order_type) == OrderType.PARTITIONALLY_ORDERED
    flow.ensure(live.actor, live.instance, flow.place())
    assert TrackingTask.objects.count() == Pipeline.objects.count() == 1


def test_a_task_follows_its_database_to_another_port_and_to_a_new_beginning(place: Place, live: Live) -> None:
    flow.ensure(live.actor, live.instance, flow.place())
    TrackingTask.objects.update(position="0/16B3748", state=State.NORMAL)
    moved = Place(place.host, place.port + 1, place.database, place.user, "another one")
    flow.mend(live.actor, moved, is_new=False)
    task = TrackingTask.objects.get()
    assert (task.port, decrypt(task.password_encrypted), task.begins_anew) == (moved.port, "another one", False)
    flow.mend(live.actor, moved, is_new=True)
    assert TrackingTask.objects.get().begins_anew
    # Of one that somebody has made something else of nothing is touched.
    tracking.change(actor=live.actor, task=task, host="db.example.com", password="mine", port=5432)
    flow.mend(live.actor, moved, is_new=True)
    assert TrackingTask.objects.get().port == 5432
