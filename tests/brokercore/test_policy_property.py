"""The decision against a second evaluator that is written from docs/use/permissions.md alone, and slowly."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from brokercore.policy import (
    Context,
    Grantee,
    PolicyError,
    allowed_among,
    could_allow,
    decide,
    examine,
    explain,
    parse_policy,
    validate,
)
from brokercore.policy.crowds import Lines
from brokercore.policy.statements import Glob

NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)

# --- The second evaluator: recursion instead of expressions, documents instead of statements


def like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return like(pattern[1:], text) or (bool(text) and like(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and like(pattern[1:], text[1:])


@given(st.text("ab?*", max_size=12), st.text("ab", max_size=12))
@settings(max_examples=1_000)
def test_a_pattern_fits_what_a_recursive_look_finds(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) is like(pattern, text)


def resource_fits(pattern: str, resource: str, region: str, owner: str) -> bool | None:
    """None: a place that is not known."""
    if pattern == "*":
        return True
    _, service, wanted_region, wanted_owner, name = pattern.split(":", 4)
    _, its_service, its_region, its_owner, its_name = resource.split(":", 4)
    if not like(service, its_service) or not like(name, its_name):
        return False
    answers: list[bool | None] = []
    for wanted, written, known in ((wanted_region, its_region, region), (wanted_owner, its_owner, owner)):
        place = known if written in ("*", "") else written
        if wanted not in ("*", ""):
            answers.append(like(wanted, place) if place else None)
    return False if False in answers else None if None in answers else True


def condition_fits(operator: str, key: str, values: list[str], context: Context) -> bool | None:
    if key == "acs:SourceIp":
        if not context.source_ip:
            return None
        inside = any(ip_address(context.source_ip) in ip_network(v) for v in values)
        return inside if operator == "IpAddress" else not inside
    if key == "acs:CurrentTime":
        now = context.now
        assert now is not None
        times = [datetime.fromisoformat(v) for v in values]
        later, earlier = any(now > t for t in times), any(now < t for t in times)
        return {
            "DateGreaterThan": later,
            "DateLessThan": earlier,
            "DateEquals": now in times,
            "DateNotEquals": now not in times,
            "DateGreaterThanEquals": later or now in times,
            "DateLessThanEquals": earlier or now in times,
        }[operator]
    seen = context.secure_transport if key == "acs:SecureTransport" else context.mfa_present
    return str(seen).lower() in values


def row_counts(row: dict[str, Any], action: str, resource: str, context: Context, owner: str) -> bool:
    unknown = row["Effect"] == "Deny"
    if not any(like(a.lower(), action.lower()) for a in row["Action"]):
        return False
    fits = [resource_fits(r, resource, context.region, owner) for r in row["Resource"]]
    if not any(unknown if f is None else f for f in fits):
        return False
    for operator, keys in row.get("Condition", {}).items():
        for key, values in keys.items():
            holds = condition_fits(operator, key, values, context)
            if not (unknown if holds is None else holds):
                return False
    return True


def naive(who: dict[str, Any], action: str, resource: str, context: Context) -> bool:
    holder = who["holders"].get(resource)
    if holder is None:
        mine = who["owners"].get(resource) == who["account"]
        reached = mine or any(like(p, resource) for p in who["boundary"])
    else:
        account, _, user = holder.partition("/")
        reached = account == who["account"] and (who["is_account"] or user[:1] == "*" or user == who["name"])
    owner = context.owner or (who["account"] if reached else "")
    if not owner and resource.startswith("acs:mq:*:*:MQ_INST_"):
        owner = resource.split("MQ_INST_")[1].split("_", maxsplit=1)[0]

    def counting(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [r for r in found if row_counts(r, action, resource, context, owner)]

    rows = counting(who["statements"]) if reached or counting(who["delegated"]) else []
    rows += counting(who["grants"])
    if holder in (f"{who['account']}/{who['name']}", f"{who['account']}/*{who['name']}") and not who["is_account"]:
        rows += counting([{"Effect": "Allow", "Action": ["mq:*"], "Resource": ["*"]}])
    return bool(rows) and all(r["Effect"] == "Allow" for r in rows)


# --- What is tried

names = st.sampled_from(["MQ_INST_1_a%t", "MQ_INST_1_a%u", "MQ_INST_2_b%t", "MQ_INST_1_a", "bare", "MQ_INST_1_a%GID_x"])
resources = names.map(lambda name: f"acs:mq:*:*:{name}")
actions = st.sampled_from(["mq:PUB", "mq:SUB", "mq:QueryTopic", "ram:GetUser"])
action_patterns = st.sampled_from(["*", "mq:*", "mq:PUB", "MQ:pub", "mq:Query*", "mq:?UB", "*:*", "ram:*", "mq:*u*"])
name_patterns = st.sampled_from(
    ["*", "MQ_INST_1_*", "MQ_INST_1_a%t", "MQ_INST_?_*%t", "*%*", "bare", "b*e", "MQ_INST_1_a%GID_?", "*a*a*t", "**t"]
)
resource_patterns = st.one_of(
    st.just("*"),
    st.builds(
        "acs:{}:{}:{}:{}".format,
        st.sampled_from(["mq", "*", "m?", "dla"]),
        st.sampled_from(["*", "", "here", "h*", "there"]),
        st.sampled_from(["*", "", "1", "2", "?"]),
        name_patterns,
    ),
)
times = st.sampled_from([-1, 0, 1]).map(lambda hours: (NOON + timedelta(hours=hours)).isoformat())
addresses = st.sampled_from(["10.0.0.0/8", "192.0.2.7", "0.0.0.0/0", "2001:db8::/32"])
truths = st.sampled_from(["true", "false"])
ADDRESS_OPERATORS = ["IpAddress", "NotIpAddress"]
TIME_OPERATORS = [
    "DateEquals", "DateNotEquals", "DateGreaterThan", "DateGreaterThanEquals", "DateLessThan", "DateLessThanEquals",
]  # fmt: skip


def one_condition(operators: list[str], keys: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    inner = st.dictionaries(st.sampled_from(keys), st.lists(values, min_size=1, max_size=2), min_size=1)
    return st.dictionaries(st.sampled_from(operators), inner, min_size=1, max_size=2)


conditions = st.one_of(
    one_condition(ADDRESS_OPERATORS, ["acs:SourceIp"], addresses),
    one_condition(TIME_OPERATORS, ["acs:CurrentTime"], times),
    one_condition(["Bool"], ["acs:SecureTransport", "acs:MFAPresent"], truths),
)
some_actions = st.lists(action_patterns, min_size=1, max_size=3)
some_resources = st.lists(resource_patterns, min_size=1, max_size=3)


@st.composite
def rows(draw: st.DrawFn, effects: tuple[str, ...] = ("Allow", "Allow", "Deny")) -> dict[str, Any]:
    row = {
        "Effect": draw(st.sampled_from(effects)),
        "Action": draw(some_actions),
        "Resource": draw(some_resources),
    }
    if draw(st.booleans()):
        row["Condition"] = draw(conditions)
    return row


grant_rows = st.lists(rows(("Allow",)), max_size=2)
boundaries = st.lists(st.sampled_from(["acs:mq:*:*:MQ_INST_1_*", "acs:mq:*:*:bare", "*"]), max_size=2)
holder_texts = st.sampled_from(["1", "1/bob", "1/*", "2/bob", "1/rita", "1/*bob", "1/*rita", "2/*bob"])
callers = st.fixed_dictionaries(
    {
        "name": st.just("bob"),
        "account": st.just("1"),
        "is_account": st.booleans(),
        "boundary": boundaries,
        "statements": st.lists(rows(), max_size=5),
        "grants": grant_rows,
        "delegated": grant_rows,
        "holders": st.dictionaries(resources, holder_texts, max_size=2),
        "owners": st.dictionaries(resources, st.sampled_from(["1", "2"]), max_size=2),
    }
)
contexts = st.builds(
    Context,
    source_ip=st.sampled_from(["", "10.1.2.3", "192.0.2.7", "2001:db8::1"]),
    now=st.sampled_from([-1, 0, 1]).map(lambda hours: NOON + timedelta(hours=hours)),
    secure_transport=st.booleans(),
    mfa_present=st.booleans(),
    region=st.sampled_from(["", "here"]),
    owner=st.sampled_from(["", "1", "2"]),
)


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "1", "Statement": list(statements)}


def grantee_of(who: dict[str, Any]) -> Grantee:
    parsed = {k: parse_policy(document(*who[k])) if who[k] else () for k in ("statements", "grants", "delegated")}
    return Grantee(
        who["name"],
        tuple(who["boundary"]),
        parsed["statements"],
        parsed["grants"],
        parsed["delegated"],
        who["holders"],
        who["account"],
        who["is_account"],
        owners=who["owners"],
    )


@settings(max_examples=500, deadline=None)
@given(callers, actions, resources, contexts)
def test_it_agrees_with_the_second_evaluator(who: dict[str, Any], action: str, resource: str, context: Context) -> None:
    assert decide(grantee_of(who), action, resource, context).allowed == naive(who, action, resource, context)


@settings(max_examples=100, deadline=None)
@given(callers, actions, resources, contexts)
def test_an_explanation_leads_to_the_decision(
    who: dict[str, Any], action: str, resource: str, context: Context
) -> None:
    grantee = grantee_of(who)
    counted = [row.statement.allow for row in explain(grantee, action, resource, context) if row.counted]
    assert decide(grantee, action, resource, context).allowed == (bool(counted) and all(counted))


@settings(max_examples=100, deadline=None)
@given(callers, actions, resources, contexts, st.integers(0, 5))
def test_one_more_denial_never_widens_rights(
    who: dict[str, Any], action: str, resource: str, context: Context, place: int
) -> None:
    deny = {"Effect": "Deny", "Action": ["*"], "Resource": ["*"]}
    more = who | {"statements": [*who["statements"][:place], deny, *who["statements"][place:]], "grants": []}
    assert not decide(grantee_of(more), action, resource, context).allowed


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab*?", max_size=10), st.text(alphabet="ab", max_size=10))
def test_wildcards_mean_what_the_recursion_says(pattern: str, text: str) -> None:
    row = {"Effect": "Allow", "Action": ["*"], "Resource": [f"acs:mq:*:*:x{pattern}"]}
    grantee = Grantee("bob", ("*",), parse_policy(document(row)))
    assert decide(grantee, "mq:PUB", f"acs:mq:*:*:x{text}").allowed == like(pattern, text)


@settings(max_examples=100, deadline=None)
@given(st.lists(rows(), min_size=1, max_size=4), st.sampled_from([None, 1, 2]))
def test_text_and_document_are_read_alike(statements: list[dict[str, Any]], indent: int | None) -> None:
    found = examine(json.dumps(document(*statements), indent=indent))
    assert found.problems == []
    assert parse_policy(found.document) == parse_policy(document(*statements))


fields = st.sampled_from(["Version", "Statement", "Effect", "Action", "Resource", "Condition", "Bool", "x"])
words = st.text(max_size=6) | st.sampled_from(["1", "Allow", "mq:PUB", "*"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_whatever_is_given_is_parsed_or_refused_with_a_place(value: Any) -> None:
    problems = validate(value)
    if isinstance(value, dict):
        try:
            parse_policy(value)
        except PolicyError:
            assert problems
        else:
            assert problems == []
    located = examine(json.dumps(value, indent=1)).problems
    assert bool(located) == bool(problems)
    assert all(p.line >= 1 and p.column >= 1 for p in located)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='{}[]",:1ae \\\n', max_size=30))
def test_any_text_is_read_as_json_reads_it_or_pointed_at(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        found = examine(text)
        assert found.document is None
        (problem,) = found.problems
        lines = text.split("\n")
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
    else:
        assert examine(text).document == expected


@settings(max_examples=500, deadline=None)
@given(callers, actions, st.sets(resources), contexts, st.booleans())
def test_of_many_those_are_allowed_that_are_allowed_each(
    who: dict[str, Any], action: str, among: set[str], context: Context, unlimited: bool
) -> None:
    everything = {"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
    rows_of_it = [*who["statements"], *([everything] if unlimited else [])]
    about = [row for row in rows_of_it if any(like(a.lower(), action.lower()) for a in row["Action"])]
    for kept in (about, [row for row in about if row["Effect"] == "Allow"]):
        grantee = grantee_of(who | {"statements": kept})
        each = {resource for resource in among if decide(grantee, action, resource, context).allowed}
        assert allowed_among(grantee, action, among, context) == each


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="ab*?\n", max_size=6),
    st.lists(st.text(alphabet="ab\n", max_size=5) | st.just(""), max_size=6),
)
def test_a_pattern_finds_among_many_those_that_it_fits(pattern: str, texts: list[str]) -> None:
    glob, names = Glob(pattern), [f"<{number}>" for number in range(len(texts))]
    assert list(glob.among(Lines(texts, names))) == [
        name for text, name in zip(texts, names, strict=True) if glob.matches(text)
    ]


def test_a_pattern_asks_few_of_many() -> None:
    texts = [f"topic-{number:05}" for number in range(20_000)]
    lines = Lines(texts, texts)
    assert len(lines.with_any(["\ntopic-", "-0123"])) == 10
    assert len(lines.with_any(["\ntopic-", "1234\n"])) == 2
    assert not lines.with_any(["GID_"])
    assert len(Glob("*-0123?").among(lines)) == 10
    assert len(Glob("topic-*1234").among(lines)) == 2


@settings(max_examples=500, deadline=None)
@given(callers, actions, resources, contexts)
def test_what_is_allowed_somewhere_could_be(who: dict[str, Any], action: str, resource: str, context: Context) -> None:
    grantee = replace(grantee_of(who), holders={})
    if decide(grantee, action, resource, context).allowed:
        assert could_allow(grantee, action, context)
    deny = {"Effect": "Deny", "Action": [action], "Resource": ["*"]}
    for statements in ([], [*who["statements"], deny]):
        assert not could_allow(grantee_of(who | {"statements": statements, "grants": []}), action, context)


parts = st.text("ab-?*", min_size=1, max_size=5)
some_regions, some_accounts = st.sampled_from(["*", "*", "here", "h*"]), st.sampled_from(["*", "*", "1", "2"])
wild_patterns = st.one_of(
    st.builds("acs:{}:{}:{}:{}".format, st.sampled_from(["mq", "mq", "m?"]), some_regions, some_accounts, parts),
    st.builds("acs:mq:*:*:topic-{}*{}".format, parts, parts),
    st.just("*"),
)
wild_rows = st.builds(
    lambda effect, found, condition: {"Effect": effect, "Action": ["mq:*"], "Resource": found} | condition,
    st.sampled_from(["Allow", "Deny", "Deny"]),
    st.lists(wild_patterns, min_size=1, max_size=4),
    st.one_of(st.just({}), conditions.map(lambda one: {"Condition": one})),
)


@settings(max_examples=60, deadline=None)
@given(callers, st.lists(wild_rows, max_size=6), st.sets(st.text("ab-", max_size=5), min_size=5), contexts, st.data())
def test_of_dozens_those_are_allowed_that_are_allowed_each(
    who: dict[str, Any], found: list[dict[str, Any]], some: set[str], context: Context, data: st.DataObject
) -> None:
    among = {f"acs:mq:*:*:{name}" for name in some} | {
        f"acs:mq:*:*:topic-{name}-{n}" for name in some for n in range(9)
    }
    among |= data.draw(st.sets(st.sampled_from(["acs:mq:here:1:ab", "acs:mns:*:1:/queues/a", "a", "acs:mq::2:b"])))
    held = {one: data.draw(holder_texts) for one in data.draw(st.sets(st.sampled_from(sorted(among)), max_size=5))}
    grantee = grantee_of(who | {"statements": found, "holders": held})
    if data.draw(st.booleans()):
        grantee = replace(grantee, region_of=lambda resource: ("", "here", "there")[len(resource) % 3])
    each = {resource for resource in among if decide(grantee, "mq:QueryTopic", resource, context).allowed}
    assert allowed_among(grantee, "mq:QueryTopic", among, context) == each
