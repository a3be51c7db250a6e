"""The messages of a topic as they come, on a real broker: nothing missed, nothing left behind, bounded."""

from __future__ import annotations

import os
import re
import time

import pytest
from django.urls import reverse

from brokercore.client.filtering import MessageFilter
from console.messaging import tail
from console.messaging.queries import Source
from console.topics.models import Topic
from tests.console.live import Live
from tests.support.cast import Cast

ALL = tail.Filter(MessageFilter())


def source(topic: Topic) -> Source:
    return Source.of_topic(topic)


def asked(cast: Cast, who: str, topic: Topic, **query: str) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of one question of the page."""
    url = reverse("messaging.live_news", args=[topic.instance.instance_id, topic.name])
    answer = cast.client(who).get(url, query, headers={"HX-Request": "true"})
    return answer.status_code, answer.content.decode(), dict(answer.headers)


def rows_of(text: str) -> list[list[str]]:
    """What the page makes of an answer (static/js/tail.js): time, id, position, tag, keys and body of each message."""
    rows: list[list[str]] = []
    at, identity, above = 0, "", [""] * 4
    offsets: dict[str, int] = {}

    def shared(before: str, cell: str) -> str:
        return before[: ord(cell[0]) - ord("0")] + cell[1:]

    for line in filter(None, text.split("\n")):
        back, number, *cells = line.split("\t")
        at -= int(back)
        counted = number.startswith("-")
        identity = f"{int(identity, 16) - int(number[1:], 16):032X}" if counted else shared(identity, number)
        above = [shared(*pair) for pair in zip(above, cells, strict=True)]
        broker, queue, *offset = above[0].split(":")
        name = f"{broker}:{queue}"
        offsets[name] = int(offset[0]) if offset else offsets[name] - 1
        rows.append([str(at), identity, f"{name}:{offsets[name]}", *above[1:]])
    return rows


def test_what_comes_is_told_once_newest_first_and_a_pause_misses_nothing(live: Live) -> None:
    topic = live.topic(queues=3)
    live.send(topic, b"before")
    place = tail.end_of(source(topic))
    for number in range(7):
        live.send(topic, b"%d" % number)
    first = tail.news(source(topic), place, ALL)
    assert sorted(one.body for one in first.messages) == [b"%d" % number for number in range(7)]
    times = [one.stored_at_ms for one in first.messages]
    assert times == sorted(times, reverse=True)
    assert tail.news(source(topic), first.place, ALL).messages == []
    live.send(topic, b"after")
    (last,) = tail.news(source(topic), tail.load(tail.dump(first.place), topic.physical_name), ALL).messages
    assert last.body == b"after"


def test_no_group_is_made_and_nothing_is_committed(live: Live) -> None:
    topic = live.topic()
    before = set(live.admin.groups.configs()), live.admin.offsets.all_committed_by_series()
    place = tail.end_of(source(topic))
    live.send(topic)
    assert tail.news(source(topic), place, ALL).seen == 1
    assert (set(live.admin.groups.configs()), live.admin.offsets.all_committed_by_series()) == before


def test_of_what_comes_too_fast_the_newest_is_shown_and_the_rest_counted(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic(queues=2)
    monkeypatch.setattr(tail, "MOST_READ", 10)
    place = tail.end_of(source(topic))
    for number in range(30):
        live.send(topic, b"%02d" % number)
    found = tail.news(source(topic), place, ALL)
    assert (found.seen, found.skipped) == (10, 20)
    assert {one.body for one in found.messages} == {b"%02d" % number for number in range(20, 30)}
    assert tail.news(source(topic), found.place, ALL).seen == 0


def test_large_messages_end_an_answer_and_the_next_goes_on(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = live.topic(queues=1)
    monkeypatch.setattr(tail, "MOST_BYTES", 1_500_000)
    place = tail.end_of(source(topic))
    for number in range(5):
        live.send(topic, b"%d" % number + os.urandom(1_000_000))  # nothing that could be packed
    seen: list[bytes] = []
    while len(seen) < 5:
        found = tail.news(source(topic), place, ALL)
        assert 1 <= found.seen <= 2
        seen += [one.body[:1] for one in reversed(found.messages)]
        place = found.place
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("tags", "sql", "body", "expected"),
    [
        ("paid", "", "", {b"one"}), ("paid || open", "", "", {b"one", b"TWO"}),
        ("", "amount > 10", "", {b"TWO", b"three"}), ("", "region = 'eu' AND amount > 10", "", {b"three"}),
        ("", "", "tWo", {b"TWO"}), ("paid", "amount > 10", "", set()), ("", "", "", {b"one", b"TWO", b"three"}),
    ],
)  # fmt: skip
def test_filters_are_the_brokers_own(live: Live, tags: str, sql: str, body: str, expected: set[bytes]) -> None:
    topic = live.topic(queues=1)
    place = tail.end_of(source(topic))
    live.send(topic, b"one", tags="paid", properties={"amount": "5"})
    live.send(topic, b"TWO", tags="open", properties={"amount": "20"})
    live.send(topic, b"three", properties={"amount": "30", "region": "eu"})
    found = tail.news(source(topic), place, tail.Filter(MessageFilter(tags, sql), body))
    assert ({one.body for one in found.messages}, found.seen) == (expected, 3)


def test_the_page_and_what_it_asks_take_the_right_to_subscribe(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    page = reverse("messaging.live", args=[topic.instance.instance_id, topic.name])
    for who, status in (("alice", 200), ("bob", 200), ("rita", 403), ("nora", 403), ("charlie", 404)):
        assert cast.client(who).get(page).status_code == status, who
        assert asked(cast, who, topic, place="")[0] == status, who
    assert "/live/" in cast.client("bob").get(page.replace("/live/", "/")).content.decode()


def test_hostile_bodies_and_places_break_nothing(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    shown = cast.client("alice").get(reverse("messaging.live", args=[topic.instance.instance_id, topic.name]))
    (place,) = re.findall(r'data-place="([^"]*)"', shown.content.decode())
    live.send(topic, b"<script>alert(1)</script>", tags="<b>", keys="<i>")
    live.send(topic, b"\xff\x00\xfe\xfd\xfc", properties={"p": "x" * 20_000})
    status, body, headers = asked(cast, "alice", topic, place=place)
    # The page makes texts of it, and a browser that is sent there does too.
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert sorted(row[3:] for row in rows_of(body)) == [
        ["", "", "ff 00 fe fd fc"],
        ["<b>", "<i>", "<script>alert(1)</script>"],
    ]
    assert headers["X-Gantry-Tail-Seen"] == "2" and headers["X-Gantry-Tail-Place"] == "+2"
    for wrong in ("x", "broker-a:0:-1", "broker-a:0:" + "9" * 30, "a:1:1," * 5000, "broker-a:٣:1"):
        assert asked(cast, "alice", topic, place=wrong)[0] == 422, wrong
    # Places of other queues and beyond the end lead nowhere.
    assert asked(cast, "alice", topic, place=f"broker-z:0:5,broker-a:0:{10**17}")[1] == ""


def test_an_answer_says_each_message_once_and_shares_what_is_alike(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    place = tail.dump(tail.end_of(source(topic)))
    bodies = [f'{{"city":"Zürich 🛫","number":{n},"more":"{"x" * 100}"}}' for n in range(5)]
    sent = [live.send(topic, one.encode(), tags="two\nlines", keys="\u202eturned") for one in bodies]
    _, body, _ = asked(cast, "alice", topic, place=place)
    rows = rows_of(body)
    assert [row[1] for row in rows] == [one.message_id for one in reversed(sent)]
    assert [row[2].rpartition(":")[2] for row in rows] == ["4", "3", "2", "1", "0"]
    assert {(row[3], row[4]) for row in rows} == {("two lines", "⟨U+202E⟩turned")}
    assert [row[5] for row in rows] == [one[:47] + "…" for one in reversed(bodies)]
    assert len(body) < 150 + 5 * 30
    other = live.topic(queues=2)
    begun = tail.dump(tail.end_of(source(other)))
    sent = [live.send(other, b"%d" % number) for number in range(9)]
    _, body, headers = asked(cast, "alice", other, place=begun)
    told = {(row[1], row[2], row[5]) for row in rows_of(body)}
    assert told == {
        (one.message_id, f"{one.queue.broker_name}:{one.queue.queue_id}:{one.queue_offset}", str(number))
        for number, one in enumerate(sent)
    }
    assert sorted(headers["X-Gantry-Tail-Place"].lstrip("+").split(",")) == ["4", "5"]
    assert asked(cast, "alice", other, place="")[2]["X-Gantry-Tail-Place"].startswith("broker-")
    assert all(abs(int(row[0]) / 1000 - time.time()) < 600 for row in rows)


@pytest.mark.parametrize(("field", "text"), [("sql", "amount >"), ("tags", "||"), ("sql", "("), ("body", "x" * 2000)])
def test_a_filter_that_is_none_is_said_in_a_sentence(live: Live, cast: Cast, field: str, text: str) -> None:
    status, body, _ = asked(cast, "alice", live.topic(queues=1), **{"place": "", field: text})
    assert status == 422 and body and "<" not in body.replace("<", "", body.count("amount"))
