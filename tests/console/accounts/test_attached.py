"""How many policies can be attached: what somebody may do is decided anew for each of its requests."""

from __future__ import annotations

import pytest
from django.urls import reverse

from console.accounts import queries, services
from console.accounts.actor import Actor
from console.accounts.models import Policy, Role, User, UserGroup
from console.accounts.services.policies import MOST_POLICIES, MOST_POLICIES_IN_ALL
from console.web.errors import Refused
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db
TRUST = {
    "Version": "1",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "dla"}}],
}


@pytest.fixture
def actor(cast: Cast) -> Actor:
    return cast.actor("alice")


def policies(actor: Actor, count: int, prefix: str = "some") -> list[Policy]:
    document = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:PUB", "Resource": "*"}]}
    return [
        services.create_policy(actor=actor, name=f"{prefix}-{number}", description="", document=document)
        for number in range(count)
    ]


def user(actor: Actor, name: str = "many", **more: object) -> User:
    return services.create_user(actor=actor, name=name, password="A-long-Passw0rd-5", **more)  # type: ignore[arg-type]


def group(actor: Actor, name: str, attached: list[Policy]) -> UserGroup:
    made = services.create_group(actor=actor, name=name)
    for policy in attached:
        services.attach_group_policy(actor=actor, group=made, policy=policy)
    return made


def test_a_user_a_group_and_a_role_have_so_many_policies_and_no_more(actor: Actor) -> None:
    *most, beyond = policies(actor, MOST_POLICIES + 1)
    with pytest.raises(Refused, match="at most 20 policies"):
        user(actor, policies=[*most, beyond])
    someone = user(actor, policies=most)
    with pytest.raises(Refused, match="at most 20 policies"):
        services.attach_policy(actor=actor, user=someone, policy=beyond)
    services.attach_policy(actor=actor, user=someone, policy=most[0])  # it has it already
    senders = group(actor, "senders", most)
    with pytest.raises(Refused, match="at most 20 policies"):
        services.attach_group_policy(actor=actor, group=senders, policy=beyond)
    fields = {"actor": actor, "description": "", "trust_policy": TRUST}
    with pytest.raises(Refused, match="at most 20 policies"):
        services.create_role(name="too-many", policies=[*most, beyond], **fields)  # type: ignore[arg-type]
    assert not Role.objects.filter(name="too-many").exists()
    role = services.create_role(name="many", policies=most, **fields)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="at most 20 policies"):
        services.attach_role_policy(actor=actor, role=role, policy=beyond)
    assert {len(holder.policies.all()) for holder in (someone, senders, role)} == {MOST_POLICIES}


def test_what_a_user_has_by_groups_counts_with_its_own(actor: Actor) -> None:
    own, first, second = (policies(actor, MOST_POLICIES, prefix) for prefix in ("own", "first", "second"))
    assert len(own) + len(first) == MOST_POLICIES_IN_ALL
    third = policies(actor, MOST_POLICIES, "third")
    with pytest.raises(Refused, match="more than 40 policies, including those of its groups"):
        full = [group(actor, f"full-{number}", some) for number, some in enumerate((own, first, third))]
        user(actor, "all-by-groups", groups=full)
    groups = [group(actor, "one", first[:-1]), group(actor, "two", second[:1]), group(actor, "same", first[:5])]
    someone = user(actor, policies=own, groups=groups)
    with pytest.raises(Refused, match="more than 40 policies, including those of its groups"):
        services.attach_group_policy(actor=actor, group=groups[0], policy=first[-1])
    with pytest.raises(Refused, match="more than 40 policies, including those of its groups"):
        services.add_user(actor=actor, group=group(actor, "three", second[1:2]), user=someone)
    with pytest.raises(Refused, match="more than 40 policies, including those of its groups"):
        user(actor, "other", policies=own, groups=[*groups, group(actor, "four", second[2:3])])
    services.detach_policy(actor=actor, user=someone, policy=own[0])
    services.attach_group_policy(actor=actor, group=groups[0], policy=first[-1])
    with pytest.raises(Refused, match="more than 40 policies, including those of its groups"):
        services.attach_policy(actor=actor, user=someone, policy=own[0])


@pytest.mark.parametrize("page", ["user", "group", "role"])
def test_the_page_of_a_user_a_group_and_a_role_says_why_a_policy_is_not_attached(
    cast: Cast, actor: Actor, page: str
) -> None:
    *most, beyond = policies(actor, MOST_POLICIES + 1)
    if page == "user":
        name = user(actor, policies=most).username
    elif page == "group":
        name = group(actor, "full", most).name
    else:
        role = services.create_role(actor=actor, name="full", description="", trust_policy=TRUST, policies=most)
        name = role.name
    client = cast.client("alice")
    response = client.post(reverse(f"accounts.{page}_add_policies", args=[name]), {"name": beyond.pk}, follow=True)
    assert response.redirect_chain == [(reverse(f"accounts.{page}", args=[name]), 302)]
    assert "at most 20 policies" in response.content.decode()
    assert not any(holders for _, holders in queries.holders(actor.tenant, beyond))
