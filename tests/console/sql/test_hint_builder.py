"""The hint that the editor writes: what may be chosen, and where in the text it goes."""

from __future__ import annotations

import pytest

from console.accounts.models import User
from console.instances.models import Cluster, Instance
from console.sql import hint_builder
from console.topics.models import Group, Topic
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db
MAY_PUBLISH = {
    "Version": "1",
    "Statement": [{"Effect": "Allow", "Action": "mq:PUB", "Resource": "acs:mq:*:*:*%open-*"}],
}


@pytest.fixture
def instance(cast: Cast) -> Instance:
    """With 10,000 topics, as accounts have."""
    cluster = Cluster.objects.create(name="c", region="mq-private", namesrv="127.0.0.1:9876")
    made = Instance.objects.create(
        instance_id="MQ_INST_1_a", tenant=cast.alice.tenant, cluster=cluster, region="mq-private", name="stock"
    )
    names = [f"topic-{number:05}" for number in range(10_000)] + ["open-orders", "open-bills"]
    topics = [Topic(instance=made, name=name, physical_name=f"MQ_INST_1_a%{name}", order_type=0) for name in names]
    Topic.objects.bulk_create(topics, batch_size=500)
    for name in ("GID_a", "GID_b"):
        Group.objects.create(instance=made, group_id=name, physical_name=f"MQ_INST_1_a%{name}", owner=made.tenant)
    return made


def test_lists_are_short_and_found_by_what_is_typed(cast: Cast, instance: Instance) -> None:
    assert len(hint_builder.topics(cast.alice, "MQ_INST_1_a")) == hint_builder.LISTED
    assert [o.value for o in hint_builder.topics(cast.alice, "MQ_INST_1_a", "09999")] == ["topic-09999"]
    assert [o.value for o in hint_builder.groups(cast.alice, "", "_b")] == ["GID_b"]
    assert [o.value for o in hint_builder.instances(cast.alice, "sto")] == ["MQ_INST_1_a"]
    assert hint_builder.topics(cast.charlie, "MQ_INST_1_a") == hint_builder.instances(cast.charlie) == []


def test_only_what_the_caller_may_publish_to_is_offered(cast: Cast, instance: Instance) -> None:
    bob = allow(User.objects.get(pk=cast.bob.person.pk), MAY_PUBLISH)
    assert [o.value for o in hint_builder.topics(bob, "MQ_INST_1_a", "open")] == ["open-bills", "open-orders"]
    assert hint_builder.topics(bob, "MQ_INST_1_a", "topic-09") == []


@pytest.mark.parametrize(
    ("changed", "field"), [({"topic": "none"}, "topic"), ({"group": "x"}, "group"), ({"instance_id": ""}, "instance")]
)
def test_what_cannot_be_named_is_refused_beside_its_field(
    cast: Cast, instance: Instance, changed: dict[str, str], field: str
) -> None:
    wanted = {"instance_id": "MQ_INST_1_a", "topic": "open-orders", "group": "GID_a"} | changed
    with pytest.raises(Refused) as refused:
        hint_builder.written(cast.alice, run_async=True, notify="ons", **wanted)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", "/*+ h */\nselect 1"),
        ("/*+ run_async=true */ select 1", "/*+ h */\nselect 1"),
        ("-- mine\n/* +run_async=true*/\nselect 1", "-- mine\n/*+ h */\nselect 1"),
        ("select /*+ broadcast(a) */ * from a", "/*+ h */\nselect /*+ broadcast(a) */ * from a"),
        ("-- /*+ mine */\nselect 1", "/*+ h */\n-- /*+ mine */\nselect 1"),
        ("", "/*+ h */\n"),
        ("/* never closed", "/*+ h */\n/* never closed"),
    ],
)
def test_it_replaces_the_hint_in_front_and_nothing_else(text: str, expected: str) -> None:
    assert hint_builder.edit(text, "/*+ h */").applied(text) == expected
