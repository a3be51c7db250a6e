"""Finding messages, on a real broker."""

from __future__ import annotations

import os
import time

import pytest

from console.messaging import queries
from console.messaging.queries import Source
from console.messaging.records import Position
from console.topics.models import OrderType
from console.web.errors import Refused
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast

HOUR = 3_600_000


def now_ms() -> int:
    return int(time.time() * 1000)


def wait_for_another_millisecond() -> None:
    start = now_ms()
    eventually(lambda: now_ms() > start + 2)


def test_it_finds_the_messages_of_a_range_newest_first_over_all_queues(live: Live) -> None:
    topic = live.topic(queues=4)
    ids = [live.send(topic, f"{n}".encode()).message_id for n in range(30)]
    page = queries.search_by_time(live.actor, Source.of_topic(topic), now_ms() - HOUR, now_ms() + 1000, page_size=50)
    times = [m.stored_at_ms for m in page.messages]
    assert times == sorted(times, reverse=True)
    assert {m.message_id for m in page.messages} == set(ids)
    assert (page.total, page.max_page_count, page.has_next, page.stopped_at_ms) == (30, 1, False, None)
    assert len({m.position.queue_id for m in page.messages}) == 4


def test_both_ends_of_the_range_belong_to_it(live: Live) -> None:
    topic = live.topic(queues=1)
    for n in range(3):
        live.send(topic, f"{n}".encode())
        wait_for_another_millisecond()
    source = Source.of_topic(topic)
    whole = queries.search_by_time(live.actor, source, 0, now_ms() + HOUR, newest_first=False).messages
    first, second, third = (m.stored_at_ms for m in whole)

    def bodies(begin: int, end: int) -> list[bytes]:
        return [m.body for m in queries.search_by_time(live.actor, source, begin, end, newest_first=False).messages]

    assert bodies(first, second) == [b"0", b"1"]
    assert bodies(second, second) == [b"1"]
    assert bodies(first + 1, third - 1) == [b"1"]
    assert bodies(third + 1, third + HOUR) == []
    assert bodies(first - HOUR, first - 1) == []


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_follow_each_other_without_gap_or_repeat(live: Live, newest_first: bool) -> None:
    topic = live.topic(queues=3)
    for n in range(43):
        live.send(topic, f"{n}".encode())
    source = Source.of_topic(topic)
    first = queries.search_by_time(live.actor, source, 0, now_ms() + 1000, page_size=10, newest_first=newest_first)
    assert (first.total, first.max_page_count) == (43, 5)
    pages = [first] + [queries.next_page(live.actor, source, first.task_id, n) for n in range(2, 6)]
    found = [m for page in pages for m in page.messages]
    assert sorted(int(m.body) for m in found) == list(range(43))
    times = [m.stored_at_ms for m in found]
    assert times == sorted(times, reverse=newest_first)
    assert [p.has_next for p in pages] == [True] * 4 + [False]
    again = queries.next_page(live.actor, source, first.task_id, 3)
    assert [m.position for m in again.messages] == [m.position for m in pages[2].messages]


def test_a_page_can_be_asked_for_before_the_ones_ahead_of_it(live: Live) -> None:
    topic = live.topic(queues=1)
    for n in range(25):
        live.send(topic, f"{n}".encode())
    page = queries.search_by_time(
        live.actor, Source.of_topic(topic), 0, now_ms() + 1000, page=3, page_size=10, newest_first=False
    )
    assert [int(m.body) for m in page.messages] == list(range(20, 25))


