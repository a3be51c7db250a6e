"""What counters grew by, of which brokers tell no times."""

from __future__ import annotations

import pytest

from console.alarms import counters
from console.metrics.store import connection
from tests.support.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
MINUTE_MS, NOW_MS = 60_000, 1_795_777_942_864


@pytest.fixture(autouse=True)
def nothing_noted(cast: Cast) -> None:
    connection().delete("gantry:alarms:counter:a", "gantry:alarms:counter:b")


def grown(minutes: int, number: int) -> list[counters.Change]:
    """What is known after a round so many minutes later, in which the counter stood at a number."""
    return counters.note({"a": number}, NOW_MS + minutes * MINUTE_MS)["a"]


def test_the_first_number_is_what_later_ones_are_held_against() -> None:
    assert grown(0, 500) == []
    assert grown(1, 500) == []
    assert [by for _, by in grown(2, 503)] == [3]
    found = grown(3, 510)
    assert [by for _, by in found] == [3, 7]
    assert counters.within(found, NOW_MS + 2 * MINUTE_MS, NOW_MS + 3 * MINUTE_MS) == 7
    assert counters.changes(["a", "b"], NOW_MS + 3 * MINUTE_MS) == {"a": found, "b": []}


def test_one_that_fell_has_begun_anew() -> None:
    grown(0, 500)
    assert grown(1, 2) == []
    assert [by for _, by in grown(2, 5)] == [3]


def test_after_hours_of_quiet_the_first_change_counts() -> None:
    for minutes in range(0, 300, 5):
        assert grown(minutes, 500) == []
    assert [by for _, by in grown(300, 501)] == [1]
