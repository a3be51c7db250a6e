"""Lists ask for all rows at once what pages ask for one: both must give the same answer."""

from __future__ import annotations

import pytest

from brokercore.policy import mq_resource
from console.accounts.models import Policy, User
from console.topics import queries
from console.topics.models import Group
from tests.support.cast import Cast, make_group, make_topic

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["alice", "bob", "rita", "nora"])
def test_a_list_shows_exactly_the_rows_that_can_be_opened(cast: Cast, name: str) -> None:
    names = ("orders", "orders-eu", "returns")
    topics = [make_topic(cast.alice, cast.instance, n) for n in names]
    groups = [make_group(cast.alice, cast.instance, f"GID_{n}", shared=n == "returns") for n in names]
    Group.objects.filter(pk=groups[0].pk).update(creator=cast.users[name])
    prefix = mq_resource(cast.instance.instance_id)
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Deny", "Action": "mq:Query*", "Resource": f"{prefix}%orders-*"},
            {"Effect": "Allow", "Action": "mq:QueryTopic", "Resource": f"{prefix}%returns"},
            {"Effect": "Allow", "Action": "*", "Resource": f"{prefix}%GID_orders*"},
        ],
    }
    if name != "alice":
        User.objects.get(pk=cast.users[name].pk).policies.add(
            Policy.objects.create(tenant=cast.acme, name="narrow", document=document)
        )
    actor = cast.actor(name)
    for action in ("mq:QueryTopic", "mq:DeleteTopic"):
        one_by_one = {
            t.name for t in topics if actor.decide(action, mq_resource(t.physical_name), owner=cast.acme).allowed
        }
        assert {t.name for t in queries.visible_topics(actor, cast.instance, action)} == one_by_one
    for action in ("mq:QueryGroup", "mq:DeleteGroup"):
        stored = Group.objects.select_related("owner", "creator")
        one_by_one = {
            g.group_id
            for g in stored
            if actor.decide(action, mq_resource(g.physical_name), owner=g.owner, holder=g.holder).allowed
        }
        assert {g.group_id for g in queries.visible_groups(actor, cast.instance, action)} == one_by_one


@pytest.mark.parametrize("pattern", ["topic-1*", "topic-*"])
def test_thousands_of_keys_are_one_parameter_on_either_database(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """Without those that are denied, or with those that are not, whichever are fewer."""
    monkeypatch.setattr(queries, "_MANY_KEYS", 1)
    for number in range(6):
        make_topic(cast.alice, cast.instance, f"topic-{number}{number}")
    for name in ("other-1", "other-2"):
        make_topic(cast.alice, cast.instance, name)
    resource = f"{mq_resource(cast.instance.instance_id)}%{pattern}"
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Allow", "Action": "mq:Query*", "Resource": "*"},
            {"Effect": "Deny", "Action": "mq:QueryTopic", "Resource": resource},
        ],
    }
    denied = Policy.objects.create(tenant=cast.acme, name="denied", document=document)
    User.objects.get(pk=cast.users["bob"].pk).policies.add(denied)
    found = queries.visible_topics(cast.actor("bob"), cast.instance, "mq:QueryTopic").order_by("name")
    shown = [f"topic-{number}{number}" for number in range(6)] if pattern == "topic-1*" else []
    assert list(found.values_list("name", flat=True)) == ["other-1", "other-2", *(n for n in shown if n != "topic-11")]
    assert found.count() == len(found)
