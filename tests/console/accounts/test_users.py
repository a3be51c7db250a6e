"""Pages of users: the list with its filters, creation, rights, sign-in, deletion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.accounts import services
from console.accounts.models import AccessKey, DatabaseAccount, Policy, User, UserGroup
from console.accounts.policy_documents import system_policy
from console.accounts.queries import UserFilter, found_users, held_policies
from console.audit.models import Entry
from console.sql.models import QueryTask
from console.web.errors import Refused
from tests.support.cast import PASSWORD, Cast

USERS = "accounts.users"


# --- The list


@pytest.fixture
def groups(cast: Cast) -> dict[str, UserGroup]:
    """Nora is in `senders`, whose policy allows to publish; Bob is in `empty`."""
    actor = cast.actor("alice")
    made = {name: services.create_group(actor=actor, name=name) for name in ("senders", "empty")}
    services.attach_group_policy(actor=actor, group=made["senders"], policy=system_policy("AliyunMQPubOnlyAccess"))
    services.add_user(actor=actor, group=made["senders"], user=cast.nora)
    services.add_user(actor=actor, group=made["empty"], user=cast.bob)
    return made


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["admin", "bob", "nora", "rita"]),
        ("q=O", ["bob", "nora"]),
        ("signed_in=lately", ["admin", "bob"]),
        ("signed_in=earlier", ["rita"]),
        ("signed_in=never", ["nora"]),
        ("state=disabled", ["rita"]),
        ("state=enabled&signed_in=never", ["nora"]),
        ("mfa=bound", ["bob"]),
        ("mfa=unbound", ["admin", "nora", "rita"]),
        ("mfa=required", ["nora"]),
        ("group=senders", ["nora"]),
        ("policy=AliyunMQPubOnlyAccess", ["nora"]),
        ("policy=AliyunMQFullAccess", ["bob"]),
        ("policy=-", []),
        ("group=nobody-knows-it", []),
    ],
)
def test_it_narrows_the_list(cast: Cast, groups: dict[str, UserGroup], query: str, names: list[str]) -> None:
    now = timezone.now()
    User.objects.filter(pk=cast.bob.pk).update(last_login=now)
    User.objects.filter(pk=cast.rita.pk).update(last_login=now - timedelta(days=31), is_active=False)
    User.objects.filter(pk=cast.nora.pk).update(mfa_required=True)
    Authenticator.objects.create(user=cast.bob, type="totp", data={})
    Authenticator.objects.create(user=cast.nora, type="recovery_codes", data={})
    response = cast.client("alice").get(f"{reverse(USERS)}?{query}")
    assert [row.record.username for row in response.context["table"].rows] == [f"{name}@acme" for name in names]


def test_users_without_any_policy_are_those_with_none_of_their_own_and_none_of_a_group(cast: Cast) -> None:
    wanted = UserFilter(policy="-")
    assert [u.username for u in found_users(cast.acme, wanted)] == ["nora@acme"]
    group = services.create_group(actor=cast.actor("alice"), name="quiet")
    services.add_user(actor=cast.actor("alice"), group=group, user=cast.nora)
    assert [u.username for u in found_users(cast.acme, wanted)] == ["nora@acme"]
    services.attach_group_policy(actor=cast.actor("alice"), group=group, policy=system_policy("AliyunMQFullAccess"))
    assert not found_users(cast.acme, wanted)


@pytest.mark.parametrize("column", ["username", "has_device", "is_active", "last_login", "date_joined"])
def test_it_sorts_by_each_column_both_ways(cast: Cast, column: str) -> None:
    client = cast.client("alice")
    for direction in ("", "-"):
        assert client.get(f"{reverse(USERS)}?sort={direction}{column}").status_code == 200


def test_a_fragment_is_the_table_of_the_page(cast: Cast) -> None:
    fragment = cast.client("alice").get(f"{reverse(USERS)}?q=bob", headers={"HX-Request": "true"}).content.decode()
    assert fragment.strip().startswith('<div id="results"')
    assert "rita@acme" not in fragment


def test_the_list_of_users_costs_the_same_queries_for_more_rows(cast: Cast, groups: dict[str, UserGroup]) -> None:
    client, url = cast.client("alice"), reverse(USERS)
    client.get(url)
    with CaptureQueriesContext(connection) as few:
        client.get(url)
    _many_users(cast, 200, group=groups["senders"])
    with CaptureQueriesContext(connection) as many:
        assert len(client.get(url).context["table"].page.object_list) == 20
    assert len(many) == len(few)


# --- Creation


def test_creating_a_user_attaches_the_ticked_policies_and_groups(cast: Cast, groups: dict[str, UserGroup]) -> None:
    data = {
        "name": "dora",
        "display_name": "Dora Döring",
        "password": PASSWORD,
        "policies": [system_policy("AliyunMQPubOnlyAccess").pk],
        "groups": [groups["empty"].pk],
    }
    response = cast.client("alice").post(reverse("accounts.user_create"), data)
    assert response["Location"] == reverse("accounts.user", args=["dora@acme"])
    dora = User.objects.get(username="dora@acme")
    assert [p.name for p in dora.policies.all()] == ["AliyunMQPubOnlyAccess"]
    assert [g.name for g in dora.user_groups.all()] == ["empty"]
    assert dora.get_full_name() == "Dora Döring"
    assert dora.must_change_password


def test_a_drawn_first_password_is_shown_once_and_works(cast: Cast) -> None:
    client = cast.client("alice")
    response = client.post(reverse("accounts.user_create"), {"name": "dora"})
    password = response.context["password"]
    assert response.status_code == 200
    assert password in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    assert User.objects.get(username="dora@acme").check_password(password)
    assert password not in client.get(reverse("accounts.user", args=["dora@acme"])).content.decode()


@pytest.mark.parametrize(
    ("data", "field"),
    [({"name": "bob"}, "name"), ({"name": "a b"}, "name"), ({"name": "dora", "password": "short"}, "password")],
)
def test_what_is_wrong_is_said_beside_the_field(cast: Cast, data: dict[str, str], field: str) -> None:
    response = cast.client("alice").post(reverse("accounts.user_create"), data)
    assert response.status_code == 422
    assert list(response.context["form"].errors) == [field]


def test_a_policy_or_a_group_of_another_account_cannot_be_given(cast: Cast) -> None:
    foreign = Policy.objects.create(tenant=cast.charlies.tenant, name="foreign", document={})
    theirs = services.create_group(actor=cast.actor("charlie"), name="theirs")
    client = cast.client("alice")
    assert (
        client.post(reverse("accounts.user_add_policies", args=["nora@acme"]), {"name": foreign.pk}).status_code == 404
    )
    assert client.post(reverse("accounts.user_add_groups", args=["nora@acme"]), {"name": "theirs"}).status_code == 404
    response = client.post(reverse("accounts.user_create"), {"name": "dora", "policies": [foreign.pk]})
    assert response.status_code == 422
    assert not User.objects.filter(policies=foreign).exists()
    assert not theirs.users.exists()


# --- Rights


def test_a_policy_is_attached_and_detached(cast: Cast) -> None:
    client, policy = cast.client("alice"), system_policy("AliyunMQPubOnlyAccess")
    client.post(reverse("accounts.user_add_policies", args=["nora@acme"]), {"name": policy.pk})
    assert list(cast.nora.policies.all()) == [policy]
    client.post(reverse("accounts.user_detach_policy", args=["nora@acme"]), {"name": policy.pk})
    assert not cast.nora.policies.exists()
    actions = [e.action for e in Entry.objects.filter(resource="nora@acme").order_by("pk")]
    assert actions[-2:] == ["accounts.user.attach_policy", "accounts.user.detach_policy"]


def test_inherited_policies_are_shown_with_their_groups_and_cannot_be_detached_here(
    cast: Cast, groups: dict[str, UserGroup]
) -> None:
    (held,) = held_policies(cast.nora)
    assert (held.policy.name, held.direct, held.groups) == ("AliyunMQPubOnlyAccess", False, (groups["senders"],))
    page = cast.client("alice").get(reverse("accounts.user", args=["nora@acme"])).content.decode()
    assert "AliyunMQPubOnlyAccess" in page
    assert "Detach" not in page


def test_a_user_joins_and_leaves_a_group(cast: Cast, groups: dict[str, UserGroup]) -> None:
    client = cast.client("alice")
    client.post(reverse("accounts.user_add_groups", args=["rita@acme"]), {"name": "senders"})
    assert groups["senders"].users.filter(pk=cast.rita.pk).exists()
    client.post(reverse("accounts.user_leave_group", args=["rita@acme"]), {"name": "senders"})
    assert not groups["senders"].users.filter(pk=cast.rita.pk).exists()


def test_the_type_ahead_finds_what_is_not_attached_yet_and_never_more_than_ten(cast: Cast) -> None:
    for number in range(12):
        Policy.objects.create(tenant=cast.acme, name=f"orders-{number:02}", document={})
    client, url = cast.client("alice"), reverse("accounts.user_find_policies", args=["bob@acme"])
    picker = client.get(f"{url}?q=orders").context["picker"]
    assert [c.name for c in picker.candidates] == [f"orders-{n:02}" for n in range(10)]
    assert picker.more
    assert client.get(f"{url}?q=AliyunMQFullAccess").context["picker"].candidates == []
    fragment = client.get(f"{url}?q=orders-11", headers={"HX-Request": "true"}).content.decode()
    assert fragment.strip().startswith('<div id="policies-candidates"')


# --- Sign-in


def test_a_disabled_user_loses_running_sessions(cast: Cast) -> None:
    bob = cast.client("bob")
    assert bob.get("/").status_code == 200
    cast.client("alice").post(reverse("accounts.user_switch", args=["bob@acme"]), {"enabled": "false"})
    assert bob.get("/").status_code == 302


def test_signing_out_everywhere_ends_sessions_and_leaves_the_user_enabled(cast: Cast) -> None:
    bob = cast.client("bob")
    assert bob.get("/").status_code == 200
    cast.client("alice").post(reverse("accounts.user_sign_out", args=["bob@acme"]))
    assert bob.get("/").status_code == 302
    assert User.objects.get(pk=cast.bob.pk).is_active


def test_a_new_first_password_is_drawn_and_ends_sessions(cast: Cast) -> None:
    bob = cast.client("bob")
    bob.get("/")
    response = cast.client("alice").post(reverse("accounts.user_password", args=["bob@acme"]))
    fresh = User.objects.get(pk=cast.bob.pk)
    assert fresh.check_password(response.context["password"])
    assert fresh.must_change_password
    assert not UserSession.objects.filter(user=cast.bob).exists()
    assert Entry.objects.get(action="accounts.session.end", resource="bob@acme").detail == {"sessions": 1}
    assert bob.get("/").status_code == 302


def test_mfa_is_required_and_its_devices_are_removed_on_record(cast: Cast) -> None:
    client = cast.client("alice")
    client.post(reverse("accounts.user_mfa", args=["bob@acme"]), {"required": "true"})
    assert User.objects.get(pk=cast.bob.pk).mfa_required
    Authenticator.objects.create(user=cast.bob, type="totp", data={})
    assert "Remove devices" in client.get(reverse("accounts.user", args=["bob@acme"])).content.decode()
    client.post(reverse("accounts.user_mfa_remove", args=["bob@acme"]), {"name": "bob@acme"})
    assert not Authenticator.objects.exists()
    assert Entry.objects.filter(action__startswith="accounts.mfa.", resource="bob@acme").count() == 2


def test_its_administrator_disables_and_deletes_a_users_key_and_never_sees_a_secret(cast: Cast) -> None:
    issued = services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    client = cast.client("alice")
    page = client.get(reverse("accounts.user", args=["bob@acme"])).content.decode()
    assert issued.access_key_id in page
    assert issued.access_key_secret not in page
    arguments = ["bob@acme", issued.access_key_id]
    client.post(reverse("accounts.user_key_switch", args=arguments), {"enabled": "false"})
    assert not AccessKey.objects.get().enabled
    client.post(reverse("accounts.user_key_delete", args=arguments), {"name": issued.access_key_id})
    assert not AccessKey.objects.exists()


# --- Deletion


def test_deleting_a_user_needs_its_name_and_takes_keys_sessions_and_sql_sign_in_along(cast: Cast) -> None:
    services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    services.set_database_password(user=cast.bob, name="bob", password=PASSWORD)
    task = QueryTask.objects.create(
        id="q-1", tenant=cast.acme, creator=cast.bob, submitter="bob@acme", table_schema="acme", command="x"
    )
    bob = cast.client("bob")
    bob.get("/")
    client, url = cast.client("alice"), reverse("accounts.user_delete", args=["bob@acme"])
    assert client.post(url, {"name": "bob"}).status_code == 422
    assert client.post(url, {"name": "bob@acme"})["Location"] == reverse(USERS)
    assert not User.objects.filter(username="bob@acme").exists()
    assert not AccessKey.objects.exists()
    assert not DatabaseAccount.objects.exists()
    assert bob.get("/").status_code == 302
    task.refresh_from_db()
    assert (task.creator, task.submitter) == (None, "bob@acme")
    assert Entry.objects.filter(action="accounts.user.delete", resource="bob@acme").exists()


def test_a_new_user_of_the_same_name_inherits_nothing(cast: Cast) -> None:
    QueryTask.objects.create(
        id="q-1", tenant=cast.acme, creator=cast.bob, submitter="bob@acme", table_schema="acme", command="x"
    )
    services.delete_user(actor=cast.actor("alice"), user=cast.bob)
    again = services.create_user(actor=cast.actor("alice"), name="bob", password=PASSWORD)
    assert not again.query_tasks.exists()
    assert not held_policies(again)


@pytest.mark.parametrize("act", ["disable", "delete"])
def test_nobody_ends_itself_and_nobody_the_administrator(cast: Cast, act: str) -> None:
    acts: dict[str, Any] = {
        "disable": lambda user: services.set_user_enabled(actor=cast.actor("alice"), user=user, enabled=False),
        "delete": lambda user: services.delete_user(actor=cast.actor("alice"), user=user),
    }
    with pytest.raises(Refused):
        acts[act](cast.alice)
    assert User.objects.get(pk=cast.alice.pk).is_active


def _many_users(cast: Cast, count: int, *, group: UserGroup | None = None) -> None:
    """Rows straight into the tables: hashing hundreds of passwords is not what is tested."""
    made = User.objects.bulk_create(
        User(username=f"user{n:05}@acme", uid=f"9{n:017}", tenant=cast.acme, password="!") for n in range(count)
    )
    policy = system_policy("AliyunMQFullAccess")
    User.policies.through.objects.bulk_create(  # type: ignore[attr-defined]
        User.policies.through(user_id=user.pk, policy_id=policy.pk) for user in made
    )
    if group is not None:
        group.users.add(*made)


def test_names_that_differ_in_case_alone_are_taken(cast: Cast) -> None:
    with pytest.raises(Refused, match="already exists"):
        services.create_user(actor=cast.actor("alice"), name="BOB", password=PASSWORD)
