"""Pages of user groups: list, members, policies, renaming, deletion."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts import services
from console.accounts.models import User, UserGroup
from console.accounts.policy_documents import system_policy
from console.audit.models import Entry
from tests.support.cast import Cast

GROUP = "accounts.group"


@pytest.fixture
def senders(cast: Cast) -> UserGroup:
    return services.create_group(actor=cast.actor("alice"), name="senders", description="Publish orders")


def test_a_group_is_created_empty_and_leads_to_its_page(cast: Cast) -> None:
    response = cast.client("alice").post(reverse("accounts.group_create"), {"name": "senders", "description": "x"})
    assert response["Location"] == reverse(GROUP, args=["senders"])
    group = UserGroup.objects.get()
    assert (group.tenant, group.users.count(), group.policies.count()) == (cast.acme, 0, 0)
    assert Entry.objects.filter(action="accounts.group.create", resource="senders").exists()


@pytest.mark.parametrize("name", ["", "with space", "a_b", "x" * 65, "a/b", "ünï"])
def test_it_refuses_a_name_that_breaks_the_rule(cast: Cast, name: str) -> None:
    response = cast.client("alice").post(reverse("accounts.group_create"), {"name": name})
    assert response.status_code == 422
    assert "name" in response.context["form"].errors


def test_a_name_is_taken_inside_one_account_only(cast: Cast, senders: UserGroup) -> None:
    again = cast.client("alice").post(reverse("accounts.group_create"), {"name": "senders"})
    assert again.status_code == 422
    assert "already exists" in again.content.decode()
    assert cast.client("charlie").post(reverse("accounts.group_create"), {"name": "senders"}).status_code == 302


def test_a_group_may_be_named_as_the_pages_are(cast: Cast) -> None:
    for name in ("create", "update", "users"):
        services.create_group(actor=cast.actor("alice"), name=name)
        assert cast.client("alice").get(reverse(GROUP, args=[name])).context["group"].name == name


def test_users_are_added_and_removed(cast: Cast, senders: UserGroup) -> None:
    client = cast.client("alice")
    client.post(reverse("accounts.group_add_users", args=["senders"]), {"name": "nora@acme"})
    assert list(senders.users.all()) == [cast.nora]
    page = client.get(reverse(GROUP, args=["senders"])).content.decode()
    assert "nora@acme" in page
    client.post(reverse("accounts.group_remove_user", args=["senders"]), {"name": "nora@acme"})
    assert not senders.users.exists()


def test_nobody_of_another_account_and_no_administrator_becomes_a_member(cast: Cast, senders: UserGroup) -> None:
    client, url = cast.client("alice"), reverse("accounts.group_add_users", args=["senders"])
    assert client.post(url, {"name": cast.charlie.username}).status_code == 404
    client.post(url, {"name": cast.alice.username})
    assert not senders.users.exists()


def test_its_policies_reach_every_member_and_leave_with_the_group(cast: Cast, senders: UserGroup) -> None:
    client, policy = cast.client("alice"), system_policy("AliyunMQReadOnlyAccess")
    services.add_user(actor=cast.actor("alice"), group=senders, user=cast.nora)
    assert cast.client("nora").get(reverse("instances.list")).status_code == 403
    client.post(reverse("accounts.group_add_policies", args=["senders"]), {"name": policy.pk})
    assert cast.client("nora").get(reverse("instances.list")).status_code == 200
    client.post(reverse("accounts.group_detach_policy", args=["senders"]), {"name": policy.pk})
    assert cast.client("nora").get(reverse("instances.list")).status_code == 403
    services.attach_group_policy(actor=cast.actor("alice"), group=senders, policy=policy)
    client.post(reverse("accounts.group_delete", args=["senders"]), {"name": "senders"})
    assert cast.client("nora").get(reverse("instances.list")).status_code == 403
    assert User.objects.filter(pk=cast.nora.pk).exists()


def test_renaming_keeps_users_and_policies(cast: Cast, senders: UserGroup) -> None:
    services.add_user(actor=cast.actor("alice"), group=senders, user=cast.nora)
    data = {"name": "publishers", "description": "New"}
    response = cast.client("alice").post(reverse("accounts.group_update", args=["senders"]), data)
    assert response["Location"] == reverse(GROUP, args=["publishers"])
    assert [g.name for g in cast.nora.user_groups.all()] == ["publishers"]
    services.create_group(actor=cast.actor("alice"), name="taken")
    taken = cast.client("alice").post(reverse("accounts.group_update", args=["publishers"]), {"name": "taken"})
    assert taken.status_code == 422


def test_the_type_ahead_offers_users_that_are_not_members_and_never_more_than_ten(
    cast: Cast, senders: UserGroup
) -> None:
    _many_users(cast, 30)
    client, url = cast.client("alice"), reverse("accounts.group_find_users", args=["senders"])
    picker = client.get(f"{url}?q=user").context["picker"]
    assert [c.name for c in picker.candidates] == [f"user{n:05}@acme" for n in range(10)]
    assert picker.more
    services.add_user(actor=cast.actor("alice"), group=senders, user=cast.bob)
    assert client.get(f"{url}?q=bob").context["picker"].candidates == []
    assert client.get(f"{url}?q=admin").context["picker"].candidates == []


def test_list_and_page_cost_the_same_queries_for_more_rows(cast: Cast, senders: UserGroup) -> None:
    client = cast.client("alice")
    _many_users(cast, 10, senders)
    urls = [reverse("accounts.groups"), reverse(GROUP, args=["senders"])]
    few = [_queries(client, url) for url in urls]
    _many_users(cast, 190, senders, first=10)
    policy = system_policy("AliyunMQFullAccess")
    for number in range(25):
        services.create_group(actor=cast.actor("alice"), name=f"group-{number}").policies.add(policy)
    assert [_queries(client, url) for url in urls] == few


def _queries(client: object, url: str) -> int:
    client.get(url)  # type: ignore[attr-defined]
    with CaptureQueriesContext(connection) as captured:
        client.get(url)  # type: ignore[attr-defined]
    return len(captured)


def _many_users(cast: Cast, count: int, group: UserGroup | None = None, *, first: int = 0) -> None:
    numbers = range(first, first + count)
    made = User.objects.bulk_create(
        User(username=f"user{n:05}@acme", uid=f"9{n:017}", tenant=cast.acme, password="!") for n in numbers
    )
    if group is not None:
        group.users.add(*made)
