"""What needs somebody, on the first page: the worst first, only what the visitor may see, and no outage hidden."""

from __future__ import annotations

import html
import time
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from brokercore.client.errors import BrokerUnreachable
from brokercore.names import dead_letter_topic
from console.accounts.models import AccessKey
from console.accounts.services import create_access_key
from console.metrics.store import Change, Latest, Store
from console.overview.attention import Attention, Severity, attention
from console.pipelines.models import Kind, Pipeline, State
from console.topics.models import Group
from console.tracking.models import TrackingTask
from tests.console.live import Live
from tests.support.cast import Cast, make_group


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample stays recent for as long as a test takes on a busy machine."""
    monkeypatch.setattr("console.metrics.store.STALE_MS", 600_000)


def sampled(cast: Cast, backlog: dict[Group, int], dead: dict[Group, tuple[int, int]] | None = None) -> None:
    """A reading of now; `dead` has the letters kept, and those that came half an hour ago."""
    now_ms = int(time.time() * 1000)
    change = Change(Latest(now_ms, 10.0, ["broker-a"], []))
    change.backlog.update({group.physical_name: number for group, number in backlog.items()})
    letters = {dead_letter_topic(group.physical_name): numbers for group, numbers in (dead or {}).items()}
    change.stored.update({name: kept for name, (kept, _) in letters.items()})
    store = Store(cast.cluster.name)
    with store.lease() as token:
        assert store.commit(token, change)
    store.add(now_ms - 30 * 60_000, 10.0, {f"in:{name}": (died, 10.0) for name, (_, died) in letters.items()})


def titles(found: Attention) -> list[str]:
    return [one.title for one in found.troubles]


def test_a_group_without_clients_that_is_behind_comes_first(cast: Cast) -> None:
    sampled(cast, {make_group(cast.alice, cast.instance, "GID_left"): 1604})
    found = attention(cast.actor("alice"))
    assert titles(found) == ["GID_left is offline and 1,604 messages wait"]
    (one,) = found.troubles
    assert (one.severity, found.unknown) == (Severity.CRITICAL, [])
    page = html.unescape(cast.client("alice").get(reverse("instances.overview_attention")).content.decode())
    assert "1 thing, worst first" in page
    assert cast.client("alice").get(one.url).status_code == 200


def test_a_group_that_a_client_consumes_for_is_not_offline(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic)
    sampled(cast, {group: 50})
    assert titles(attention(live.actor)) == []


def test_a_backlog_that_grows_is_told_with_by_how_much(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic)
    sampled(cast, {group: 900})
    store, now_ms = Store(cast.cluster.name), int(time.time() * 1000)
    change = Change(Latest(now_ms, 10.0, ["broker-a"], []))
    change.groups[group.physical_name] = b'{"%s":{}}' % topic.physical_name.encode()
    with store.lease() as token:
        assert store.commit(token, change)
    moved = {f"in:{topic.physical_name}": (700, 10.0), f"out:{topic.physical_name}@{group.physical_name}": (200, 10.0)}
    store.add(now_ms - 5 * 60_000, 10.0, moved)
    store.add(now_ms - 20 * 60_000, 10.0, {f"in:{topic.physical_name}": (10_000, 10.0)})
    (one,) = attention(live.actor).troubles
    assert one.title == f"{group.group_id} falls behind: 900 messages"
    assert one.note.startswith("500 messages more than 10 minutes ago")
    assert one.severity == Severity.WARNING


def test_letters_that_died_within_the_hour_are_told_by_group_and_older_ones_are_not(cast: Cast) -> None:
    few, many, old = (make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("few", "many", "old"))
    sampled(cast, {}, {few: (3, 1), many: (171, 171), old: (40, 0)})
    assert titles(attention(cast.actor("alice"))) == [
        "171 dead letters in the last hour in GID_many",
        "1 dead letter in the last hour in GID_few",
    ]


def test_what_has_failed_is_told_with_its_reason_to_who_may_see_it(cast: Cast) -> None:
    fields = {"tenant": cast.acme, "state": State.FAILED, "reason": "The table is gone."}
    Pipeline.objects.create(name="late", kind=Kind.JOB, **fields)
    Pipeline.objects.create(name="orders-in", kind=Kind.INFLOW, **fields)
    Pipeline.objects.create(name="theirs", kind=Kind.JOB, **fields | {"tenant": cast.charlies.tenant})
    TrackingTask.objects.create(tenant=cast.acme, name="shop", port=3306, state="failed", sentence="The table is gone.")
    found = attention(cast.actor("alice"))
    assert titles(found) == [
        "SQL job late has failed",
        "Inflow task orders-in has failed",
        "Changes of the database of shop are not read",
    ]
    assert {one.note for one in found.troubles} == {"The table is gone."}
    assert titles(attention(cast.actor("nora"))) == []


def test_keys_that_nobody_has_used_for_long_are_told_by_user(cast: Cast) -> None:
    issued = create_access_key(actor=cast.actor("alice"), user=cast.users["bob"])
    assert titles(attention(cast.actor("alice"))) == []
    AccessKey.objects.filter(access_key_id=issued.access_key_id).update(created_at=timezone.now() - timedelta(days=91))
    (one,) = attention(cast.actor("alice")).troubles
    assert (one.title, one.severity) == ("1 AccessKey of bob@acme was not used for 90 days", Severity.NOTE)
    assert cast.client("alice").get(one.url).status_code == 200
    assert titles(attention(cast.actor("nora"))) == []


def test_an_outage_is_named_and_hides_nothing_else(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise BrokerUnreachable("broker-a:10911", "connection refused")

    sampled(cast, {make_group(cast.alice, cast.instance, "GID_left"): 5})
    Pipeline.objects.create(tenant=cast.acme, name="late", kind=Kind.JOB, state=State.FAILED)
    monkeypatch.setattr("console.instances.broker.admin", away)
    found = attention(cast.actor("alice"))
    assert (titles(found), found.unknown) == (["SQL job late has failed"], ["groups", "brokers"])
    page = cast.client("alice").get(reverse("instances.overview_attention")).content.decode()
    assert "Could not be looked at" in page
    assert "Nothing needs attention" not in page


def test_without_a_recent_sample_nobody_is_told_that_all_is_well(cast: Cast) -> None:
    make_group(cast.alice, cast.instance, "GID_left")
    found = attention(cast.actor("alice"))
    assert (titles(found), found.unknown) == ([], ["groups", "dead letters"])


def test_a_calm_account_is_said_to_be_calm(cast: Cast) -> None:
    page = cast.client("alice").get(reverse("instances.overview_attention")).content.decode()
    assert "Nothing needs attention" in page
