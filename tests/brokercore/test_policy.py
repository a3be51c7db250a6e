"""The one permission decision; test_policy_property.py holds it against a second evaluator."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from brokercore.policy import (
    MAX_BYTES,
    Context,
    Grantee,
    PolicyError,
    Statement,
    decide,
    decide_trust,
    examine,
    explain,
    mq_resource,
    parse_policy,
    parse_rows,
    parse_trust_policy,
    validate,
)

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


@pytest.mark.parametrize("address", ["", "unknown", "10.0.0.300"])
def test_an_address_that_cannot_be_judged_never_widens_rights(address: str) -> None:
    for operator in ("IpAddress", "NotIpAddress"):
        condition = {operator: {"acs:SourceIp": "10.0.0.0/8"}}
        allowed = Grantee("bob", OWN, statements(allow(Condition=condition)))
        assert not decide(allowed, "mq:PUB", FLIGHTS, Context(address)).allowed
        denied = Grantee("bob", OWN, statements(allow(), deny(Condition=condition)))
        assert not decide(denied, "mq:PUB", FLIGHTS, Context(address)).allowed


def test_an_ipv4_address_in_the_clothes_of_ipv6_is_the_same_address() -> None:
    grantee = Grantee("bob", OWN, statements(allow(Condition={"IpAddress": {"acs:SourceIp": "10.0.0.0/8"}})))
    assert decide(grantee, "mq:PUB", FLIGHTS, Context("::ffff:10.1.2.3")).allowed


def test_a_second_factor_can_be_asked_for() -> None:
    grantee = Grantee("bob", OWN, statements(allow(Condition={"Bool": {"acs:MFAPresent": True}})))
    assert decide(grantee, "mq:PUB", FLIGHTS, Context(mfa_present=True)).allowed
    assert not decide(grantee, "mq:PUB", FLIGHTS, Context()).allowed


@pytest.mark.parametrize(
    ("pattern", "reached"),
    [
        ("acs:mq:*:*:MQ_INST_1_a%flights", True),
        ("acs:mq:::MQ_INST_1_a%*", True),
        ("acs:mq:here:1:*", True),
        ("acs:mq:h*:1:MQ_INST_1_?%flights", True),
        ("acs:mq:there:1:*", False),
        ("acs:mq:here:2:*", False),
        ("acs:dla:*:*:*", False),
        ("acs:*:*:*:*", True),
    ],
)
def test_a_resource_may_name_region_and_account(pattern: str, reached: bool) -> None:
    grantee = Grantee("bob", OWN, statements(allow(resource=pattern)), account="1", region="here")
    assert decide(grantee, "mq:PUB", FLIGHTS).allowed is reached


def test_a_region_that_nobody_knows_fits_a_denial_only() -> None:
    here = "acs:mq:here:*:*"
    assert not decide(Grantee("bob", OWN, statements(allow(resource=here))), "mq:PUB", FLIGHTS).allowed
    assert not decide(Grantee("bob", OWN, statements(allow(), deny(resource=here))), "mq:PUB", FLIGHTS).allowed


def test_a_hostile_pattern_costs_no_time() -> None:
    """With a backtracking expression this would not end in the life of the machine."""
    grantee = Grantee("bob", ("*",), statements(allow(resource="acs:mq:*:*:" + "*a" * 60 + "*b")))
    assert not decide(grantee, "mq:PUB", mq_resource("a" * 255)).allowed


def test_an_explanation_says_of_each_statement_what_matched() -> None:
    rows = (
        allow(resource=FLIGHTS),
        deny("mq:SUB"),
        allow(Condition={"IpAddress": {"acs:SourceIp": "10.0.0.0/8"}}),
    )
    grantee = Grantee("bob", OWN, statements(*rows), statements(allow("mq:PUB", OTHERS)))
    first, second, third, grant = explain(grantee, "mq:PUB", FLIGHTS, Context("192.0.2.1"))
    assert (first.counted, second.action, second.counted) == (True, False, False)
    assert (third.action, third.resource, third.matched) == (True, True, False)
    assert third.conditions[0].text == "IpAddress acs:SourceIp 10.0.0.0/8: it is 192.0.2.1"
    assert (grant.origin, grant.resource) == ("grant", False)
    outside = explain(grantee, "mq:PUB", OTHERS, Context("10.0.0.1"))
    assert [row.counted for row in outside] == [False, False, False, True]


# --- Grammar


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"Statement": []}, "Version"),
        ({"Version": 1, "Statement": [allow()]}, "Version"),
        ({"Version": "1", "Statement": []}, "at least one"),
        ({"Version": "1", "Statement": [7]}, "Statement 1 must be an object"),
        ({"Version": "1", "Statement": [allow()], "Id": "x"}, "The document has the unknown field Id"),
        ({"Version": "1", "Statement": [{"Effect": "Maybe"}]}, "Statement 1: Effect"),
        (
            {"Version": "1", "Statement": [allow(), allow() | {"Actoin": "x"}]},
            "Statement 2 has the unknown field",
        ),
        ({"Version": "1", "Statement": [allow() | {"NotAction": "x"}]}, "unknown field NotAction"),
        ({"Version": "1", "Statement": [allow(action="")]}, "Statement 1: Action"),
        ({"Version": "1", "Statement": [{"Effect": "Allow", "Action": [], "Resource": "*"}]}, "Statement 1: Action"),
        ({"Version": "1", "Statement": [allow(action="pub")]}, "is not an action"),
        ({"Version": "1", "Statement": [allow(action="mq: PUB")]}, "is not an action"),
        ({"Version": "1", "Statement": [allow(resource="MQ_INST_1_a")]}, "is not a resource"),
        ({"Version": "1", "Statement": [allow(resource="acs:mq:*:*")]}, "is not a resource"),
        ({"Version": "1", "Statement": [allow(resource="acs:mq:*:bob:x")]}, "is not a resource"),
        ({"Version": "1", "Statement": [allow(resource="acs:mq:*:*:a\x00b")]}, "is not a resource"),
        ({"Version": "1", "Statement": [allow(Condition={})]}, "at least one operator"),
        ({"Version": "1", "Statement": [allow(Condition={"Like": {}})]}, "condition operators"),
        ({"Version": "1", "Statement": [allow(Condition={"Bool": {}})]}, "at least one key"),
        ({"Version": "1", "Statement": [allow(Condition={"Bool": {"acs:Moon": "true"}})]}, "condition keys"),
        ({"Version": "1", "Statement": [allow(Condition={"Bool": {"acs:SourceIp": "true"}})]}, "cannot compare"),
        (
            {"Version": "1", "Statement": [allow(Condition={"Bool": {"acs:MFAPresent": "yes"}})]},
            "neither true nor false",
        ),
        ({"Version": "1", "Statement": [allow(Condition={"IpAddress": {"acs:SourceIp": "10.0.0.300"}})]}, "IpAddress"),
        ({"Version": "1", "Statement": [allow(Condition={"IpAddress": {"acs:SourceIp": []}})]}, "IpAddress"),
        (
            {"Version": "1", "Statement": [allow(Condition={"DateLessThan": {"acs:CurrentTime": "soon"}})]},
            "is not a time",
        ),
    ],
)
def test_it_names_what_is_wrong_in_a_document(document: dict[str, object], text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        parse_policy(document)
    assert any(text in problem.message for problem in validate(document))


LINES = """{
  "Version": "1",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": ["mq:PUB", "pub"],
      "Ressource": "*"
    }
  ]
}"""


def test_every_problem_has_its_line_and_column() -> None:
    assert [(p.line, p.column) for p in examine(LINES).problems] == [(4, 5), (6, 28), (7, 7)]
    assert "Did you mean Resource?" in examine(LINES).problems[2].message


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "ends too early"),
        ('{"Version": "1",\n}', 1, 16, "Remove this comma"),
        ('{"Version" "1"}', 1, 12, "colon"),
        ('{\n"Version": "1"\n"Statement": []}', 3, 1, "A comma or }"),
        ('{"Version": "1",\n"Statement": [', 2, 15, "ends too early"),
        ('{"Version": "1"', 1, 16, "the { of line 1 is not closed"),
        ("{'Version': 1}", 1, 2, "double quotes"),
        ('{"Version": one}', 1, 13, "one is not a value"),
        ('{"Version": "1', 1, 13, "no closing double quote"),
        ('{"Version": "a\nb"}', 1, 15, "no line break"),
        ('{"Version": "1"} x', 1, 18, "remove what follows"),
        ('{"Version": "1",\n "Version": "1"}', 2, 2, "appears twice here"),
        ("[" * 100, 1, 18, "nested"),
        ("[]", 1, 1, "must be an object"),
        (" " * 70_000, 1, 1, "65,536 characters"),
    ],
)
def test_text_that_is_no_document_is_pointed_at(text: str, line: int, column: int, words: str) -> None:
    problem = next(p for p in examine(text).problems if words in p.message)
    assert (problem.line, problem.column) == (line, column)


# --- Trust


BOB = "acs:ram::1:user/bob"


def trust(*rows: dict[str, object]) -> dict[str, object]:
    return {"Version": "1", "Statement": list(rows)}


def row(effect: str = "Allow", action: str = "sts:AssumeRole", **principal: object) -> dict[str, object]:
    return {"Effect": effect, "Action": action, "Principal": principal}


@pytest.mark.parametrize(
    ("rows", "principal", "allowed"),
    [
        ([row(RAM=[BOB])], BOB, True),
        ([row(RAM=["acs:ram::1:root"])], BOB, True),
        ([row(RAM="acs:ram::2:root")], BOB, False),
        ([row(RAM="acs:ram::1:user/bo")], BOB, False),
        ([row(RAM="acs:ram::1:role/bob")], BOB, False),
        ([row(RAM="acs:ram::1:root"), row("Deny", RAM=BOB)], BOB, False),
        ([row(RAM="acs:ram::1:root"), row("Deny", RAM=BOB)], "acs:ram::1:user/rita", True),
        ([row(Service="openanalytics.example.com")], "openanalytics.example.com", True),
        ([row(Service="openanalytics.example.com")], BOB, False),
        ([row(RAM=BOB)], "openanalytics.example.com", False),
    ],
)
def test_a_trust_policy_lets_in_whom_it_names(rows: list[dict[str, object]], principal: str, allowed: bool) -> None:
    assert decide_trust(parse_trust_policy(trust(*rows)), principal).allowed is allowed


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (trust(row(RAM="*")), "is not a principal"),
        (trust(row(RAM="acs:ram::1:user/*")), "is not a principal"),
        (trust(row(RAM=[])), "RAM must be"),
        (trust(row()), "Principal must be"),
        (trust(row(action="mq:PUB", RAM=BOB)), "only sts:AssumeRole has"),
        (trust(row(action="*", RAM=BOB)), "only sts:AssumeRole has"),
        (trust(row(Federated="x")), "unknown field Federated"),
        (trust(row(Service="two words")), "is not the name of a service"),
        (trust(row(RAM=BOB) | {"Resource": "*"}), "unknown field Resource"),
    ],
)
def test_it_names_what_is_wrong_in_a_trust_policy(document: dict[str, object], text: str) -> None:
    with pytest.raises(PolicyError, match=text.replace("*", r"\*")):
        parse_trust_policy(document)


GID = mq_resource("MQ_INST_1_a%GID_x")


@pytest.mark.parametrize(
    ("holder", "allowed"),
    [("1/bob", True), ("1/*bob", True), ("1", False), ("1/rita", False), ("1/*rita", False), ("2/bob", False)],
)
def test_whoever_made_a_group_may_use_it_without_a_policy(holder: str, allowed: bool) -> None:
    bob = Grantee("bob", boundary=("*",), holders={GID: holder}, account="1")
    assert decide(bob, "mq:SUB", GID).allowed == allowed
    assert not decide(bob, "mq:SUB", mq_resource("MQ_INST_1_a%GID_y")).allowed
    assert not decide(bob, "ram:GetUser", GID).allowed


def test_a_denial_holds_for_who_made_the_group_too() -> None:
    denied = parse_policy({"Version": "1", "Statement": [{"Effect": "Deny", "Action": "mq:SUB", "Resource": "*"}]})
    bob = Grantee("bob", boundary=("*",), statements=denied, holders={GID: "1/bob"}, account="1")
    assert not decide(bob, "mq:SUB", GID).allowed
    assert decide(bob, "mq:QueryGroup", GID).allowed


def test_a_shared_group_needs_a_policy_of_all_but_its_maker() -> None:
    reader = parse_policy({"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "*"}]})
    holders = {GID: "1/*rita"}
    assert decide(Grantee("bob", ("*",), reader, holders=holders, account="1"), "mq:SUB", GID).allowed
    assert not decide(Grantee("bob", ("*",), holders=holders, account="1"), "mq:SUB", GID).allowed


def longest(pattern: Callable[[int], str], many: bool) -> list[dict[str, object]]:
    """The statements of a document as long as one can be, one statement or many, with these patterns of a resource."""
    resources: list[str] = []
    size = 100
    while size <= MAX_BYTES:
        resources.append(f"acs:oss:*:*:{pattern(len(resources))}")
        size += len(resources[-1]) + (len('{"Effect":"Allow","Action":"*","Resource":"",},') if many else len('"",'))
    del resources[-1]
    rows = [allow("*", one) for one in resources] if many else [{**allow("*"), "Resource": resources}]
    assert not validate({"Version": "1", "Statement": rows})
    return rows


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [
        lambda number: "*a" * (100 + number % 9) + f"*b{number}",
        lambda number: f"*{'?a' * (40 + number % 9)}{number}b*",
        lambda number: f"*?a{number}b*",
        lambda number: f"*{'a' * 60}{number:03d}{'a' * 60}",
    ],
)
def test_as_many_of_the_longest_policies_as_can_be_attached_hold_nobody_up(
    pattern: Callable[[int], str], many: bool
) -> None:
    """A user has 40 policies at most, with those of its groups; on a free machine they take far less time than this."""
    documents = [longest(lambda number: pattern(number + 400 * by), many) for by in range(40)]  # noqa: B023
    rows = [row | {"Source": "policy"} for document in documents for row in document]
    began = time.process_time()
    found = parse_rows(rows)
    parsed = time.process_time()
    assert not decide(Grantee("bob", ("*",), found), "oss:Get", "acs:oss:*:42:" + "a" * 4_000 + "123456789_b").allowed
    assert parsed - began < 0.5
    assert time.process_time() - parsed < 0.4
