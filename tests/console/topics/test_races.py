"""Writers at once, in real threads on a real database and broker: one wins, the others get the documented answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from console.accounts import services as accounts
from console.accounts.models import User
from console.audit.models import Entry
from console.instances import broker as clients
from console.instances import services as instances
from console.instances.models import Instance
from console.topics import grants
from console.topics import services as topics
from console.topics.models import Grant, Group, OrderType, Topic
from console.web.errors import Refused
from tests.support.cast import Cast, make_instance, make_topic, on_broker
from tests.support.races import WON, race

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS = 4


def _race(*attempts: Callable[[], Any]) -> list[str]:
    return sorted(race(*attempts), key=lambda word: word != WON)


def test_one_of_several_gets_the_name_of_a_topic(cast: Cast) -> None:
    def create(order_type: OrderType) -> Callable[[], Topic]:
        return lambda: topics.create_topic(
            actor=cast.actor("alice"), instance=cast.instance, name="raced", order_type=order_type
        )

    outcomes = _race(*[create(order_type) for order_type in list(OrderType)[:WRITERS]])
    assert outcomes == ["won"] + ["BIZ_TOPIC_EXISTED"] * (WRITERS - 1)
    topic = Topic.objects.get()
    config = clients.admin(cast.cluster).topics.config(topic.physical_name)
    assert config.message_type == topics.MESSAGE_TYPES[OrderType(topic.order_type)]


def test_one_of_two_accounts_gets_a_bare_name(cast: Cast) -> None:
    bare = [
        make_instance(owner, cast.cluster, name="bare", independent_naming=False)
        for owner in (cast.alice, cast.charlie)
    ]
    actors = [cast.actor("alice"), cast.actor("charlie")]
    pairs = list(zip(actors, bare, strict=True))

    def make_topics(actor: Any, instance: Instance) -> Callable[[], Any]:
        return lambda: topics.create_topic(actor=actor, instance=instance, name="bare-raced", order_type=0)

    def make_groups(actor: Any, instance: Instance) -> Callable[[], Any]:
        return lambda: topics.create_group(actor=actor, instance=instance, group_id="GID_bare_raced")

    assert _race(*[make_topics(*pair) for pair in pairs]) == ["won", "BIZ_TOPIC_EXISTED"]
    outcomes = _race(*[make_groups(*pair) for pair in pairs])
    assert outcomes == ["won", "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER"]
    assert (Topic.objects.count(), Group.objects.count()) == (1, 1)
    # The broker is shared with other tests, and bare names are in nobody's way only once they are gone.
    topics.remove_topic(Topic.objects.get())
    topics.remove_group(Group.objects.get())


def test_one_of_several_gets_a_group_id(cast: Cast) -> None:
    def create() -> Group:
        return topics.create_group(actor=cast.actor("alice"), instance=cast.instance, group_id="GID_raced")

    assert _race(*[create] * WRITERS) == ["won"] + ["BIZ_SUBSCRIPTION_EXISTED"] * (WRITERS - 1)
    assert Group.objects.count() == 1
    assert cast.instance.physical_name("GID_raced") in on_broker(cast.cluster)


def test_the_last_place_of_an_instance_is_given_once(cast: Cast) -> None:
    small = make_instance(cast.alice, cast.cluster, name="small", topic_capacity=2)
    make_topic(cast.alice, small, "first")

    def create(number: int) -> Callable[[], Topic]:
        return lambda: topics.create_topic(
            actor=cast.actor("alice"), instance=small, name=f"second-{number}", order_type=0
        )

    outcomes = _race(*[create(number) for number in range(WRITERS)])
    assert outcomes == ["won"] + ["BIZ_TOPIC_QUOTA_EXCEEDED"] * (WRITERS - 1)
    kept = set(Topic.objects.filter(instance=small).values_list("physical_name", flat=True))
    assert {name for name in on_broker(cast.cluster) if name.startswith(f"{small.instance_id}%")} == kept


@pytest.mark.parametrize(
    ("fields", "symbol"),
    [
        ({"independent_naming": True}, "BIZ_INSTANCE_EXISTED"),
        ({"independent_naming": False, "name": ""}, "BIZ_INSTANCE_DEFAULT_EXISTED"),
    ],
)
def test_one_of_several_gets_an_instance(cast: Cast, fields: dict[str, Any], symbol: str) -> None:
    def create(number: int) -> Callable[[], Instance]:
        name = "raced" if "name" not in fields else f"raced-{number}"
        return lambda: instances.create_instance(
            actor=cast.actor("alice"), cluster=cast.cluster.name, **(fields | {"name": name})
        )

    before = Instance.objects.count()
    assert _race(*[create(number) for number in range(WRITERS)]) == ["won"] + [symbol] * (WRITERS - 1)
    assert Instance.objects.count() == before + 1


def test_the_last_of_the_instances_is_made_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MAX_INSTANCES", 2)

    def create(number: int) -> Callable[[], Instance]:
        return lambda: instances.create_instance(
            actor=cast.actor("alice"), cluster=cast.cluster.name, name=f"last-{number}", independent_naming=True
        )

    outcomes = _race(*[create(number) for number in range(WRITERS)])
    assert outcomes == ["won"] + ["BIZ_INSTANCE_QUOTA_EXCEEDED"] * (WRITERS - 1)


def test_one_of_several_grants_is_given(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)

    def grant(relation: int) -> Callable[[], Grant]:
        return lambda: grants.create_grant(
            actor=cast.actor("alice"), topic=topic, relation=relation, tenant=cast.charlie.tenant
        )

    assert _race(grant(2), grant(4), grant(6)) == ["won", "EMPOWER_EXIST_ERROR", "EMPOWER_EXIST_ERROR"]
    assert Grant.objects.count() == 1


def test_a_topic_is_deleted_once(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)

    read_twice = [Topic.objects.get(pk=topic.pk) for _ in range(2)]
    outcomes = _race(*[partial(topics.delete_topic, actor=cast.actor("alice"), topic=row) for row in read_twice])
    assert outcomes == ["won", "BIZ_TOPIC_NOT_FOUND"]
    assert topic.physical_name not in on_broker(cast.cluster)


def test_a_grant_is_revoked_once(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    grant = grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=6, tenant=cast.charlie.tenant)
    read_twice = [Grant.objects.select_related("topic__instance__tenant", "tenant").get(pk=grant.pk) for _ in range(2)]
    revoke = partial(grants.delete_grant, actor=cast.actor("alice"))
    assert _race(*[partial(revoke, grant=row) for row in read_twice]) == ["won", "EMPOWER_NOT_FOUND"]
    assert Entry.objects.filter(action="topics.grant.delete", tenant=cast.charlie.tenant).count() == 1


def test_a_grant_on_a_topic_that_is_being_deleted_is_refused_or_goes_with_it(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    first, second = (Topic.objects.select_related("instance__tenant").get(pk=topic.pk) for _ in range(2))
    granted, deleted = race(
        partial(grants.create_grant, actor=cast.actor("alice"), topic=first, relation=6, tenant=cast.charlie.tenant),
        partial(topics.delete_topic, actor=cast.actor("alice"), topic=second),
    )
    assert (granted in ("won", "BIZ_TOPIC_NOT_FOUND"), deleted) == (True, "won")
    with pytest.raises(Refused, match="no longer exists"):
        grants.create_grant(actor=cast.actor("alice"), topic=first, relation=6, tenant=cast.charlie.tenant)
    assert not Topic.objects.exists()
    assert not Grant.objects.exists()


def test_a_grant_to_a_user_that_is_being_deleted_is_refused_or_goes_with_it(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    nora = User.objects.get(pk=cast.nora.pk)
    granted, deleted = race(
        partial(grants.create_grant, actor=cast.actor("alice"), topic=topic, relation=2, user=nora),
        partial(accounts.delete_user, actor=cast.actor("alice"), user=User.objects.get(pk=cast.nora.pk)),
    )
    assert (granted in ("won", "BIZ_FIELD_CHECK_INVALID"), deleted) == (True, "won")
    with pytest.raises(Refused, match="no longer exists"):
        grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=2, user=nora)
    assert not Grant.objects.exists()


@pytest.mark.parametrize("what", ["topic", "group"])
def test_nothing_is_made_in_an_instance_that_was_deleted_meanwhile(cast: Cast, what: str) -> None:
    instance = make_instance(cast.alice, cast.cluster, name="short-lived")
    seen = Instance.objects.select_related("tenant", "cluster").get(pk=instance.pk)
    make: Callable[[], Any] = (
        partial(topics.create_topic, actor=cast.actor("alice"), instance=seen, name="late", order_type=0)
        if what == "topic"
        else partial(topics.create_group, actor=cast.actor("alice"), instance=seen, group_id="GID_late")
    )
    made, deleted = race(make, partial(instances.delete_instance, actor=cast.actor("alice"), instance=instance))
    assert (made, deleted) in (("won", "BIZ_INSTANCE_NOT_EMPTY"), ("BIZ_INSTANCE_NOT_FOUND", "won"))
    kept = made == "won"
    assert Instance.objects.filter(instance_id=seen.instance_id).exists() is kept
    assert any(name.startswith(seen.instance_id) for name in on_broker(cast.cluster)) is kept
    if not kept:
        with pytest.raises(Refused, match="no longer exists"):
            make()
