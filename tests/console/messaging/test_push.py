"""One message handed to one client, on a real broker with real consumers."""

from __future__ import annotations

import pytest
from django.urls import reverse

from console.audit.models import Entry
from console.messaging import queries, services
from console.messaging.queries import Source
from console.messaging.records import MessageRecord
from console.messaging.status import clients_of
from console.topics.models import Group, Topic
from console.web.errors import Refused
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast


def stored(live: Live, topic: Topic, body: bytes = b"pushed") -> MessageRecord:
    (record,) = queries.find_by_id(Source.of_topic(topic), live.send(topic, body).message_id)
    return record


def online(group: Group) -> str:
    def first() -> str:
        connection = clients_of(group)
        return connection.connections[0].client_id if connection else ""

    return str(eventually(first, seconds=30))


def test_a_client_gets_a_message_that_its_group_has_consumed_and_says_what_it_makes_of_it(live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    record = stored(live, topic)
    got = live.consume(group, topic)
    eventually(lambda: len(got) == 1, seconds=30)
    pushed = services.push_message(live.actor, group, topic, record, online(group))
    assert (pushed.answer, pushed.words, pushed.is_consumed) == ("CR_SUCCESS", "consumed it", True)
    assert [one.body for one in got] == [b"pushed", b"pushed"]
    entry = Entry.objects.filter(action="messaging.message.push").latest("pk")
    assert (entry.result, entry.detail["answer"], entry.detail["group"]) == (
        "success",
        "CR_SUCCESS",
        group.physical_name,
    )


def test_what_the_listener_refuses_is_told(live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    record = stored(live, topic)
    got = live.consume(group, topic, fail=True)
    eventually(lambda: got, seconds=30)
    pushed = services.push_message(live.actor, group, topic, record, online(group))
    assert (pushed.words, pushed.is_consumed) == ("asked to have it again later", False)


def test_only_to_clients_that_are_online_and_know_the_topic(live: Live) -> None:
    topic, other, group = live.topic(queues=1), live.topic(queues=1), live.group()
    record, elsewhere = stored(live, topic), stored(live, other)
    with pytest.raises(Refused, match="choose one that is online"):
        services.push_message(live.actor, group, topic, record, "10.0.0.1@nobody")
    live.consume(group, topic)
    client = online(group)
    with pytest.raises(Refused, match="choose one that is online"):
        services.push_message(live.actor, group, topic, record, "")
    with pytest.raises(Refused, match="does not subscribe"):
        services.push_message(live.actor, group, other, elsewhere, client)


def test_the_page_lists_the_clients_pushes_and_shows_the_answer(live: Live, cast: Cast) -> None:
    topic, group = live.topic(queues=1), live.group()
    record = stored(live, topic)
    got = live.consume(group, topic)
    client = online(group)
    eventually(lambda: got, seconds=30)
    where = [topic.instance.instance_id, topic.name, record.message_id]
    url = reverse("messaging.push", args=[*where, group.group_id])
    alice = cast.client("alice")
    tracks = alice.get(reverse("messaging.track", args=where)).content.decode()
    assert f'hx-get="{url}' in tracks
    assert client in alice.get(url).content.decode()
    answer = alice.post(url, {"client": client}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert "consumed it, in" in answer.content.decode()
    refused = alice.post(url, {"client": "gone"})
    assert (refused.status_code, "choose one that is online" in refused.content.decode()) == (422, True)
    # Who may only look is offered nothing, and gets nothing.
    assert url not in cast.client("rita").get(reverse("messaging.track", args=where)).content.decode()
    assert cast.client("rita").post(url, {"client": client}).status_code == 403
