"""The allocation every client computes alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokercore.client.rebalance import allocate_averagely
from brokercore.protocol.message_queue import MessageQueue

QUEUES = [MessageQueue("t", "broker-a", number) for number in range(8)]


def numbers(clients: list[str], client: str) -> list[int]:
    return [queue.queue_id for queue in allocate_averagely(QUEUES, clients, client)]


def test_it_gives_blocks_and_the_first_clients_one_more() -> None:
    clients = ["c", "a", "b"]
    assert [numbers(clients, client) for client in "abc"] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_more_clients_than_queues_leave_some_without() -> None:
    clients = [f"{number:02}" for number in range(10)]
    assert numbers(clients, "07") == [7]
    assert numbers(clients, "08") == []


def test_a_client_that_is_no_member_gets_nothing() -> None:
    assert numbers(["a"], "stranger") == []


@given(st.integers(0, 40), st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=9))
def test_every_queue_goes_to_exactly_one_client(count: int, clients: set[str]) -> None:
    queues = [MessageQueue("t", f"broker-{number % 3}", number) for number in range(count)]
    given_out = [queue for client in clients for queue in allocate_averagely(queues, list(clients), client)]
    assert sorted(given_out) == sorted(queues)
    shares = [len(allocate_averagely(queues, list(clients), client)) for client in clients]
    assert max(shares) - min(shares) <= 1
