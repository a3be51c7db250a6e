"""Go anywhere: what is found as one types, for each only what its rights let it see."""

from __future__ import annotations

import html
import re
import time
from typing import Any

import pytest
from django.urls import reverse

from console.accounts.models import Policy, User
from console.metrics.store import Change, Latest, Store
from tests.support.cast import Cast, make_group, make_topic


def found(cast: Cast, name: str, text: str = "") -> list[tuple[str, str]]:
    """Kind and name of each place that somebody is offered."""
    answer = cast.client(name).get(reverse("go"), {"q": text}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    page = answer.content.decode()
    pairs = re.findall(r'go-kind">(.*?)</span><span class="go-name">(.*?)</span>', page)
    return [(html.unescape(kind), html.unescape(called)) for kind, called in pairs]


@pytest.fixture
def things(cast: Cast) -> None:
    for name in ("late-flights", "flights", "flights-fifo"):
        make_topic(cast.alice, cast.instance, name)
    make_group(cast.alice, cast.instance, "GID_flights")
    make_topic(cast.charlie, cast.charlies, "flights-of-others")


@pytest.mark.usefixtures("things")
def test_what_begins_with_the_text_comes_first_and_others_things_are_not_there(cast: Cast) -> None:
    places = found(cast, "alice", "flights")
    assert [name for kind, name in places if kind == "Topic"] == ["flights", "flights-fifo", "late-flights"]
    assert ("Group", "GID_flights") in places and ("Action", "Publish a message to flights") in places
    assert not any("others" in name for _, name in places)
    assert found(cast, "charlie", "flights-of")[0] == ("Topic", "flights-of-others")


@pytest.mark.usefixtures("things")
def test_who_may_only_look_is_offered_nothing_to_do_and_who_may_nothing_no_names(cast: Cast) -> None:
    for text in ("flights", "create", "late"):
        assert not [name for kind, name in found(cast, "rita", text) if kind == "Action"]
        assert not [kind for kind, _ in found(cast, "nora", text) if kind != "Page"]
    assert ("Topic", "flights") in found(cast, "rita", "flights")


@pytest.mark.usefixtures("things")
def test_a_right_on_one_topic_finds_this_one(cast: Cast) -> None:
    instance = cast.instance.instance_id
    statements = [
        {"Effect": "Allow", "Action": ["mq:QueryInstance"], "Resource": f"acs:mq:*:*:{instance}"},
        {"Effect": "Allow", "Action": ["mq:QueryTopic"], "Resource": f"acs:mq:*:*:{instance}%late-flights"},
    ]
    document = {"Version": "1", "Statement": statements}
    policy = Policy.objects.create(tenant=cast.acme, name="one-topic", document=document)
    User.objects.get(pk=cast.users["nora"].pk).policies.add(policy)
    assert [name for kind, name in found(cast, "nora", "flights") if kind == "Topic"] == ["late-flights"]


def test_pages_of_ones_own_are_offered_before_anything_is_typed(cast: Cast) -> None:
    assert {("Page", "Topics"), ("Page", "Audit"), ("Page", "Alarms")} <= set(found(cast, "alice"))
    assert ("Page", "Audit") not in found(cast, "rita")
    assert {("Page", "Clusters"), ("Page", "Accounts")} <= set(found(cast, "petra"))
    assert found(cast, "petra", "flights") == []


@pytest.mark.usefixtures("things")
def test_a_key_and_an_id_are_looked_for_where_there_are_the_most_messages(cast: Cast) -> None:
    change = Change(Latest(int(time.time() * 1000), None, ["broker-a"], []))
    names = {"late-flights": 50, "flights": 70, "flights-fifo": 0}
    change.stored |= {cast.instance.physical_name(name): number for name, number in names.items()}
    change.stored[cast.charlies.physical_name("flights-of-others")] = 10_000
    store = Store(cast.cluster.name)
    with store.lease() as token:
        assert store.commit(token, change)
    searches = [name for kind, name in found(cast, "alice", "order-17") if kind == "Search"]
    assert searches[:2] == ["Messages with key order-17 in flights", "Messages with key order-17 in late-flights"]
    identity = "7F0000010A1B2C3D4E5F60718293A4B5"
    assert found(cast, "alice", identity)[0] == ("Search", f"Message {identity} in flights")
    assert not [kind for kind, _ in found(cast, "nora", "order-17") if kind == "Search"]


@pytest.mark.parametrize("text", ["<script>", "%", "'; drop", "\x00", "a" * 5000, "ß" * 50, "*", "]["])
def test_hostile_texts_find_nothing_and_break_nothing(cast: Cast, text: str) -> None:
    answer = cast.client("alice").get(reverse("go"), {"q": text})
    assert answer.status_code == (400 if "\x00" in text else 200) and b"<script>" not in answer.content


def test_a_visitor_who_has_not_signed_in_is_asked_to(client: Any) -> None:
    assert client.get(reverse("go"), {"q": "flights"}).status_code == 302
