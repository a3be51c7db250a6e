"""The page of broker drift: what it shows, what it mends, and what an outage looks like."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from console.accounts.actor import Actor
from console.drift import sweep, tasks
from console.instances import broker as clients
from console.topics.models import OrderType, Topic
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_instance, make_topic, on_broker

INDEX, CHECK, MEND = "drift.index", "drift.check", "drift.mend"


def test_it_says_when_there_is_no_drift_and_when_that_was_seen(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    page = cast.client("alice").get(reverse(INDEX)).content.decode()
    assert "No drift" in page
    assert "as of" in page


def test_one_click_mends_a_row_and_one_mends_all(cast: Cast) -> None:
    lost = [make_topic(cast.alice, cast.instance, name) for name in ("one", "two", "three")]
    for topic in lost:
        clients.admin(cast.cluster).topics.delete(topic.physical_name)
    client = cast.client("alice")
    client.post(reverse(CHECK))
    page = client.get(reverse(INDEX)).content.decode()
    assert "Missing on the broker" in page and "Repair all 3" in page
    key = f"{cast.cluster.pk}:topic:{lost[0].physical_name}"
    assert key in page
    assert "Repaired" in client.post(reverse(MEND), {"key": key}).content.decode()
    assert lost[0].physical_name in on_broker(cast.cluster)
    assert lost[1].physical_name not in on_broker(cast.cluster)
    done = client.post(reverse(MEND), {"all": "1"}).content.decode()
    assert "two" in done and "three" in done and "Failed" not in done
    assert {topic.physical_name for topic in lost} <= on_broker(cast.cluster)
    assert "No drift" in client.get(reverse(INDEX)).content.decode()


def test_who_may_only_look_sees_the_drift_and_mends_nothing(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    clients.admin(cast.cluster).topics.delete(topic.physical_name)
    rita = cast.client("rita")
    page = rita.get(reverse(INDEX)).content.decode()
    assert topic.name in page
    assert "Repair</button>" not in page
    key = f"{cast.cluster.pk}:topic:{topic.physical_name}"
    assert rita.post(reverse(MEND), {"key": key}).status_code == 403
    assert topic.physical_name not in on_broker(cast.cluster)


def test_another_accounts_row_cannot_be_named(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    clients.admin(cast.cluster).topics.delete(topic.physical_name)
    sweep.sweep(cast.cluster)
    charlie = cast.client("charlie")
    key = f"{cast.cluster.pk}:topic:{topic.physical_name}"
    assert topic.name not in charlie.get(reverse(INDEX)).content.decode()
    assert charlie.post(reverse(MEND), {"key": key}).status_code == 404
    assert topic.physical_name not in on_broker(cast.cluster)


def test_an_unknown_topic_is_adopted_or_deleted_by_typing_its_name(cast: Cast) -> None:
    keep, drop = cast.instance.physical_name("keep"), cast.instance.physical_name("drop")
    for name in (keep, drop):
        clients.admin(cast.cluster).topics.create(name)
    client = cast.client("alice")
    assert "Unknown to the console" in client.get(reverse(INDEX)).content.decode()
    client.post(reverse("drift.adopt", args=[cast.cluster.pk, "topic", keep]))
    assert Topic.objects.get().physical_name == keep
    delete = reverse("drift.delete", args=[cast.cluster.pk, "topic", drop])
    assert client.post(delete, {"name": "wrong"}).status_code == 422
    assert drop in on_broker(cast.cluster)
    assert client.post(delete, {"name": "drop"}).status_code == 302
    assert drop not in on_broker(cast.cluster)


def test_an_outage_is_shown_as_one(cast: Cast, broker: BrokerProcess) -> None:
    make_topic(cast.alice, cast.instance)
    broker.kill()
    page = cast.client("alice").get(reverse(INDEX))
    assert page.status_code == 200
    assert "could not be compared" in page.content.decode()
    assert "No drift" not in page.content.decode()


def test_the_beat_compares_every_cluster_that_is_used(cast: Cast) -> None:
    assert sweep.last(cast.cluster) is None
    tasks.sweep_all()
    assert sweep.last(cast.cluster) is not None


def test_it_searches_and_pages(cast: Cast) -> None:
    for number in range(25):
        clients.admin(cast.cluster).topics.create(cast.instance.physical_name(f"stray-{number:02d}"))
    client = cast.client("alice")
    assert "stray-24" not in client.get(reverse(INDEX)).content.decode()
    assert "stray-24" in client.get(reverse(INDEX), {"page": "2"}).content.decode()
    found = client.get(reverse(INDEX), {"q": "STRAY-24"}).content.decode()
    assert "stray-24" in found and "stray-01" not in found


def test_of_thousands_the_page_decides_about_those_it_shows(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the account may do follows for each row from its policies, which takes longer than all else."""
    names = [f"lost-{number:04}" for number in range(2000)]
    Topic.objects.bulk_create(
        Topic(
            instance=cast.instance,
            name=name,
            physical_name=cast.instance.physical_name(name),
            order_type=OrderType.NORMAL,
        )
        for name in names
    )
    sweep.sweep(cast.cluster)
    decided: list[str] = []
    decide = Actor.decide

    def counting(actor: Actor, action: str, resource: str, **more: Any) -> Any:
        decided.append(resource)
        return decide(actor, action, resource, **more)

    monkeypatch.setattr(Actor, "decide", counting)
    for who in ("alice", "rita"):
        decided.clear()
        page = cast.client(who).get(reverse(INDEX), {"page": "100"}).content.decode()
        assert ("lost-1999" in page, "lost-1979" in page, page.count("<tr")) == (True, False, 21)
        assert ("Repair 500 of 2000" in page) == (who == "alice")
        assert len(decided) < 60
        assert len(page) < 100_000


def test_nothing_is_written_of_what_was_adopted_unless_it_is_asked_for_and_confirmed(cast: Cast) -> None:
    admin, client, name = clients.admin(cast.cluster), cast.client("alice"), "found|here"
    admin.topics.create(name, queues=3)
    instance = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    topic = Topic.objects.create(
        instance=instance, name=name, physical_name=name, order_type=OrderType.NORMAL, queues=3, adopted=True
    )
    admin.topics.create(name, queues=5)
    client.post(reverse(CHECK))
    page = client.get(reverse(INDEX)).content.decode()
    assert "Accept" in page and "Repair" not in page
    key = f"{cast.cluster.pk}:topic:{name}"
    for given in ({"all": "1"}, {"key": key}):
        client.post(reverse(MEND), given)
        assert admin.topics.config(name).write_queues == 5
    assert "queues: 3 here, 5 on broker-a" in client.post(reverse(MEND), {"key": key}).content.decode()
    assert "Repaired" in client.post(reverse(MEND), {"key": key, "confirmed": "1"}).content.decode()
    assert admin.topics.config(name).write_queues == 3
    admin.topics.create(name, queues=6)
    client.post(reverse(CHECK))
    accept = reverse("drift.accept", args=[cast.cluster.pk, "topic", name])
    assert cast.client("rita").post(accept).status_code == 403
    client.post(accept)
    topic.refresh_from_db()
    assert (topic.queues, admin.topics.config(name).write_queues) == (6, 6)
