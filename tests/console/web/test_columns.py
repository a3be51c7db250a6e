"""The columns of a list: chosen by each visitor, kept by the browser, and neither sent nor asked for when left out."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from console.topics.live import topic_hours
from tests.support.cast import Cast, make_topic

ALL = ["order_type", "perm", "queues", "in_tps", "hour", "stored", "created_at"]


def titles(cast: Cast, name: str = "alice", **query: str) -> list[str]:
    page = cast.client(name).get(reverse("topics.list", args=[cast.instance.instance_id]), query).content.decode()
    return re.findall(r'<td role="cell" data-label="([^"]+)"', page)


def choose(client: Client, *shown: str, back: str = "/", **more: str) -> str:
    data = {"list": "topics_TopicTable", "column": ALL, "shown": shown, "next": back, **more}
    answer = client.post(reverse("columns"), data)
    assert answer.status_code == 302
    return str(answer["Location"])


@pytest.fixture(autouse=True)
def a_topic(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "orders")


def test_a_list_has_the_columns_that_were_chosen_until_its_default_is_wished_for(cast: Cast) -> None:
    client = cast.client("alice")
    everything = titles(cast)
    assert everything == ["Topic", "Message type", "Mode", "Queues", "In, messages/s", "1 h", "Stored", "Created"]
    back = f"{reverse('topics.list', args=[cast.instance.instance_id])}?sort=-stored"
    assert choose(client, "queues", "stored", back=back) == back
    assert titles(cast) == ["Topic", "Queues", "Stored"]
    page = client.get(back).content.decode()
    assert re.findall(r'name="shown" value="(\w+)" checked', page) == ["queues", "stored"]
    choose(client, "queues", default="yes")
    assert titles(cast) == everything


def test_no_line_of_the_last_hour_is_asked_for_where_none_is_seen(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(*of: object) -> dict[str, object]:
        asked.append(of)
        return {}

    monkeypatch.setattr(topic_hours, "get", lambda: ask)
    titles(cast)
    choose(cast.client("alice"), "queues")
    titles(cast)
    assert len(asked) == 1


def test_the_name_stays_whatever_is_sent(cast: Cast) -> None:
    client = cast.client("alice")
    client.post(reverse("columns"), {"list": "topics_TopicTable", "column": ["name", "no", "../x~y.z", *ALL]})
    assert titles(cast) == ["Topic"]
    client.post(reverse("columns"), {"list": "topics_TopicTable~x", "column": ALL})
    assert titles(cast) == ["Topic"]


def test_a_choice_is_of_one_person_and_one_list(cast: Cast) -> None:
    client = cast.client("alice")
    choose(client, "stored")
    client.post(reverse("columns"), {"list": "instances_InstanceTable", "column": ["cluster"]})
    assert titles(cast) == ["Topic", "Stored"]
    assert 'data-label="Cluster"' not in client.get(reverse("instances.list")).content.decode()
    cookies = cast.client("bob").cookies
    for name in [name for name in client.cookies if name.startswith("gantry_columns")]:
        cookies[name] = client.cookies[name].value
    assert len(titles(cast, "bob")) == 8


def test_a_cookie_stays_short_and_one_written_by_hand_does_no_harm(cast: Cast) -> None:
    client = cast.client("alice")
    for number in range(40):
        client.post(reverse("columns"), {"list": f"List{number}", "column": [f"column_{n}" for n in range(20)]})
    choose(client, "stored")
    (name,) = (name for name in client.cookies if name.startswith("gantry_columns"))
    assert len(client.cookies[name].value) <= 3_000 and client.cookies[name]["httponly"]
    assert titles(cast) == ["Topic", "Stored"]
    client.cookies[name] = "~.~topics_TopicTable..perm.x y~topics_TopicTable.\x7f"
    assert "Topic" in titles(cast)


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/", "//evil.example/", "/\t///evil.example/?without=perm", "/\\\t/evil.example/", "",
        "javascript:alert(1)",
    ],
)  # fmt: skip
def test_it_leads_to_no_other_site(cast: Cast, back: str) -> None:
    assert choose(cast.client("alice"), "stored", back=back) == "/"
