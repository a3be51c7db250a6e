"""The one permission decision."""

from __future__ import annotations

from datetime import UTC, datetime
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.policy import Context, Grantee, PolicyError, Statement, decide, mq_resource, parse_policy

FLIGHTS = mq_resource("MQ_INST_1_a%flights")
OTHERS = mq_resource("MQ_INST_2_b%flights")
OWN = (mq_resource("MQ_INST_1_*"),)


def statements(*rows: dict[str, object]) -> tuple[Statement, ...]:
    return parse_policy({"Version": "1", "Statement": list(rows)}, source="test")


def allow(action: str = "mq:PUB", resource: str = "*", **more: object) -> dict[str, object]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: str = "mq:PUB", resource: str = "*", **more: object) -> dict[str, object]:
    return allow(action, resource, **more) | {"Effect": "Deny"}


def test_it_denies_what_nothing_allows_and_says_so() -> None:
    decision = decide(Grantee("bob", OWN), "mq:PUB", FLIGHTS)
    assert not decision.allowed
    assert decision.reason == f"denied: no statement allows mq:PUB on {FLIGHTS}"


def test_it_allows_by_a_statement_with_wildcards() -> None:
    grantee = Grantee("bob", OWN, statements(allow("mq:*", mq_resource("MQ_INST_1_?%fl*"))))
    assert decide(grantee, "mq:SUB", FLIGHTS).allowed
    assert not decide(grantee, "ram:CreateUser", FLIGHTS).allowed


@pytest.mark.parametrize("order", [1, -1])
def test_an_explicit_deny_wins_in_any_order(order: int) -> None:
    rows = [allow(), deny(resource=FLIGHTS)][::order]
    decision = decide(Grantee("bob", OWN, statements(*rows)), "mq:PUB", FLIGHTS)
    assert not decision.allowed
    assert "policy test denies mq:PUB" in decision.reason


def test_a_star_never_reaches_another_tenant() -> None:
    assert not decide(Grantee("bob", OWN, statements(allow("*"))), "mq:PUB", OTHERS).allowed


def test_a_grant_reaches_exactly_the_granted_topic() -> None:
    grantee = Grantee("bob", OWN, (), statements(allow("mq:SUB", OTHERS)))
    assert decide(grantee, "mq:SUB", OTHERS).allowed
    assert not decide(grantee, "mq:PUB", OTHERS).allowed
    assert not decide(grantee, "mq:SUB", OTHERS + "2").allowed


def test_conditions_look_at_address_time_and_transport() -> None:
    grantee = Grantee(
        "bob",
        OWN,
        statements(
            allow(
                Condition={
                    "IpAddress": {"acs:SourceIp": ["10.0.0.0/8"]},
                    "DateLessThan": {"acs:CurrentTime": "2030-01-01T00:00:00Z"},
                    "Bool": {"acs:SecureTransport": "true"},
                }
            )
        ),
    )
    inside = Context("10.1.2.3", datetime(2029, 1, 1, tzinfo=UTC), True)
    assert decide(grantee, "mq:PUB", FLIGHTS, inside).allowed
    for outside in (
        Context("11.1.2.3", inside.now, True),
        Context("", inside.now, True),
        Context("10.1.2.3", datetime(2031, 1, 1, tzinfo=UTC), True),
        Context("10.1.2.3", inside.now, False),
    ):
        assert not decide(grantee, "mq:PUB", FLIGHTS, outside).allowed


def test_a_denial_by_address_holds_when_the_address_is_unknown() -> None:
    rows = (allow(), deny(Condition={"NotIpAddress": {"acs:SourceIp": "10.0.0.0/8"}}))
    grantee = Grantee("bob", OWN, statements(*rows))
    assert decide(grantee, "mq:PUB", FLIGHTS, Context("10.0.0.1")).allowed
    assert not decide(grantee, "mq:PUB", FLIGHTS, Context("192.0.2.1")).allowed
    assert not decide(grantee, "mq:PUB", FLIGHTS, Context("")).allowed


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"Statement": []}, "Version"),
        ({"Version": "1", "Statement": []}, "at least one"),
        ({"Version": "1", "Statement": [{"Effect": "Maybe"}]}, "Statement 1: Effect"),
        ({"Version": "1", "Statement": [allow() | {"Actoin": "x"}]}, "unknown field Actoin"),
        ({"Version": "1", "Statement": [allow(action="")]}, "Statement 1: Action"),
        ({"Version": "1", "Statement": [allow(Condition={"Like": {}})]}, "condition operators"),
        ({"Version": "1", "Statement": [allow(Condition={"Bool": {"acs:Moon": "true"}})]}, "condition keys"),
        ({"Version": "1", "Statement": [allow(Condition={"IpAddress": {"acs:SourceIp": "10.0.0.300"}})]}, "IpAddress"),
    ],
)
def test_it_names_what_is_wrong_in_a_document(document: dict[str, object], text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        parse_policy(document)


words = st.text(alphabet="ab*?%", min_size=1, max_size=6)
rows = st.lists(st.tuples(st.booleans(), words, words), max_size=5)


@given(rows, st.text(alphabet="ab", min_size=1, max_size=4), st.text(alphabet="ab%", min_size=1, max_size=4))
def test_it_agrees_with_a_naive_evaluator(policy: list[tuple[bool, str, str]], action: str, resource: str) -> None:
    found = [ok for ok, a, r in policy if fnmatchcase(action, a) and fnmatchcase(resource, r)]
    expected = bool(found) and all(found)
    grantee = Grantee("x", ("*",), tuple(Statement(ok, (a,), (r,)) for ok, a, r in policy))
    assert decide(grantee, action, resource).allowed == expected
