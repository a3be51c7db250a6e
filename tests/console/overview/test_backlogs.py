"""The groups that are furthest behind, on the first page: the account's own, as far as the visitor may see them."""

from __future__ import annotations

import html
import time

import pytest
from django.urls import reverse

from brokercore.client.errors import BrokerUnreachable
from console.accounts import services as accounts
from console.accounts.models import Policy
from console.metrics.store import Change, Latest, Store
from console.overview import queries
from console.topics.models import Group
from tests.support.cast import PASSWORD, Cast, make_group, make_instance, make_topic


@pytest.fixture
def behind(cast: Cast) -> dict[str, int]:
    """Groups of two instances and of another account, and how far the last sample found each behind."""
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    groups = [make_group(cast.alice, cast.instance, f"GID_{n}") for n in range(3)]
    groups += [
        # Without a namespace, and the broker outlives the test.
        Group.objects.create(instance=bare, group_id="GID_bare", physical_name="GID_bare", owner=cast.acme),
        make_group(cast.charlie, cast.charlies, "GID_theirs"),
    ]
    backlog = {group.physical_name: number for group, number in zip(groups, (5, 0, 70, 900, 10_000), strict=True)}
    store = Store(cast.cluster.name)
    change = Change(Latest(int(time.time() * 1000), None, ["broker-a"], []))
    change.backlog.update(backlog)
    with store.lease() as token:
        assert store.commit(token, change)
    return backlog


def test_the_furthest_behind_comes_first_of_all_instances(cast: Cast, behind: dict[str, int]) -> None:
    found = queries.backlogs(cast.actor("alice"), most=3)
    told = [(one.group.group_id, one.backlog) for one in found.behind]
    assert told == [("GID_bare", 900), ("GID_2", 70), ("GID_0", 5)]
    assert found.groups == 4 and found.sampled_at
    page = html.unescape(cast.client("alice").get("/").content.decode())
    assert page.index("Groups by backlog") < page.index("Instances</h2>")
    assert page.index("GID_bare") < page.index("GID_2") and "GID_theirs" not in page
    part = cast.client("alice").get(reverse("instances.overview_backlogs")).content.decode()
    assert "900" in part and "every 20s" in part


def test_who_sees_some_groups_sees_the_backlog_of_these_alone(cast: Cast, behind: dict[str, int]) -> None:
    name = f"{cast.instance.instance_id}%GID_0"
    instance = f"acs:mq:*:*:{cast.instance.instance_id}"
    statements = [
        {"Effect": "Allow", "Action": ["mq:QueryInstance"], "Resource": instance},
        {"Effect": "Allow", "Action": ["mq:QueryGroup"], "Resource": f"acs:mq:*:*:{name}"},
    ]
    document = {"Version": "1", "Statement": statements}
    policy = Policy.objects.create(tenant=cast.acme, name="one-group", document=document)
    user = accounts.create_user(actor=cast.actor("alice"), name="olga", password=PASSWORD, policies=[policy])
    cast.users["olga"] = user
    found = queries.backlogs(cast.actor("olga"))
    assert [(one.group.group_id, one.backlog) for one in found.behind] == [("GID_0", 5)]
    assert cast.client("nora").get(reverse("instances.overview_backlogs")).status_code == 403


def test_without_a_sample_no_backlog_is_claimed_and_it_is_asked_for_soon(cast: Cast) -> None:
    make_group(cast.alice, cast.instance)
    found = queries.backlogs(cast.actor("alice"))
    assert (found.behind, found.groups, found.sampled_at) == ([], 1, None)
    page = cast.client("alice").get("/").content.decode()
    assert "No recent sample" in page and "every 2s" in page


def test_before_there_is_a_group_the_part_is_there_and_fills_by_itself(cast: Cast) -> None:
    page = cast.client("alice").get("/").content.decode()
    assert "No group yet" in page and reverse("instances.overview_backlogs") in page


def test_a_group_that_nobody_consumes_for_is_called_offline_and_told_how_long_it_waits(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance, "orders")
    left, long = (make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("left", "long"))
    now_ms, store = int(time.time() * 1000), Store(cast.cluster.name)
    change = Change(Latest(now_ms, 10.0, ["broker-a"], []))
    change.backlog.update({left.physical_name: 30, long.physical_name: 5000})
    for group in (left, long):
        change.groups[group.physical_name] = b'{"%s":{}}' % topic.physical_name.encode()
    with store.lease() as token:
        assert store.commit(token, change)
    for minutes in range(72):
        store.add(now_ms - minutes * 60_000, 60.0, {})
    store.add(now_ms - 17 * 60_000, 60.0, {f"in:{topic.physical_name}": (20, 60.0)})
    store.add(now_ms - 2 * 60_000, 10.0, {f"in:{topic.physical_name}": (20, 10.0)})
    told = {one.group.group_id: one for one in queries.groups_by_backlog(cast.actor("alice")).behind}
    assert told["GID_left"].words == "offline"
    assert told["GID_left"].delay_s == pytest.approx(18 * 60, abs=30)
    assert told["GID_long"].waits == "more than an hour"
    page = cast.client("alice").get(reverse("instances.overview_backlogs")).content.decode()
    assert "the oldest waits 18 min" in page
    assert '<span class="text-secondary">offline</span>' in page
    page = cast.client("alice").get(reverse("instances.overview_attention")).content.decode()
    assert "GID_left is offline and 30 messages wait" in page
    assert "the oldest waits 18 min" in page


def test_brokers_that_do_not_answer_are_asked_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [make_group(cast.alice, cast.instance, f"GID_{n}") for n in range(3)]
    change = Change(Latest(int(time.time() * 1000), 10.0, ["broker-a"], []))
    change.backlog.update({group.physical_name: 9 for group in groups})
    with Store(cast.cluster.name).lease() as token:
        assert Store(cast.cluster.name).commit(token, change)
    asked = []

    def silent(group: Group) -> None:
        asked.append(group)
        raise BrokerUnreachable("broker-a", "it does not answer")

    monkeypatch.setattr(queries, "clients_of", silent)
    found = queries.groups_by_backlog(cast.actor("alice"))
    assert len(asked) == 1
    assert {one.words for one in found.behind} == {"consumes nothing"}
