"""A RAM user with rights on users reaches no further than its own rights. The attacks of somebody who tries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from brokercore.policy import Context, Statement
from console.accounts import services
from console.accounts.delegation import covers
from console.accounts.models import Policy, User
from console.accounts.policy_documents import system_policy
from console.audit.models import Entry
from tests.support.cast import PASSWORD, Cast

MQ = "acs:mq:*:*:"


def _policy(cast: Cast, name: str, *statements: dict[str, Any]) -> Policy:
    return Policy.objects.create(tenant=cast.acme, name=name, document={"Version": "1", "Statement": list(statements)})


@pytest.fixture
def rita(cast: Cast) -> Iterator[Client]:
    """Rita keeps the users: everything of RAM, and what she could see already."""
    cast.rita.policies.add(_policy(cast, "ram", {"Effect": "Allow", "Action": "ram:*", "Resource": "*"}))
    yield cast.client("rita")


ATTACKS: list[tuple[str, dict[str, str]]] = [
    ("user_password", {"password": "Another-horse-8"}),
    ("user_switch", {"enabled": "false"}),
    ("user_delete", {"name": "{user}"}),
    ("user_mfa", {"required": "false"}),
    ("user_mfa_remove", {"name": "{user}"}),
    ("user_sign_out", {}),
    ("user_update", {"display_name": "x"}),
]


@pytest.mark.parametrize(("page", "data"), ATTACKS, ids=[a[0] for a in ATTACKS])
@pytest.mark.parametrize("name", ["alice", "bob"])
def test_it_cannot_touch_the_administrator_nor_a_user_with_more_rights(
    cast: Cast, rita: Client, name: str, page: str, data: dict[str, str]
) -> None:
    user = cast.users[name]
    before = User.objects.filter(pk=user.pk).values().get()
    filled = {key: value.format(user=user.username) for key, value in data.items()}
    response = rita.post(reverse(f"accounts.{page}", args=[user.username]), filled)
    assert response.status_code == 403
    assert User.objects.filter(pk=user.pk).values().get() == before
    assert Entry.objects.filter(result="refused", actor="rita@acme").exists()


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_it_cannot_disable_or_delete_the_key_of_the_administrator_or_a_stronger_user(
    cast: Cast, rita: Client, name: str
) -> None:
    user = cast.users[name]
    issued = services.create_access_key(actor=cast.actor(name), user=user)
    arguments = [user.username, issued.access_key_id]
    assert rita.post(reverse("accounts.user_key_switch", args=arguments), {"enabled": "false"}).status_code == 403
    assert rita.post(reverse("accounts.user_key_delete", args=arguments), {"name": arguments[1]}).status_code == 403
    assert user.access_keys.get().enabled


def test_it_cannot_attach_what_it_does_not_have_neither_to_itself_nor_by_way_of_others(
    cast: Cast, rita: Client
) -> None:
    full = system_policy("AliyunMQFullAccess")
    group = services.create_group(actor=cast.actor("alice"), name="strong")
    services.attach_group_policy(actor=cast.actor("alice"), group=group, policy=full)
    weak = services.create_group(actor=cast.actor("alice"), name="weak")
    services.add_user(actor=cast.actor("alice"), group=weak, user=cast.rita)
    tries = [
        ("accounts.user_add_policies", "rita@acme", {"name": str(full.pk)}),
        ("accounts.user_add_policies", "nora@acme", {"name": str(full.pk)}),
        ("accounts.user_add_groups", "rita@acme", {"name": "strong"}),
        ("accounts.group_add_users", "strong", {"name": "rita@acme"}),
        ("accounts.group_add_policies", "weak", {"name": str(full.pk)}),
    ]
    for url_name, argument, data in tries:
        assert rita.post(reverse(url_name, args=[argument]), data).status_code == 403, url_name
    created = rita.post(reverse("accounts.user_create"), {"name": "mine", "password": PASSWORD, "policies": [full.pk]})
    assert created.status_code == 403
    created = rita.post(reverse("accounts.user_create"), {"name": "mine", "password": PASSWORD, "groups": [group.pk]})
    assert created.status_code == 403
    assert not User.objects.filter(username="mine@acme").exists()
    assert not cast.actor("rita").decide("mq:PUB", f"{MQ}MQ_INST_x", owner=cast.acme).allowed


def test_it_cannot_take_away_a_denial_that_binds_itself(cast: Cast, rita: Client) -> None:
    deny = _policy(cast, "not-here", {"Effect": "Deny", "Action": "mq:*", "Resource": "*"})
    services.attach_policy(actor=cast.actor("alice"), user=cast.rita, policy=deny)
    response = rita.post(reverse("accounts.user_detach_policy", args=["rita@acme"]), {"name": deny.pk})
    assert response.status_code == 403
    assert cast.rita.policies.filter(pk=deny.pk).exists()
    group = services.create_group(actor=cast.actor("alice"), name="bound")
    services.attach_group_policy(actor=cast.actor("alice"), group=group, policy=deny)
    services.add_user(actor=cast.actor("alice"), group=group, user=cast.rita)
    for url_name in ("accounts.group_delete", "accounts.group_update"):
        assert rita.post(reverse(url_name, args=["bound"]), {"name": "bound2"}).status_code in (403, 422)
    assert rita.post(reverse("accounts.group_delete", args=["bound"]), {"name": "bound"}).status_code == 403
    assert rita.post(reverse("accounts.user_leave_group", args=["rita@acme"]), {"name": "bound"}).status_code == 403


def test_it_may_do_its_work_on_users_who_are_no_stronger(cast: Cast, rita: Client) -> None:
    read = system_policy("AliyunMQReadOnlyAccess")
    assert rita.post(reverse("accounts.user_add_policies", args=["nora@acme"]), {"name": read.pk}).status_code == 302
    assert rita.post(reverse("accounts.user_password", args=["nora@acme"])).status_code == 200
    assert rita.post(reverse("accounts.user_switch", args=["nora@acme"]), {"enabled": "false"}).status_code == 302
    assert not User.objects.get(pk=cast.nora.pk).is_active
    assert rita.post(reverse("accounts.user_create"), {"name": "new", "policies": [read.pk]}).status_code == 200


def test_a_right_on_one_user_is_none_on_another(cast: Cast) -> None:
    resource = f"acs:ram:*:{cast.acme.uid}:user/nora@acme"
    cast.rita.policies.add(_policy(cast, "nora-only", {"Effect": "Allow", "Action": "ram:*", "Resource": resource}))
    rita = cast.client("rita")
    assert rita.get(reverse("accounts.user", args=["nora@acme"])).status_code == 200
    assert rita.get(reverse("accounts.user", args=["bob@acme"])).status_code == 403
    assert rita.get(reverse("accounts.users")).status_code == 403


def test_a_group_is_not_renamed_into_a_name_that_one_has_no_right_on(cast: Cast) -> None:
    resource = f"acs:ram:*:{cast.acme.uid}:group/mine*"
    cast.rita.policies.add(_policy(cast, "mine", {"Effect": "Allow", "Action": "ram:*", "Resource": resource}))
    services.create_group(actor=cast.actor("alice"), name="mine")
    url = reverse("accounts.group_update", args=["mine"])
    assert cast.client("rita").post(url, {"name": "theirs"}).status_code == 403
    assert cast.client("rita").post(url, {"name": "mine-2"}).status_code == 302


def test_the_keys_of_a_user_are_left_out_for_who_may_not_list_them(cast: Cast) -> None:
    issued = services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    cast.rita.policies.add(_policy(cast, "get", {"Effect": "Allow", "Action": "ram:GetUser", "Resource": "*"}))
    assert (
        issued.access_key_id
        not in cast.client("rita").get(reverse("accounts.user", args=["bob@acme"])).content.decode()
    )


# --- Cover


def _allow(action: str, resource: str = "*", **more: Any) -> Statement:
    return Statement(allow=True, actions=(action,), resources=(resource,), **more)


def _deny(action: str, resource: str = "*", **more: Any) -> Statement:
    return Statement(allow=False, actions=(action,), resources=(resource,), **more)


_MFA = ("Bool", "acs:MFAPresent", ("true",))
_OFFICE = ("IpAddress", "acs:SourceIp", ("10.0.0.0/8",))


@pytest.mark.parametrize(
    ("own", "wanted", "covered"),
    [
        ([_allow("mq:*")], _allow("mq:PUB"), True),
        ([_allow("MQ:pub")], _allow("mq:PUB"), True),
        ([_allow("mq:PUB")], _allow("mq:*"), False),
        ([_allow("mq:PUB")], _allow("mq:P*"), False),
        ([_allow("mq:Query?opic")], _allow("mq:QueryTopic"), True),
        ([_allow("mq:Query?")], _allow("mq:Query*"), False),
        ([_allow("mq:*", f"{MQ}a*")], _allow("mq:*", f"{MQ}ab*"), True),
        ([_allow("mq:*", f"{MQ}ab*")], _allow("mq:*", f"{MQ}a*"), False),
        ([_allow("mq:*", f"{MQ}a"), _allow("mq:*", f"{MQ}b")], _allow("mq:*", f"{MQ}b"), True),
        ([_allow("*"), _deny("mq:PUB", f"{MQ}a*")], _allow("mq:*", f"{MQ}*b"), False),
        ([_allow("*"), _deny("mq:PUB", f"{MQ}a")], _allow("mq:*", f"{MQ}b*"), True),
        ([_allow("*"), _deny("mq:SUB")], _allow("mq:PUB"), True),
        ([_allow("*")], _deny("mq:PUB"), True),
        ([], _deny("mq:PUB"), False),
        ([_allow("mq:*", conditions=(_MFA,))], _allow("mq:PUB"), False),
        ([_allow("mq:*", conditions=(_MFA,))], _allow("mq:PUB", conditions=(_OFFICE,)), False),
        ([_allow("mq:*", conditions=(_MFA,))], _allow("mq:PUB", conditions=(_OFFICE, _MFA)), True),
        ([_allow("mq:*", conditions=(_MFA, _OFFICE))], _allow("mq:PUB", conditions=(_MFA,)), False),
        ([_allow("mq:*")], _allow("mq:PUB", conditions=(_MFA,)), True),
        ([_allow("mq:*"), _deny("mq:PUB", conditions=(_MFA,))], _allow("mq:PUB"), False),
        ([_allow("mq:*", conditions=(_OFFICE,))], _deny("mq:PUB", conditions=(_OFFICE,)), False),
    ],
)
def test_it_covers_what_is_inside_the_own_statements(own: list[Statement], wanted: Statement, covered: bool) -> None:
    assert covers(own, wanted) is covered


_words = st.text("ab*?", max_size=4)
_texts = st.text("ab", max_size=4)


@given(own=_words, denied=_words, wanted=_words, text=_texts, action=st.sampled_from(["mq:PUB", "mq:SUB"]))
def test_what_is_covered_is_allowed_whatever_the_resource(
    own: str, denied: str, wanted: str, text: str, action: str
) -> None:
    """Against the decision itself: no resource that the wanted statement reaches is out of the own reach."""
    mine = [_allow("mq:*", MQ + own), _deny("mq:SUB", MQ + denied)]
    given_away = _allow(action, MQ + wanted)
    if not covers(mine, given_away):
        return
    context: Context = Context()
    if given_away.matches(action, MQ + text, context):
        assert mine[0].matches(action, MQ + text, context)
        assert not mine[1].matches(action, MQ + text, context)
