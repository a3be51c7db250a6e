"""`manage.py traffic` on a real broker."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from brokercore.client import Credentials
from brokercore.smq.client import QueueClient
from console.messaging import dead_letters, queries
from console.messaging.flights import Flight, flights
from console.messaging.queries import FOREVER_MS, Source
from console.messaging.traffic import Progress, QueueFeeder, Sender, Target, consumers, refuses, replay
from console.topics.models import Group, OrderType, Topic
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group
from tests.support.queue_service import queue_service

TOPICS = {
    "flights": OrderType.NORMAL, "flights-fifo": OrderType.PARTITIONALLY_ORDERED,
    "bookings-tx": OrderType.TRANSACTIONAL, "reminders": OrderType.DELAYED,
}  # fmt: skip


@pytest.fixture
def demo(live: Live, cast: Cast) -> tuple[Target, dict[str, Topic], Group]:
    made = {name: live.topic(order_type, queues=8, name=name) for name, order_type in TOPICS.items()}
    groups = [
        make_group(cast.alice, live.instance, g) for g in ("GID_flights", "GID_fifo", "GID_bookings", "GID_reminders")
    ]
    target = Target(live.instance.cluster.namesrv, live.instance.instance_id, "GID_flights", live.credentials)
    return target, made, groups[0]


def stored(live: Live, topic: Topic) -> int:
    return queries.search_by_time(live.actor, Source.of_topic(topic), 0, FOREVER_MS - 1).total


def test_it_sends_a_mix_and_lets_some_flights_die(live: Live, demo: tuple[Target, dict[str, Topic], Group]) -> None:
    target, topics, group = demo
    chosen = list(itertools.islice(flights(), 100))
    chosen[0] = Flight(chosen[0].fields | {"dep_time": None})
    progress = Progress()
    lines: list[str] = []
    running = consumers(target, progress)
    for push in running:
        push.start()
    sender = Sender(target, progress)
    try:
        replay(
            sender, iter(chosen), progress, rate=2000, seconds=None, count=None, stop=threading.Event(),
            report=lines.append, report_every_s=0.01,
        )  # fmt: skip
        assert dict(progress.sent) == {"flights": 60, "flights-fifo": 20, "bookings-tx": 8, "reminders": 10}
        assert progress.counts["rolled back"] == 2
        eventually(lambda: stored(live, topics["bookings-tx"]) == 8)
        eventually(lambda: stored(live, topics["reminders"]) == 10, 40)
        assert stored(live, topics["flights"]) == 60
        letter = eventually(lambda: dead_letters.search(live.actor, group, 0, FOREVER_MS - 1), 40)
        assert json.loads(letter.messages[0].body)["dep_time"] is None
        assert letter.messages[0].tag == chosen[0].carrier
        assert lines
        assert lines[-1].startswith("sent ")
    finally:
        sender.close()
        for push in running:
            push.shutdown()


def test_it_stops_at_its_count_and_when_told(live: Live, demo: tuple[Target, dict[str, Topic], Group]) -> None:
    target = demo[0]
    progress, stop = Progress(), threading.Event()
    sender = Sender(target, progress)
    options: dict[str, Any] = {"rate": 2000, "seconds": None, "stop": stop, "report": lambda line: None}
    try:
        replay(sender, flights(), progress, count=3, **options)
        assert sum(progress.sent.values()) == 3
        stop.set()
        replay(sender, flights(), progress, count=3, **options)
        assert sum(progress.sent.values()) == 4
    finally:
        sender.close()


def test_the_consumer_fails_on_cancelled_and_very_late_flights() -> None:
    assert refuses({"dep_time": None, "dep_delay": None})
    assert refuses({"dep_time": 517, "dep_delay": 180})
    assert not refuses({"dep_time": 517, "dep_delay": 179})
    assert not refuses({"dep_time": 517, "dep_delay": None})


def test_without_a_running_copy_it_says_what_to_do(settings: Any, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    with pytest.raises(CommandError, match="start Gantry with `make up` first"):
        call_command("traffic")
    (tmp_path / "demo.json").write_text("{}")
    with pytest.raises(CommandError, match="cannot be used"):
        call_command("traffic")
    with pytest.raises(CommandError, match="--rate is 0; allowed is more than 0"):
        call_command("traffic", rate=0.0)


@pytest.mark.process
def test_the_same_flights_come_into_a_queue_and_a_lost_service_holds_nothing_up() -> None:
    chosen = list(itertools.islice(flights(), 40))
    progress = Progress()
    with queue_service() as service:
        keys = service.keys("traffic")
        target = Target("", "", "", Credentials(keys.id, keys.secret), service.address)
        feeder = QueueFeeder(target, progress)
        for flight in chosen[:30]:
            feeder.feed(flight)
        feeder.close()
        client = QueueClient(service.address, keys.id, keys.secret)
        assert client.queue("flights").active == 30
        assert client.peek("flights")[0].body == chosen[0].body()
        client.set_attributes("flights", {"VisibilityTimeout": 60})
        feeder = QueueFeeder(target, progress)
        feeder.feed(chosen[30])
        feeder.close()
        assert client.queue("flights").active == 31
        feeder = QueueFeeder(target, progress)
        service.kill()
        for flight in chosen[31:]:
            feeder.feed(flight)
        feeder.close()
    assert progress.counts == {"queued": 31, "not queued": 9}
