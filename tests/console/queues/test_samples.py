"""What is counted of queues over time, at a running service and in a real Redis."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.urls import reverse

from brokercore.smq.client import QueueClient
from console.queues import samples
from console.queues.samples import Counted, Point, Rates
from console.queues.views import counters_figure
from console.web.redis import connection
from tests.support.cast import Cast


class Clock:
    """Epoch seconds, which stand until the test turns them."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, acmes: QueueClient) -> Clock:
    """The sampler's clock, a while after the queue `orders` was made; and no samples of other tests."""
    acmes.create_queue("orders")
    clock = Clock(acmes.queue("orders").created + 10.0)
    monkeypatch.setattr(samples, "time", clock)
    redis: Any = connection(2)
    for key in redis.scan_iter("gantry:queues:*"):
        redis.delete(key)
    return clock


def take(cast: Cast) -> int:
    """A sample; the lease of the one before has ended."""
    connection(2).delete("gantry:queues:lease")
    return samples.sample([cast.acme])


def test_rates_are_what_came_and_went_between_two_samples(cast: Cast, acmes: QueueClient, clock: Clock) -> None:
    assert take(cast) == 1
    assert samples.rates(cast.acme, ["orders"]) == {}
    for _ in range(6):
        acmes.send("orders", b"x")
    acmes.receive("orders", most=3)
    clock.now += 30
    take(cast)
    assert samples.rates(cast.acme, ["orders", "none"]) == {"orders": Rates(0.2, 0.1), "none": Rates()}
    clock.now += 30
    take(cast)
    assert samples.rates(cast.acme, ["orders"]) == {"orders": Rates(0.0, 0.0)}
    clock.now += samples.GAP_SECONDS + 1
    assert samples.rates(cast.acme, ["orders"]) == {}


def test_the_curve_has_a_point_a_sample_and_gaps_where_there_was_none(
    cast: Cast, acmes: QueueClient, clock: Clock
) -> None:
    begin = int(clock.now)
    take(cast)
    acmes.send("orders", b"x")
    acmes.send("orders", b"y", delay_s=900)
    clock.now += 30
    take(cast)
    clock.now += 30
    take(cast)
    clock.now += 600
    take(cast)
    assert samples.curve(cast.acme, acmes.queue("orders"), 3600) == [
        Point(begin, 0, 0, 0),
        Point(begin + 30, 1, 0, 1, 2 / 30, 0.0),
        Point(begin + 60, 1, 0, 1, 0.0, 0.0),
        Point(begin + 90),
        Point(begin + 660, 1, 0, 1),
    ]
    shown = cast.client("alice").get(reverse("queues.statistics", args=["orders"])).content.decode()
    assert "no sample" in shown and 'data-chart="counters"' in shown and 'data-chart="flow"' in shown


def test_a_queue_of_the_same_name_begins_anew(cast: Cast, acmes: QueueClient, clock: Clock) -> None:
    acmes.send("orders", b"x")
    state = acmes.queue("orders")
    take(cast)
    clock.now += 30
    assert len(samples.curve(cast.acme, state, 3600)) == 1
    assert samples._points([10, 40], [Counted(10, 1, 0, 0, 5, 2), Counted(40, 0, 0, 0, 0, 0)], 180) == [
        Point(10, 1, 0, 0),
        Point(40, 0, 0, 0),
    ]


def test_of_two_workers_one_samples(cast: Cast, acmes: QueueClient, clock: Clock) -> None:
    assert take(cast) == 1
    assert samples.sample([cast.acme]) == 0


def test_a_long_curve_is_thinned(cast: Cast, acmes: QueueClient, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_POINTS", 3)
    begin = int(clock.now)
    for number in range(6):
        clock.now = begin + 30 * number
        take(cast)
        acmes.send("orders", b"x")
    points = samples.curve(cast.acme, acmes.queue("orders"), 3600)
    assert [(point.at - begin, point.active, point.sent_rate) for point in points] == [
        (30, 1, None),
        (90, 3, 2 / 60),
        (150, 5, 2 / 60),
    ]


def test_a_figure_spans_the_whole_range_and_marks_a_single_sample() -> None:
    figure = counters_figure([Point(1_800_000_000, 3, 2, 1)], 3600)
    assert [(line["name"], line["y"], line["mode"]) for line in figure["data"]] == [
        ("active", [3], "lines+markers"),
        ("hidden", [2], "lines+markers"),
        ("delayed", [1], "lines+markers"),
    ]
    begin, end = (datetime.fromisoformat(text) for text in figure["layout"]["xaxis"]["range"])
    assert (end - begin).total_seconds() == 3600
