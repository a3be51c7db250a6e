"""The simulator: it decides as page and broker do, shows why, and simulates others only with a right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from brokercore.policy import mq_resource
from console.accounts.models import Policy
from console.rights import simulation
from console.topics.models import Grant, Relation
from tests.support.cast import Cast, make_group, make_topic
from tests.support.roles import make_role


def simulate(cast: Cast, by: str = "alice", **data: Any) -> Any:
    given = {"who": "user", "user": "bob@acme", "action": "mq:PUB", "resource": "orders"} | data
    return cast.client(by).post(reverse("accounts.simulator"), given)


def outcome(response: Any) -> tuple[bool, str]:
    decision = response.context["simulated"].decision
    return decision.allowed, decision.reason


def test_it_decides_as_the_users_own_request_would(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    for name in ("bob", "rita", "nora", "alice"):
        username = cast.users[name].username
        for action in ("mq:PUB", "mq:QueryTopic"):
            response = simulate(cast, user=username, action=action, resource=topic.physical_name)
            real = cast.actor(name).decide(action, mq_resource(topic.physical_name), owner=cast.acme)
            assert outcome(response) == (real.allowed, real.reason)


def test_it_shows_every_statement_with_what_matched(cast: Cast) -> None:
    office = {"NotIpAddress": {"acs:SourceIp": "10.0.0.0/8"}}
    rows = [{"Effect": "Deny", "Action": "mq:PUB", "Resource": "*", "Condition": office}]
    cast.bob.policies.add(
        Policy.objects.create(tenant=cast.acme, name="office", document={"Version": "1", "Statement": rows})
    )
    response = simulate(cast, source_ip="192.0.2.1")
    assert outcome(response) == (False, "denied: policy office denies mq:PUB on acs:mq:*:*:orders")
    page = response.content.decode()
    assert "NotIpAddress acs:SourceIp 10.0.0.0/8: it is 192.0.2.1" in page
    assert reverse("accounts.policy", args=["office"]) in page
    assert outcome(simulate(cast, source_ip="10.1.1.1"))[0]


def test_time_tls_and_second_factor_can_be_chosen(cast: Cast) -> None:
    condition = {
        "DateLessThan": {"acs:CurrentTime": "2030-01-01T00:00:00Z"},
        "Bool": {"acs:SecureTransport": "true", "acs:MFAPresent": "true"},
    }
    row = {"Effect": "Allow", "Action": "mq:PUB", "Resource": "*", "Condition": condition}
    text = json.dumps({"Version": "1", "Statement": [row]})
    right = {"who": "text", "document": text, "at": "2029-01-01T00:00:00", "tls": "on", "mfa": "on"}
    assert outcome(simulate(cast, **right))[0]
    for name, wrong in (("at", "2031-01-01T00:00:00"), ("tls", ""), ("mfa", "")):
        assert not outcome(simulate(cast, **(right | {name: wrong})))[0], name


def test_a_role_is_simulated_by_its_policies(cast: Cast) -> None:
    make_role(cast.actor("alice"), "Reader", "AliyunMQReadOnlyAccess")
    assert outcome(simulate(cast, who="role", role="Reader", action="mq:QueryTopic"))[0]
    assert not outcome(simulate(cast, who="role", role="Reader"))[0]


def test_groups_are_judged_by_their_holder_and_topics_of_others_by_grants(cast: Cast) -> None:
    mine = make_group(cast.alice, cast.instance, "GID_private", shared=False)
    response = simulate(cast, action="mq:SUB", resource=mine.physical_name)
    assert outcome(response) == (False, f"denied: {mq_resource(mine.physical_name)} belongs to another user")
    theirs = make_topic(cast.charlie, cast.charlies, "theirs")
    assert not outcome(simulate(cast, resource=theirs.physical_name))[0]
    Grant.objects.create(topic=theirs, tenant=cast.acme, relation=Relation.PUBLISH)
    response = simulate(cast, resource=theirs.physical_name)
    assert outcome(response)[0]
    assert "required too" in response.content.decode()


def test_no_pasted_policy_reaches_the_platform_or_another_account(cast: Cast) -> None:
    row = {"Effect": "Allow", "Action": ["*", "platform:*"], "Resource": "*"}
    text = json.dumps({"Version": "1", "Statement": [row]})
    for action, resource in (
        ("platform:CreateTenant", "acs:platform:*:*:tenant/1"),
        ("mq:PUB", cast.charlies.instance_id),
        ("ram:GetUser", f"acs:ram:*:{cast.charlies.tenant.uid}:user/admin"),
    ):
        assert not outcome(simulate(cast, who="text", document=text, action=action, resource=resource))[0]
    assert outcome(simulate(cast, who="text", document=text, resource=cast.instance.instance_id))[0]


@pytest.mark.parametrize(
    "data",
    [{"user": "nobody@acme"}, {"user": "admin@umbrella"}, {"user": ""}, {"who": "role", "role": "None"},
     {"who": "text", "document": "{"}, {"action": ""}, {"source_ip": "here"}],
)  # fmt: skip
def test_what_is_wrong_is_said_beside_the_field(cast: Cast, data: dict[str, str]) -> None:
    response = simulate(cast, **data)
    assert response.status_code == 422
    assert "invalid-feedback" in response.content.decode() or "policy-problem" in response.content.decode()


def test_everybody_may_simulate_themselves_and_nobody_else(cast: Cast) -> None:
    response = simulate(cast, by="nora", who="me")
    assert outcome(response) == (False, "denied: no statement allows mq:PUB on acs:mq:*:*:orders")
    assert simulate(cast, by="nora").status_code == 403
    assert simulate(cast, by="nora", who="text", document="{}").status_code in (403, 422)
    assert "ram:SimulatePolicy" in cast.client("nora").get(reverse("accounts.simulator")).content.decode()


def test_a_simulation_changes_nothing_and_its_names_are_the_accounts_own(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "visible")
    make_topic(cast.charlie, cast.charlies, "visible")
    assert len(simulation.resource_names(cast.acme, "visible")) == 1
    page = cast.client("alice").get(reverse("accounts.simulator_names"), {"kind": "user", "user": "b"}).content.decode()
    assert "bob@acme" in page
    assert "umbrella" not in page
    before = Policy.objects.count()
    simulate(cast)
    assert Policy.objects.count() == before
