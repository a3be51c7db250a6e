"""What is in flight of one queue."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brokercore.server.pop.in_flight import Flight, QueueState


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20))))
def test_everything_below_the_first_message_in_flight_is_done(changes: list[tuple[bool, int]]) -> None:
    state = QueueState(100)
    for begins, offset in changes:
        if begins:
            state.add(offset, Flight(0, 0, 0))
        else:
            state.flights.pop(offset, None)
        assert state.done_before == min(state.flights, default=100)


_CHANGES = st.lists(st.tuples(st.sampled_from(("add", "end", "done", "look")), st.integers(0, 12), st.integers(0, 30)))


@given(_CHANGES)
def test_what_is_due_is_what_a_look_at_every_flight_would_find(changes: list[tuple[str, int, int]]) -> None:
    state, now = QueueState(100), 0
    for change, offset, moment in changes:
        if change == "add":
            state.add(offset, Flight(moment, 0, 0))
        elif change == "end" and offset in state.flights:
            state.end_at(offset, moment)
        elif change == "done":
            state.flights.pop(offset, None)
        else:
            now = max(now, moment)
        due = sorted(offset for offset, flight in state.flights.items() if flight.visible_ms <= now)
        assert state.due(now, 3) == due[:3]
        assert state.due(now, 100) == due
        assert state.is_due(now) is bool(due)
        assert state.are_all_due(now) is (len(due) == len(state.flights))
        times = [flight.visible_ms for flight in state.flights.values()]
        expected = now if due else min(times, default=None)
        assert state.next_due_ms(now) == expected


_DELIVERIES = st.lists(st.tuples(st.sampled_from(("acknowledge", "lose", "look")), st.integers(0, 9)))


@given(_DELIVERIES)
def test_what_was_given_out_in_order_is_done_when_all_before_it_is(changes: list[tuple[str, int]]) -> None:
    state, lost, done = QueueState(10), set[int](), set[int]()
    for offset in range(10):
        state.add(offset, Flight(50, 0, 0, ordered=True))
    for change, offset in changes:
        if change == "acknowledge" and offset in state.flights and not state.wait_for_earlier(offset):
            state.end([offset])
        elif change == "lose":
            state.end([offset])
            lost.add(offset)
        done |= {offset} if change == "acknowledge" else set()
        left = set(range(10)) - lost - done
        first = min(left, default=10)
        assert set(state.flights) == {offset for offset in range(first, 10) if offset not in lost}
        assert state.done_before == first
        assert state.are_all_due(49) is (not left)
        assert state.due(50, 100) == sorted(state.flights)


def test_who_pops_in_order_looks_again_only_when_what_holds_it_up_is_visible() -> None:
    state = QueueState(2)
    state.add(0, Flight(10, 0, 0, ordered=True))
    state.add(1, Flight(90, 0, 0, ordered=True))
    assert (state.next_due_ms(20), state.next_due_ms(20, ordered=True)) == (20, 90)
    assert state.next_due_ms(90, ordered=True) == 90


def test_looking_for_what_is_due_does_not_touch_what_is_in_flight() -> None:
    """A million messages in flight cost a look no more than a few."""

    class Counting(dict[int, Flight]):
        looked = 0

        def get(self, *arguments: Any) -> Any:
            Counting.looked += 1
            return super().get(*arguments)

        def _refused(self) -> Any:
            raise AssertionError("every flight was looked at")

        __iter__ = items = values = keys = _refused

    state = QueueState(10_000, Counting())
    for offset in range(10_000):
        state.add(offset, Flight(offset, 0, 0))
    assert state.due(4_999, 32) == list(range(32))
    Counting.looked = 0
    assert state.due(4_999, 32) == list(range(32))
    assert state.next_due_ms(4_999) == 4_999
    assert not state.are_all_due(4_999)
    assert Counting.looked < 200


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    state = QueueState(100)
    state.add(1, Flight(50, 0, 0))
    assert state.due(60, 10) == [1]
    assert state.due(40, 10) == []
    assert state.next_due_ms(40) == 50
    assert state.due(60, 10) == [1]