def test_it_says_where_it_stopped_and_goes_on_from_there(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = live.topic(queues=1)
    for n in range(60):
        live.send(topic, f"{n}".encode(), tags="rare" if n == 2 else "usual")
    monkeypatch.setattr(queries, "PULL_BUDGET", 2)
    source = Source.of_topic(topic)
    page = queries.search_by_time(live.actor, source, 0, now_ms() + 1000, page_size=10, wanted={"tag": "rare"})
    assert page.messages == []
    assert page.stopped_at_ms is not None
    assert page.has_next
    for number in range(2, 9):
        page = queries.next_page(live.actor, source, page.task_id, number)
        if page.messages:
            break
    assert [m.body for m in page.messages] == [b"2"]


def test_large_messages_come_newest_first_too(live: Live) -> None:
    topic = live.topic(queues=1)
    for n in range(6):
        # Random bytes do not compress, so a response of 256 KiB holds one of these messages.
        live.send(topic, bytes([n]) + os.urandom(180_000))
    page = queries.search_by_time(live.actor, Source.of_topic(topic), 0, now_ms() + 1000, page_size=5)
    assert [m.body[0] for m in page.messages] == [5, 4, 3, 2, 1]


def test_a_query_task_is_its_callers_and_its_topics(live: Live, cast: Cast) -> None:
    topic, other = live.topic(), live.topic()
    live.send(topic)
    task_id = queries.search_by_time(live.actor, Source.of_topic(topic), 0, now_ms() + 1000).task_id
    bob = cast.actor("bob")
    for actor, source, asked in [
        (bob, Source.of_topic(topic), task_id),
        (live.actor, Source.of_topic(other), task_id),
        (live.actor, Source.of_topic(topic), "unknown"),
    ]:
        with pytest.raises(Refused) as refusal:
            queries.next_page(actor, source, asked, 1)
        assert refusal.value.symbol == "BIZ_TASK_NOT_FOUND"
    with pytest.raises(Refused) as refusal:
        queries.next_page(live.actor, Source.of_topic(topic), task_id, 2)
    assert refusal.value.message == "The page is 2; allowed is 1 to 1."


def test_a_backward_range_and_a_huge_page_are_refused(live: Live) -> None:
    source = Source.of_topic(live.topic())
    with pytest.raises(Refused, match="is before its start"):
        queries.search_by_time(live.actor, source, 10, 9)
    with pytest.raises(Refused, match="A page has 5 to 50 messages"):
        queries.search_by_time(live.actor, source, 0, 9, page_size=51)


def test_it_finds_a_message_by_unique_id_and_by_offset_id(live: Live) -> None:
    topic = live.topic()
    sent = live.send(topic, b'{"n":1}', tags="DL", keys="N1 N2", properties={"shade": "blue"})
    source = Source.of_topic(topic)
    for message_id in (sent.message_id, sent.offset_message_id):
        (found,) = queries.find_by_id(source, message_id)
        assert (found.message_id, found.tag, found.keys) == (sent.message_id, "DL", ("N1", "N2"))
        assert found.position == Position("broker-a", sent.queue.queue_id, sent.queue_offset)
        assert found.properties["shade"] == "blue"
        assert found.topic == topic.name


def test_a_message_of_another_topic_is_never_shown(live: Live) -> None:
    mine, other = live.topic(), live.topic()
    sent = live.send(other)
    source = Source.of_topic(mine)
    assert queries.find_by_id(source, sent.message_id) == []
    assert queries.find_by_id(source, sent.offset_message_id) == []
    assert queries.message_at(source, Position("broker-a", 0, 0)) is None


@pytest.mark.parametrize("message_id", ["", "../../etc", "zz" * 16, "F" * 32, "0A00000100002A9F" + "0" * 16, "é" * 32])
def test_an_id_that_names_nothing_here_finds_nothing(live: Live, message_id: str) -> None:
    assert queries.find_by_id(Source.of_topic(live.topic()), message_id) == []


def test_a_key_is_matched_whole(live: Live) -> None:
    topic = live.topic()
    live.send(topic, b"1", keys="order-17 N14228")
    live.send(topic, b"2", keys="order-171")
    source = Source.of_topic(topic)
    assert [m.body for m in queries.find_by_key(source, "order-17")] == [b"1"]
    assert [m.body for m in queries.find_by_key(source, "N14228")] == [b"1"]
    assert queries.find_by_key(source, "order-1") == []
    assert queries.find_by_key(source, "order-17", 0, 1000) == []


def test_of_many_messages_with_one_key_the_64_newest_are_found(live: Live) -> None:
    topic = live.topic(queues=1)
    for n in range(70):
        live.send(topic, f"{n}".encode(), keys="same")
    assert [int(m.body) for m in queries.find_by_key(Source.of_topic(topic), "same")] == list(range(69, 5, -1))


def test_a_delayed_message_tells_when_it_was_to_be_delivered(live: Live) -> None:
    topic = live.topic(OrderType.DELAYED)
    due = now_ms() + 1500
    sent = live.send(topic, b"later", deliver_at_ms=due)
    source = Source.of_topic(topic)
    found = eventually(lambda: queries.find_by_id(source, sent.message_id))
    assert found[0].deliver_at_ms == due
    assert found[0].stored_at_ms >= due - 1000
