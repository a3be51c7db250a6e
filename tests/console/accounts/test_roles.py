"""Roles: whom they trust, what assuming one takes, and that its keys work everywhere and end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from brokercore.client import Credentials, Message, Producer
from brokercore.client.errors import NoPermission
from brokercore.policy import mq_resource
from brokercore.policy.table import KEYS
from console.accounts import credentials, services
from console.accounts.actor import Actor
from console.accounts.models import AccessKey, Policy, Role
from console.accounts.policy_documents import system_policy
from console.accounts.services import IssuedKey, roles
from console.audit.models import Entry
from console.rights import access_table
from console.web.errors import Refused
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_topic
from tests.support.patience import Patience
from tests.support.roles import make_role, role_key, trusting

DEADLINE_SECONDS = 5.0


def may_assume(cast: Cast, name: str, *roles: str, account: str = "*") -> None:
    """Give a RAM user `sts:AssumeRole` on roles."""
    resource = [f"acs:ram:*:{account}:role/{role}" for role in roles or ["*"]]
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": resource}
    document = {"Version": "1", "Statement": [statement]}
    tenant = cast.users[name].tenant
    cast.users[name].policies.add(Policy.objects.create(tenant=tenant, name=f"assume-{name}", document=document))


def assume(cast: Cast, name: str, role: Role, **more: Any) -> IssuedKey:
    return services.assume_role(actor=cast.actor(name), role=role, session_name="nightly", **more)


def actor_of(issued: IssuedKey) -> Actor | None:
    key = credentials.find_key(issued.access_key_id)
    return credentials.actor_of(key) if key else None


def test_assuming_takes_the_roles_trust_and_the_users_own_right(cast: Cast) -> None:
    role = make_role(cast.actor("alice"))
    with pytest.raises(PermissionDenied, match="no statement allows sts:AssumeRole"):
        assume(cast, "bob", role)
    may_assume(cast, "bob", "Sender")
    assume(cast, "bob", role)
    stern = make_role(cast.actor("alice"), "Stern", trust=trusting(f"acs:ram::{cast.acme.uid}:user/rita"))
    may_assume(cast, "nora")
    with pytest.raises(PermissionDenied, match=r"does not let acs:ram::\d+:user/nora in"):
        assume(cast, "nora", stern)


def test_a_right_on_one_role_is_none_on_another(cast: Cast) -> None:
    may_assume(cast, "bob", "Other")
    with pytest.raises(PermissionDenied):
        assume(cast, "bob", make_role(cast.actor("alice")))


def test_a_denial_in_the_trust_policy_wins(cast: Cast) -> None:
    allow = trusting(f"acs:ram::{cast.acme.uid}:root")
    deny = trusting(f"acs:ram::{cast.acme.uid}:user/bob", Effect="Deny")
    both = {"Version": "1", "Statement": allow["Statement"] + deny["Statement"]}
    role = make_role(cast.actor("alice"), trust=both)
    may_assume(cast, "bob")
    may_assume(cast, "rita")
    with pytest.raises(PermissionDenied, match="denies"):
        assume(cast, "bob", role)
    assume(cast, "rita", role)


def test_conditions_of_the_trust_policy_count(cast: Cast) -> None:
    office = {"IpAddress": {"acs:SourceIp": "10.0.0.0/8"}}
    role = make_role(cast.actor("alice"), trust=trusting(f"acs:ram::{cast.acme.uid}:root", Condition=office))
    actor = cast.actor("alice")
    with pytest.raises(PermissionDenied):
        services.assume_role(actor=actor, role=role, session_name="nightly")
    actor.source_ip = "10.1.2.3"
    services.assume_role(actor=actor, role=role, session_name="nightly")


def test_across_accounts_both_sides_must_agree_and_both_have_it_on_record(cast: Cast) -> None:
    closed = make_role(cast.actor("alice"))
    with pytest.raises(PermissionDenied, match="there is no role"):
        assume(cast, "charlie", closed)
    theirs = cast.charlies.tenant
    role = make_role(
        cast.actor("alice"), "Open", "AliyunMQReadOnlyAccess", trust=trusting(f"acs:ram::{theirs.uid}:root")
    )
    issued = assume(cast, "charlie", role)
    session = actor_of(issued)
    assert session is not None
    assert session.tenant == cast.acme
    found = Entry.objects.filter(action="sts.role.assume", result="success", resource=services.role_arn(role))
    assert {e.tenant for e in found} == {cast.acme, theirs}
    assert {e.actor for e in found} == {"admin@umbrella"}
    refused = Entry.objects.filter(action="sts.role.assume", result="refused")
    assert {e.tenant for e in refused} == {cast.acme, theirs}


def test_a_user_of_another_account_needs_a_right_of_its_own_too(cast: Cast) -> None:
    role = make_role(cast.actor("alice"), trust=trusting(f"acs:ram::{cast.charlies.tenant.uid}:root"))
    dora = services.create_user(actor=cast.actor("charlie"), name="dora", password="Correct-horse-7", policies=[])
    dora = getattr(dora, "user", dora)
    cast.users["dora"] = dora
    with pytest.raises(PermissionDenied):
        assume(cast, "dora", role)
    may_assume(cast, "dora", "Sender", account=cast.acme.uid)
    assume(cast, "dora", role)


def test_whether_a_foreign_role_exists_cannot_be_told_from_the_answer(cast: Cast) -> None:
    role = make_role(cast.actor("alice"))
    arn = services.role_arn(role)
    with pytest.raises(PermissionDenied) as existing:
        assume(cast, "charlie", services.find_role(arn, cast.charlies.tenant), duration_s=1)
    role.delete()
    with pytest.raises(PermissionDenied) as missing:
        services.find_role(arn, cast.charlies.tenant)
    assert str(existing.value) == str(missing.value)


def test_a_role_session_may_assume_the_next_role_when_both_let_it(cast: Cast) -> None:
    first = role_key(cast.actor("alice"))
    second = make_role(cast.actor("alice"), "Second", trust=trusting(f"acs:ram::{cast.acme.uid}:role/Sender"))
    session = actor_of(first)
    assert session is not None
    with pytest.raises(PermissionDenied):
        services.assume_role(actor=session, role=second, session_name="next")
    may_assume(cast, "nora", "Second")
    Role.objects.get(name="Sender").policies.add(Policy.objects.get(name="assume-nora"))
    again = actor_of(first)
    assert again is not None
    services.assume_role(actor=again, role=second, session_name="next")
    assert AccessKey.objects.get(session_name="next").assumed_by == "role/Sender@acme/nightly"


@pytest.mark.parametrize("seconds", [0, 899, 3601, -1])
def test_a_session_has_15_minutes_to_the_roles_longest(cast: Cast, seconds: int) -> None:
    with pytest.raises(Refused) as refused:
        assume(cast, "alice", make_role(cast.actor("alice")), duration_s=seconds)
    assert refused.value.field == "duration_s"


def test_a_role_may_set_a_shorter_longest_session(cast: Cast) -> None:
    role = make_role(cast.actor("alice"), max_session_s=900)
    with pytest.raises(Refused, match="900 to 900"):
        assume(cast, "alice", role, duration_s=901)
    issued = assume(cast, "alice", role, duration_s=900)
    assert issued.expires_at is not None
    assert timedelta(seconds=890) < issued.expires_at - timezone.now() <= timedelta(seconds=900)


@pytest.mark.parametrize("name", ["", "a", "x" * 65, "with space", "ünï", "new\nline"])
def test_a_session_name_that_breaks_the_rule_is_refused(cast: Cast, name: str) -> None:
    with pytest.raises(Refused) as refused:
        services.assume_role(actor=cast.actor("alice"), role=make_role(cast.actor("alice")), session_name=name)
    assert refused.value.field == "session_name"


def test_a_session_may_do_what_the_roles_policies_say_and_not_what_its_user_may(cast: Cast) -> None:
    session = actor_of(role_key(cast.actor("alice"), "AliyunMQReadOnlyAccess"))
    assert session is not None
    assert session.name == "role/Sender@acme/nightly"
    resource = mq_resource(cast.instance.instance_id)
    assert session.decide("mq:QueryInstance", resource, owner=cast.acme).allowed
    assert not session.decide("mq:UpdateInstance", resource, owner=cast.acme).allowed
    assert not session.decide("mq:QueryInstance", mq_resource("x"), owner=cast.charlies.tenant).allowed


def test_keys_expire_are_swept_and_need_their_token(cast: Cast) -> None:
    issued = role_key(cast.actor("alice"), "AliyunMQFullAccess")
    key = AccessKey.objects.get(access_key_id=issued.access_key_id)
    assert issued.access_key_id.startswith("STS.")
    assert credentials.token_fits(key, issued.security_token)
    assert not credentials.token_fits(key, "")
    AccessKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert actor_of(issued) is None
    assert issued.access_key_id not in access_table.compiled()
    assert services.sweep_expired_keys() == 1
    assert not AccessKey.objects.filter(pk=key.pk).exists()


def test_the_broker_takes_temporary_keys_with_their_token_only_and_until_the_session_is_ended(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    issued = role_key(cast.actor("alice"), "AliyunMQPubOnlyAccess")
    access_table.publish()
    _until(lambda: _refusal(cast, issued, topic.physical_name) is None)
    assert _refusal(cast, issued, topic.physical_name, token="") is not None
    services.end_sessions(actor=cast.actor("alice"), role=Role.objects.get(), access_key_id=issued.access_key_id)
    access_table.publish()
    _until(lambda: _refusal(cast, issued, topic.physical_name) is not None)


@pytest.mark.parametrize("taken", ["policy", "sessions", "role"])
def test_what_is_taken_from_a_role_leaves_the_brokers_table(
    cast: Cast, broker: BrokerProcess, django_capture_on_commit_callbacks: Any, taken: str
) -> None:
    alice = cast.actor("alice")
    issued = role_key(alice, "AliyunMQPubOnlyAccess")
    access_table.publish()
    table = redis.Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True)
    assert "mq:PUB" in table.hgetall(KEYS)[issued.access_key_id]
    role = Role.objects.get()
    with django_capture_on_commit_callbacks(execute=True):
        if taken == "policy":
            services.detach_role_policy(actor=alice, role=role, policy=system_policy("AliyunMQPubOnlyAccess"))
        elif taken == "sessions":
            services.end_sessions(actor=alice, role=role)
        else:
            services.delete_role(actor=alice, role=role)
    assert "mq:PUB" not in table.hgetall(KEYS).get(issued.access_key_id, "")


def test_a_session_that_runs_out_is_refused_by_the_broker_without_any_change_of_the_table(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    issued = role_key(cast.actor("alice"), "AliyunMQPubOnlyAccess")
    AccessKey.objects.update(expires_at=timezone.now() + timedelta(seconds=6))
    access_table.publish()
    _until(lambda: _refusal(cast, issued, topic.physical_name) is None, seconds=5.5)
    _until(lambda: _refusal(cast, issued, topic.physical_name) is not None, seconds=5.5 + DEADLINE_SECONDS)


def test_who_may_edit_roles_cannot_hand_itself_a_stronger_one(cast: Cast) -> None:
    strong = make_role(cast.actor("alice"), "Strong", "AliyunMQFullAccess", trust=trusting("ecs.example.com"))
    policy = Policy.objects.create(
        tenant=cast.acme,
        name="role-editor",
        document={"Version": "1", "Statement": [{"Effect": "Allow", "Action": ["ram:*", "sts:*"], "Resource": "*"}]},
    )
    cast.nora.policies.add(policy)
    nora = cast.actor("nora")
    trust_me = trusting(f"acs:ram::{cast.acme.uid}:user/nora")
    with pytest.raises(PermissionDenied):
        services.update_role(actor=nora, role=strong, description="", trust_policy=trust_me, max_session_s=900)
    mine = services.create_role(actor=nora, name="Mine", description="", trust_policy=trust_me, policies=[])
    with pytest.raises(PermissionDenied):
        services.attach_role_policy(actor=nora, role=mine, policy=system_policy("AliyunMQFullAccess"))
    assert not mine.policies.exists()


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "a/b", "ünï"])
def test_a_role_name_that_breaks_the_rule_is_refused(cast: Cast, name: str) -> None:
    with pytest.raises(Refused) as refused:
        make_role(cast.actor("alice"), name)
    assert refused.value.field == "name"


@pytest.mark.parametrize(
    "principal", [{"RAM": ["*"]}, {"RAM": []}, {"Service": "two words"}, {"Federated": ["x"]}, "*", {}]
)
def test_a_trust_policy_that_breaks_the_grammar_is_refused(cast: Cast, principal: Any) -> None:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}
    with pytest.raises(Refused) as refused:
        make_role(cast.actor("alice"), trust={"Version": "1", "Statement": [statement]})
    assert refused.value.field == "trust_policy"


# --- Pages


def test_a_role_is_made_changed_and_deleted_on_its_pages(cast: Cast) -> None:
    client = cast.client("alice")
    text = json.dumps(trusting("a.b"))
    data = {"name": "R", "description": "", "max_session_s": "900", "trust_policy": text}
    assert client.post(reverse("accounts.role_create"), data)["Location"] == reverse("accounts.role", args=["R"])
    page = client.get(reverse("accounts.role", args=["R"])).content.decode()
    assert f"acs:ram::{cast.acme.uid}:role/R" in page
    full = system_policy("AliyunMQFullAccess")
    client.post(reverse("accounts.role_add_policies", args=["R"]), {"name": full.pk})
    assert list(Role.objects.get().policies.all()) == [full]
    client.post(reverse("accounts.role_detach_policy", args=["R"]), {"name": full.pk})
    assert not Role.objects.get().policies.exists()
    wrong = data | {"trust_policy": text.replace("sts:AssumeRole", "mq:PUB")}
    response = client.post(reverse("accounts.role", args=["R"]), wrong)
    assert response.status_code == 422
    assert "Line 1, column 62" in response.content.decode()
    client.post(reverse("accounts.role_delete", args=["R"]), {"name": "R"})
    assert not Role.objects.exists()


def test_live_sessions_are_listed_and_ended(cast: Cast) -> None:
    role = make_role(cast.actor("alice"))
    for number in range(3):
        services.assume_role(actor=cast.actor("alice"), role=role, session_name=f"s-{number}")
    client, url = cast.client("alice"), reverse("accounts.role", args=["Sender"])
    page = client.get(url).content.decode()
    assert all(f"s-{number}" in page for number in range(3))
    one = AccessKey.objects.get(session_name="s-1")
    client.post(reverse("accounts.role_end_sessions", args=["Sender"]), {"session": one.access_key_id})
    assert {k.session_name for k in role.access_keys.all()} == {"s-0", "s-2"}
    client.post(reverse("accounts.role_end_sessions", args=["Sender"]))
    assert not role.access_keys.exists()


def test_the_list_of_roles_costs_the_same_queries_for_more_rows(cast: Cast) -> None:
    client, url = cast.client("alice"), reverse("accounts.roles")
    make_role(cast.actor("alice"), "R", "AliyunMQFullAccess")
    client.get(url)
    with CaptureQueriesContext(connection) as few:
        client.get(url)
    for number in range(12):
        make_role(cast.actor("alice"), f"R{number}", "AliyunMQFullAccess", "AliyunDLAFullAccess")
    with CaptureQueriesContext(connection) as many:
        client.get(url)
    assert len(many) == len(few)
    used = client.get(url, {"state": "used"}).context["table"]
    assert len(used.rows) == 0


def test_a_user_draws_keys_once_on_the_page(cast: Cast) -> None:
    make_role(cast.actor("alice"))
    may_assume(cast, "bob")
    client, url = cast.client("bob"), reverse("accounts.role_assume")
    data = {"role": "Sender", "session_name": "bob@acme", "duration_s": "900"}
    response = client.post(url, data)
    issued = response.context["issued"]
    page = response.content.decode()
    assert all(part in page for part in (issued.access_key_id, issued.access_key_secret, issued.security_token))
    assert "no-store" in response["Cache-Control"]
    assert issued.access_key_secret not in client.get(url).content.decode()
    refused = cast.client("nora").post(url, data)
    assert refused.status_code == 422
    assert "denied: no statement allows sts:AssumeRole" in refused.content.decode()
    assert cast.client("bob").post(url, data | {"role": "Nobody"}).status_code == 422


def _refusal(cast: Cast, key: IssuedKey, topic: str, *, token: str | None = None) -> Exception | None:
    given = Credentials(key.access_key_id, key.access_key_secret, key.security_token if token is None else token)
    with Producer(cast.cluster.namesrv, given, "GID_any") as producer:
        try:
            producer.send(Message(topic, b"hello"))
        except NoPermission as error:
            return error
    return None


def _until(holds: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    patience = Patience(seconds)
    while not holds():
        if patience.is_over():
            pytest.fail(f"not within {seconds} s")
        time.sleep(0.05)


def test_nobody_makes_so_many_roles_that_trust_another_account_that_its_rights_cannot_be_judged(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "MOST_ROLES_NAMING", 2)
    monkeypatch.setattr(roles, "MOST_ROLES_NAMING_OWN", 3)
    victim, own = (f"acs:ram::{cast.users[name].tenant.uid}:root" for name in ("alice", "charlie"))  # type: ignore[union-attr]
    charlie = cast.actor("charlie")

    def create(name: str, *trusted: str) -> Role:
        return services.create_role(
            actor=charlie, name=name, description="", trust_policy=trusting(*trusted), policies=[]
        )

    first, _ = create("r1", victim), create("r2", victim, own)
    message = "2 roles of umbrella trust the account [0-9]+ already; that is the limit"
    with pytest.raises(Refused, match=message):
        create("r3", victim)
    third = create("r3", own)
    with pytest.raises(Refused, match=message):
        services.update_role(
            actor=charlie, role=third, description="", trust_policy=trusting(own, victim), max_session_s=900
        )
    services.update_role(actor=charlie, role=first, description="", trust_policy=trusting(victim), max_session_s=900)
    create("r4", own)
    with pytest.raises(Refused, match="3 roles of umbrella trust the account"):
        create("r5", own)
    make_role(cast.actor("alice"), trust=trusting(own))  # of acme, whose roles are not umbrella's
