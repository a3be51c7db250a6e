"""The pages of messages, consumer status and dead letters, through Django's client on a real broker."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from django.core.cache import cache
from django.urls import reverse

from brokercore.client import MessageQueue
from console.audit.models import Entry
from console.messaging import dead_letters, queries
from console.messaging.models import Resend
from console.messaging.records import MessageRecord
from console.topics.models import Group, OrderType, Topic
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast

HOSTILE = "<script>alert(1)</script>\u202e\"'&"


def text(response: Any) -> str:
    return str(response.content.decode())


def url(live: Live, name: str, *more: Any) -> str:
    return reverse(name, args=[live.instance.instance_id, *more])


def htmx(cast: Cast, name: str, path: str, data: dict[str, Any] | None = None, *, post: bool = False) -> Any:
    browser = cast.client(name)
    send = browser.post if post else browser.get
    return send(path, data or {}, headers={"HX-Request": "true"})


def dead_letter(live: Live, group: Group, topic: Topic, body: bytes = b"{}") -> MessageRecord:
    sent = live.send(topic, body, tags="DL")
    live.consume(group, topic, fail=True, retries=0)
    record: MessageRecord = eventually(lambda: dead_letters.find(group, sent.message_id), 20).record
    live.stop_consumers()
    return record


@pytest.fixture
def everything(live: Live) -> list[str]:
    """The address of every page for one topic and one group with a letter."""
    topic, group = live.topic(), live.group()
    letter = dead_letter(live, group, topic)
    sent = live.send(topic, b'{"n":1}')
    return [
        url(live, "messaging.search"),
        f"{url(live, 'messaging.search')}?search=1&by=time&range=1h&topic={topic.name}",
        f"{url(live, 'messaging.search')}?search=1&by=id&topic={topic.name}&message_id={sent.message_id}",
        f"{url(live, 'messaging.search')}?search=1&by=key&topic={topic.name}&key=none",
        url(live, "messaging.message", topic.name, sent.message_id),
        url(live, "messaging.body", topic.name, sent.message_id),
        url(live, "messaging.track", topic.name, sent.message_id),
        url(live, "messaging.publish", topic.name),
        url(live, "messaging.status", group.group_id),
        url(live, "messaging.clients", group.group_id),
        url(live, "messaging.reset", group.group_id),
        f"{url(live, 'messaging.reset', group.group_id)}?topic={topic.name}&to=end",
        url(live, "messaging.dead_letter_index"),
        url(live, "messaging.dead_letters", group.group_id),
        url(live, "messaging.dead_letter", group.group_id, letter.position),
    ]


def test_every_page_opens_for_its_owner_and_for_nobody_else(cast: Cast, everything: list[str]) -> None:
    for path in everything:
        got = {name: cast.client(name).get(path).status_code for name in ("alice", "bob", "nora", "charlie")}
        assert got == {"alice": 200, "bob": 200, "nora": 403, "charlie": 404}, path
        assert cast.client("anonymous").get(path).status_code == 302


def test_who_may_only_look_changes_nothing(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    rita = cast.client("rita")
    assert rita.get(url(live, "messaging.status", group.group_id)).status_code == 200
    assert rita.post(url(live, "messaging.publish", topic.name), {"body": "x"}).status_code == 403
    reset = {"topic": topic.name, "to": "end"}
    assert rita.post(url(live, "messaging.reset", group.group_id), reset).status_code == 403
    assert rita.post(url(live, "messaging.resend", group.group_id), {"letter": "broker-a:0:0"}).status_code == 403
    assert Entry.objects.filter(result="refused", actor="rita@acme").count() == 3


def test_a_search_shows_the_messages_and_pages_through_them(live: Live, cast: Cast) -> None:
    topic = live.topic()
    ids = [live.send(topic, b"x").message_id for _ in range(25)]
    path = f"{url(live, 'messaging.search')}?by=time&search=1&range=1h&topic={topic.name}"
    first = text(htmx(cast, "alice", path))
    assert first.lstrip().startswith('<div id="search">')
    assert "25 messages in this range" in first
    assert "Page 1 of 2" in first
    task = first.split("task=")[1].split("&")[0]
    second = text(htmx(cast, "alice", f"{path}&task={task}&page=2"))
    assert sum(i in first for i in ids) == 20
    assert sum(i in second for i in ids) == 5
    expired = htmx(cast, "alice", f"{path}&task=gone&page=2")
    assert expired.status_code == 422
    assert "This search has expired" in text(expired)
    kept = cache.get(queries._key(task))
    cache.set(queries._key(task), kept | {"a_part": "of another version"})
    assert "This search has expired" in text(htmx(cast, "alice", f"{path}&task={task}&page=2"))


def test_a_search_asks_and_shows_in_the_viewers_zone(live: Live, cast: Cast) -> None:
    topic = live.topic()
    sent = live.send(topic, b"x")
    (found,) = queries.find_by_id(queries.Source.of_topic(topic), sent.message_id)
    stored = datetime.fromtimestamp(found.stored_at_ms / 1000, ZoneInfo("Asia/Tokyo")).replace(tzinfo=None)
    begin, end = ((stored + timedelta(minutes=m)).isoformat(timespec="seconds") for m in (-1, 1))
    search = {"by": "time", "search": "1", "range": "custom", "topic": topic.name, "begin": begin, "end": end}
    cast.client("alice").cookies["gantry_zone"] = "Asia/Tokyo"
    tokyo = text(htmx(cast, "alice", url(live, "messaging.search"), search))
    assert "1 message in this range" in tokyo
    assert "Stored (Asia/Tokyo)" in tokyo
    assert stored.isoformat(" ", "milliseconds") in tokyo
    assert f'value="{begin}"' in tokyo
    cast.client("alice").cookies["gantry_zone"] = "../Tokyo"
    utc = text(htmx(cast, "alice", url(live, "messaging.search"), search))
    assert "0 messages in this range" in utc
    assert "From (UTC)" in utc


def test_a_wrong_topic_is_said_beside_its_field(live: Live, cast: Cast) -> None:
    response = cast.client("alice").get(f"{url(live, 'messaging.search')}?by=time&search=1&range=1h&topic=nothing")
    assert response.status_code == 422
    assert "There is no such topic in this instance." in text(response)


def test_a_search_by_key_that_ends_before_it_begins_is_refused(live: Live, cast: Cast) -> None:
    turned = {"by": "key", "search": "1", "topic": live.topic().name, "key": "k", "begin": "2026-01-02T00:00:00"}
    response = cast.client("alice").get(url(live, "messaging.search"), turned | {"end": "2026-01-01T00:00:00"})
    assert response.status_code == 422
    assert "The end is before the start." in text(response)


def test_hostile_words_are_shown_harmlessly(live: Live, cast: Cast) -> None:
    topic = live.topic()
    sent = live.send(topic, HOSTILE.encode(), tags=HOSTILE, keys="<b>k</b>", properties={"<i>": HOSTILE})
    for path in [
        f"{url(live, 'messaging.search')}?by=time&search=1&range=1h&topic={topic.name}",
        url(live, "messaging.message", topic.name, sent.message_id),
        f"{url(live, 'messaging.search')}?by=key&search=1&topic={topic.name}&key={quote('<b>k</b>')}",
    ]:
        page = text(cast.client("alice").get(path))
        assert "<script>alert" not in page
        assert "<b>k</b>" not in page
        assert "\u202e" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩" in page


def test_a_body_is_shown_in_the_wanted_form_and_downloaded_as_a_file(live: Live, cast: Cast) -> None:
    topic = live.topic()
    body = b'{"html":"<script>"}' + b" " * 100_000
    sent = live.send(topic, body)
    path = url(live, "messaging.message", topic.name, sent.message_id)
    page = text(cast.client("alice").get(path))
    assert "&quot;html&quot;: &quot;&lt;script&gt;&quot;" in page
    as_hex = text(htmx(cast, "alice", f"{path}?body=hex"))
    assert as_hex.lstrip().startswith('<div class="card mb-3" id="body">')
    assert "00000000  7b 22 68 74" in as_hex
    assert '8,192 bytes">8.0 KiB</span> of' in as_hex
    download = cast.client("alice").get(url(live, "messaging.body", topic.name, sent.message_id))
    assert download.content == body
    assert download["Content-Type"] == "application/octet-stream"
    assert download["Content-Disposition"].startswith("attachment;")
    assert download["X-Content-Type-Options"] == "nosniff"


def test_a_message_of_another_topic_is_not_found(live: Live, cast: Cast) -> None:
    mine, other = live.topic(), live.topic()
    sent = live.send(other)
    assert cast.client("alice").get(url(live, "messaging.message", mine.name, sent.message_id)).status_code == 404
    place = f"?at=broker-a:{sent.queue.queue_id}:{sent.queue_offset}"
    there = url(live, "messaging.message", mine.name, sent.message_id) + place
    assert cast.client("alice").get(there).status_code == 404


def test_a_published_message_can_be_opened_at_once(live: Live, cast: Cast) -> None:
    topic = live.topic(OrderType.TRANSACTIONAL)
    posted = {"body": "hello", "tag": "DL", "key": "k", "properties": "a=1"}
    response = htmx(cast, "bob", url(live, "messaging.publish", topic.name), posted, post=True)
    assert "the transaction is committed" in text(response)
    path = text(response).split('href="')[1].split('"')[0]
    opened = eventually(lambda: r if (r := cast.client("bob").get(path)).status_code == 200 else None)
    assert "hello" in text(opened)


def test_an_empty_message_is_refused_beside_its_field(live: Live, cast: Cast) -> None:
    response = htmx(cast, "alice", url(live, "messaging.publish", live.topic().name), {"body": ""}, post=True)
    assert response.status_code == 422
    assert "This field is required." in text(response)


def test_selected_letters_are_resent_with_a_result_for_each(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    letter = dead_letter(live, group, topic)
    ticked = {"letter": [str(letter.position), "broker-a:0:77"], "confirmed": "1", "shown": [str(letter.position)]}
    page = text(htmx(cast, "bob", url(live, "messaging.resend", group.group_id), ticked, post=True))
    assert page.count('resent</span><span class="font-monospace') == 1
    assert "This dead letter is not in the dead-letter queue" in page
    assert 'id="mark-broker-a-0-0" hx-swap-oob="true"' in page
    assert Resend.objects.get(group=group).actor == cast.bob
    listed = text(cast.client("alice").get(url(live, "messaging.dead_letters", group.group_id)))
    assert '<span class="badge bg-green-lt">resent</span>' in listed
    nothing = htmx(cast, "bob", url(live, "messaging.resend", group.group_id), {}, post=True)
    assert (nothing.status_code, "Select the dead letters" in text(nothing)) == (422, True)


def test_a_group_without_letters_says_so(live: Live, cast: Cast) -> None:
    page = text(cast.client("alice").get(url(live, "messaging.dead_letters", live.group().group_id)))
    assert "No message of this group has failed its last retry." in page


def test_the_status_page_names_clients_and_their_stacks(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic)
    assert re.search(
        r">1</span><small>online", text(cast.client("alice").get(url(live, "messaging.status", group.group_id)))
    )
    clients = text(htmx(cast, "alice", url(live, "messaging.clients", group.group_id)))
    assert "PYTHON 5.3.3" in clients
    assert f"{topic.name}: *" in clients
    client_id = live.admin.clients.consumers(group.physical_name).connections[0].client_id
    stack = htmx(cast, "alice", f"{url(live, 'messaging.stack', group.group_id)}?client={quote(client_id)}")
    assert "Thread" in text(stack) or "File " in text(stack)


def test_a_reset_is_previewed_then_done_by_post_only(live: Live, cast: Cast) -> None:
    topic, group = live.topic(queues=1), live.group()
    live.send(topic)
    got = live.consume(group, topic)
    eventually(lambda: got)
    live.stop_consumers()
    path = url(live, "messaging.reset", group.group_id)
    preview = text(htmx(cast, "alice", path, {"topic": topic.name, "to": "begin"}))
    assert "<strong>1</strong> message would be consumed again." in preview
    assert not Entry.objects.filter(action="messaging.offset.reset").exists()
    done = htmx(cast, "alice", path, {"topic": topic.name, "to": "begin", "at": ""}, post=True)
    assert done["HX-Redirect"] == url(live, "messaging.status", group.group_id)
    assert Entry.objects.get(action="messaging.offset.reset").actor == cast.alice.username


def test_a_reset_begins_with_what_the_group_consumes_and_tells_the_backlog(live: Live, cast: Cast) -> None:
    other, topic, group = live.topic(), live.topic(queues=2), live.group()
    path = url(live, "messaging.reset", group.group_id)
    for queue_id in (0, 1):
        live.admin.offsets.commit(group.physical_name, {MessageQueue(topic.physical_name, "broker-a", queue_id): 0})
    live.admin.offsets.commit(group.physical_name, {MessageQueue(other.physical_name, "broker-a", 0): 0})
    for _ in range(8):
        live.send(topic)
    page = text(cast.client("alice").get(path))
    assert f'name="topic" value="{topic.name}"' in page
    assert f"?topic={other.name}" in page
    preview = text(htmx(cast, "alice", path, {"topic": topic.name, "to": "end"}))
    assert "Backlog after the reset: <strong>0</strong>, now 8." in preview
    one = text(htmx(cast, "alice", path, {"topic": topic.name, "to": "end", "queue": "broker-a:1"}))
    there = live.admin.topics.stats(topic.physical_name)[MessageQueue(topic.physical_name, "broker-a", 1)].max_offset
    assert f"<strong>{there}</strong> message" in one
    assert "broker-a 0</td>" not in one
    done = htmx(cast, "alice", path, {"topic": topic.name, "to": "end", "queue": "broker-a:1"}, post=True)
    assert done["HX-Redirect"]
    committed = [
        live.admin.offsets.committed(group.physical_name, MessageQueue(topic.physical_name, "broker-a", queue_id))
        for queue_id in (0, 1)
    ]
    assert committed == [0, there]
    assert Entry.objects.get(action="messaging.offset.reset").detail["offsets"] == {"broker-a:1": there}


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("topic", "nothing", "There is no such topic in this instance."),
        ("queue", "broker-a:77", "The topic has no queue broker-a:77."),
        ("queue", "first", "The topic has no queue first."),
    ],
)
def test_what_a_reset_does_not_know_is_said_beside_its_field(
    live: Live, cast: Cast, field: str, value: str, sentence: str
) -> None:
    topic, group = live.topic(), live.group()
    asked = {"topic": topic.name, "to": "end"} | {field: value}
    for post in (False, True):
        response = htmx(cast, "alice", url(live, "messaging.reset", group.group_id), asked, post=post)
        assert response.status_code == 422
        assert f'id="id_{field}_error">{sentence}' in text(response)


def test_an_outage_is_shown_as_an_outage(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    cluster = live.instance.cluster
    cluster.namesrv = "127.0.0.1:9"
    cluster.save()
    for path in [
        f"{url(live, 'messaging.search')}?by=time&search=1&range=1h&topic={topic.name}",
        url(live, "messaging.status", group.group_id),
        url(live, "messaging.dead_letters", group.group_id),
    ]:
        page, fragment = cast.client("alice").get(path), htmx(cast, "alice", path)
        assert (page.status_code, fragment.status_code) == (503, 503)
        assert "The broker does not answer" in text(page)
        assert "127.0.0.1:9" in text(fragment)


def test_topics_are_suggested_by_what_was_typed(live: Live, cast: Cast) -> None:
    names = [f"of-many-{number:03}" for number in range(150)]
    Topic.objects.bulk_create(
        Topic(instance=live.instance, name=name, physical_name=f"x%{name}", order_type=OrderType.NORMAL)
        for name in names
    )
    alice, group = cast.client("alice"), live.group()
    for page, to in (
        (url(live, "messaging.search"), "search"),
        (url(live, "messaging.reset", group.group_id), "reset"),
    ):
        shown = alice.get(page).content.decode()
        assert (shown.count("<option value=") <= 110, "of-many-149" in shown) == (True, False)
        assert f"{url(live, 'messaging.topic_names')}?to={to}" in shown
        found = alice.get(url(live, "messaging.topic_names"), {"to": to, "topic": "MANY-14"}).content.decode()
        assert (found.count("<option"), "of-many-149" in found) == (10, True)
    nothing = alice.get(url(live, "messaging.topic_names"), {"to": "?", "topic": "<script>"}).content.decode()
    assert nothing.strip() == ""
