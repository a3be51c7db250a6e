"""The list of unowned names of a cluster that has many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.urls import reverse

from brokercore.protocol.codes import RequestCode
from console.adoption import listing, tasks
from console.adoption.listing import listed, unowned_of
from console.instances import broker as clients
from console.instances.models import Cluster
from tests.support.cast import Cast, make_topic


@pytest.fixture
def asked(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Requests to brokers by code; a list of more than three names is a long one."""
    cache.clear()
    monkeypatch.setattr(listing, "MANY", 3)
    session, codes = clients.admin(cast.cluster).session, Counter[int]()
    submit = session.submit

    def counting(call, *more):  # type: ignore[no-untyped-def]
        codes[int(call.code)] += 1
        return submit(call, *more)

    monkeypatch.setattr(session, "submit", counting)
    return codes


@pytest.fixture(autouse=True)
def nothing_left(cast: Cast) -> Iterator[None]:
    """The broker outlives the tests."""
    yield
    admin = clients.admin(cast.cluster)
    for name in admin.topics.names():
        if name.startswith("long-"):
            admin.topics.delete(name)


def create(cast: Cast, *names: str) -> None:
    for name in names:
        clients.admin(cast.cluster).topics.create(name, queues=1)


def names(cast: Cast) -> set[str]:
    found = [unowned_of(kept) for kept in listed(cast.cluster).names]
    return {one.name for one in found if one.name.startswith("long-")}


def test_a_long_list_is_asked_for_once_and_anew_by_the_workers(cast: Cast, asked: Counter[int]) -> None:
    create(cast, "long-1", "long-2", "long-3", "long-4")
    assert names(cast) == {"long-1", "long-2", "long-3", "long-4"}
    asked.clear()
    address = reverse("adoption.unowned", args=[cast.cluster.pk])
    for query in ({}, {"page": "2"}, {"sort": "-name"}, {"sort": "rate"}, {"include": "long-1"}):
        # The broker may have names of other tests, which fill the first page.
        answer = cast.client("petra").get(address, {"include": "long-*"} | query)
        assert "long-" in answer.content.decode()
    assert asked.keys().isdisjoint({RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG})
    create(cast, "long-5")
    assert "long-5" not in names(cast)
    tasks.names()
    assert "long-5" in names(cast)
    cache.delete(f"adoption:looked:{cast.cluster.pk}")
    asked.clear()
    tasks.names()
    assert not asked


def test_a_name_that_somebody_has_by_now_is_not_listed(cast: Cast, asked: Counter[int]) -> None:
    create(cast, "long-1", "long-2", "long-3", "long-4")
    assert "long-1" in names(cast)
    topic = make_topic(cast.alice, cast.instance, "unrelated")
    topic.name = topic.physical_name = "long-1"
    topic.pk = None
    topic.save(force_insert=True)
    assert names(cast) == {"long-2", "long-3", "long-4"}
    topic.delete()
    assert "long-1" in names(cast)


def test_a_short_list_is_asked_for_each_time(cast: Cast, asked: Counter[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MANY", 10_000)
    create(cast, "long-1")
    assert names(cast) == {"long-1"}
    create(cast, "long-2")
    assert names(cast) == {"long-1", "long-2"}
    assert not listing.is_looked_at(cast.cluster)


def test_a_cluster_that_is_away_is_told_as_such_once_the_list_is_old(cast: Cast, asked: Counter[int]) -> None:
    create(cast, "long-1", "long-2", "long-3", "long-4")
    names(cast)
    Cluster.objects.update(namesrv="127.0.0.1:9")
    tasks.names()
    address = reverse("adoption.unowned", args=[cast.cluster.pk])
    assert "long-1" in cast.client("petra").get(address, {"include": "long-*"}).content.decode()
    cache.delete(f"adoption:names:{cast.cluster.pk}")
    assert "The cluster does not answer" in cast.client("petra").get(address).content.decode()
