"""The flights that `manage.py traffic` replays."""

from __future__ import annotations

import itertools
import json

from console.messaging.flights import flights


def test_the_first_flight_is_united_1545() -> None:
    first = next(flights())
    assert (first.tail_number, first.carrier, first.cancelled) == ("N14228", "UA", False)
    fields = json.loads(first.body())
    assert fields["flight"] == 1545
    assert fields["time_hour"].startswith("2013-01-01")


def test_a_missing_value_is_null() -> None:
    cancelled = next(f for f in itertools.islice(flights(), 2000) if f.cancelled)
    fields = json.loads(cancelled.body())
    assert fields["dep_time"] is None
    assert fields["air_time"] is None


def test_all_flights_of_the_year_are_there() -> None:
    assert sum(1 for _ in flights()) == 336_776
