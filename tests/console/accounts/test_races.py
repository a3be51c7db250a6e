"""Changes of users, groups, roles and policies at once: whoever comes too late is told so, and nothing half is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.accounts import services
from console.accounts.models import AccessKey, Policy, Role, User, UserGroup
from console.web.errors import Refused
from tests.support.cast import PASSWORD, Cast
from tests.support.races import DENIED, WON, race
from tests.support.roles import make_role, trusting

pytestmark = pytest.mark.django_db(transaction=True)
GONE = "BIZ_FIELD_CHECK_INVALID"


def _policy(cast: Cast, name: str, action: str = "mq:PUB") -> Policy:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return Policy.objects.create(tenant=cast.acme, name=name, document={"Version": "1", "Statement": [statement]})


def test_of_two_keys_over_the_limit_one_is_made(cast: Cast) -> None:
    services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    create = [
        partial(services.create_access_key, actor=cast.actor("bob"), user=User.objects.get(pk=cast.bob.pk))
        for _ in range(3)
    ]
    assert sorted(race(*create)) == [GONE, GONE, WON]
    assert AccessKey.objects.filter(user=cast.bob).count() == services.MAX_KEYS_PER_USER


@pytest.mark.parametrize("holder", ["user", "group", "role"])
def test_a_policy_is_attached_or_deleted_and_not_both(cast: Cast, holder: str) -> None:
    group = services.create_group(actor=cast.actor("alice"), name="team")
    role = make_role(cast.actor("alice"))
    attach: dict[str, Callable[..., None]] = {
        "user": partial(services.attach_policy, user=cast.nora),
        "group": partial(services.attach_group_policy, group=group),
        "role": partial(services.attach_role_policy, role=role),
    }
    policy = _policy(cast, "contested")
    seen = Policy.objects.get(pk=policy.pk)
    outcome = race(
        partial(attach[holder], actor=cast.actor("alice"), policy=seen),
        partial(services.delete_policy, actor=cast.actor("alice"), policy=policy),
    )
    assert sorted(outcome) == [GONE, WON]
    kept = outcome[0] == WON
    assert Policy.objects.filter(name="contested").exists() is kept
    if not kept:
        with pytest.raises(Refused, match="no longer exists"):
            attach[holder](actor=cast.actor("alice"), policy=seen)


def _users(cast: Cast) -> tuple[Callable[..., Any], Callable[..., Any]]:
    policy, nora = _policy(cast, "some"), User.objects.get(pk=cast.nora.pk)
    return (
        partial(services.attach_policy, user=cast.nora, policy=policy),
        partial(services.delete_user, user=nora),
    )


def _groups(cast: Cast) -> tuple[Callable[..., Any], Callable[..., Any]]:
    group = services.create_group(actor=cast.actor("alice"), name="team")
    seen = UserGroup.objects.get(pk=group.pk)
    return partial(services.add_user, user=cast.nora, group=seen), partial(services.delete_group, group=group)


def _roles(cast: Cast) -> tuple[Callable[..., Any], Callable[..., Any]]:
    role = make_role(cast.actor("alice"))
    seen = Role.objects.get(pk=role.pk)
    return partial(services.assume_role, role=seen, session_name="late"), partial(services.delete_role, role=role)


@pytest.mark.parametrize("prepared", [_users, _groups, _roles])
def test_what_is_given_to_somebody_who_is_being_deleted_goes_too_or_is_refused(
    cast: Cast, prepared: Callable[[Cast], tuple[Callable[..., Any], Callable[..., Any]]]
) -> None:
    give, delete = prepared(cast)
    given, deleted = race(partial(give, actor=cast.actor("alice")), partial(delete, actor=cast.actor("alice")))
    assert (given in (WON, GONE), deleted) == (True, WON)
    with pytest.raises(Refused, match="no longer exists"):
        give(actor=cast.actor("alice"))
    with pytest.raises(Refused, match="no longer exists"):
        delete(actor=cast.actor("alice"))
    assert not AccessKey.objects.filter(role__isnull=False).exists()


def test_a_page_about_what_somebody_else_deleted_meanwhile_says_so(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = _policy(cast, "gone")
    services.create_group(actor=cast.actor("alice"), name="team")
    real = services.attach_group_policy

    def late(**fields: Any) -> None:
        Policy.objects.filter(pk=policy.pk).delete()
        real(**fields)

    monkeypatch.setattr(services, "attach_group_policy", late)
    url = reverse("accounts.group_add_policies", args=["team"])
    response = cast.client("alice").post(url, {"name": str(policy.pk)}, follow=True)
    assert response.redirect_chain == [(reverse("accounts.group", args=["team"]), 302)]
    assert "gone no longer exists" in response.content.decode()


def test_two_harmless_halves_of_a_strong_right_are_not_given_at_once(cast: Cast) -> None:
    """Joining an empty group, and a policy for a group without users, are both allowed; not the one after the other."""
    assume = _policy(cast, "assume", "sts:AssumeRole")
    cast.rita.policies.add(_policy(cast, "ram", "ram:*"), assume)
    trust = trusting(f"acs:ram::{cast.acme.uid}:user/nora")
    make_role(cast.actor("alice"), "Strong", "AliyunMQFullAccess", trust=trust)
    group = services.create_group(actor=cast.actor("alice"), name="team")
    outcome = race(
        partial(services.add_user, actor=cast.actor("rita"), group=group, user=User.objects.get(pk=cast.nora.pk)),
        partial(
            services.attach_group_policy,
            actor=cast.actor("rita"),
            group=UserGroup.objects.get(pk=group.pk),
            policy=Policy.objects.get(pk=assume.pk),
        ),
    )
    assert sorted(outcome) == [DENIED, WON]


def test_a_sign_in_that_was_under_way_while_the_user_was_disabled_opens_nothing_later(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user is disabled, and all its sessions are ended, while the password is being compared."""
    compare = User.check_password

    def slow(user: User, password: str) -> bool:
        fits = compare(user, password)
        services.set_user_enabled(actor=cast.actor("alice"), user=User.objects.get(pk=cast.bob.pk), enabled=False)
        return fits

    monkeypatch.setattr(User, "check_password", slow)
    browser, page = Client(), reverse("accounts.keys")
    browser.post(reverse("account_login"), {"login": "bob@acme", "password": PASSWORD})
    monkeypatch.undo()
    assert "_auth_user_id" in browser.session, "the sign-in came through, or this test says nothing"
    assert not User.objects.get(pk=cast.bob.pk).is_active
    services.set_user_enabled(actor=cast.actor("alice"), user=User.objects.get(pk=cast.bob.pk), enabled=True)
    assert browser.get(page).status_code == 302


def test_signing_in_while_being_disabled_leaves_no_open_session(cast: Cast) -> None:
    browser = Client()
    race(
        lambda: browser.post(reverse("account_login"), {"login": "bob@acme", "password": PASSWORD}),
        partial(
            services.set_user_enabled, actor=cast.actor("alice"), user=User.objects.get(pk=cast.bob.pk), enabled=False
        ),
    )
    assert browser.get(reverse("accounts.keys")).status_code == 302


def test_the_last_administrator_is_not_removed_by_two_at_once(cast: Cast) -> None:
    read_twice = [User.objects.get(pk=cast.alice.pk) for _ in range(2)]
    outcome = race(
        partial(services.delete_user, actor=cast.actor("alice"), user=read_twice[0]),
        partial(services.set_user_enabled, actor=cast.actor("alice"), user=read_twice[1], enabled=False),
    )
    assert outcome == [GONE, GONE]
    assert User.objects.filter(tenant=cast.acme, is_tenant_admin=True, is_active=True).count() == 1
