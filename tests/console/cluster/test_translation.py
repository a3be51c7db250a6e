"""From rights to lists of ACL 2.0: never more there than here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokercore.client.admin.acl import AclEntry
from brokercore.policy import Context, Grantee, decide, mq_resource, parse_policy
from console.cluster.translation import DEAD_LETTERS, GROUP, TOPIC, Names, Translation, translate
from tests.console.cluster.acl2 import allows

UID = "1234567890123456"
INSTANCE = f"MQ_INST_{UID}_aaaaaaaa"
SPACE = f"{INSTANCE}%"
FOREIGN = "MQ_INST_9999999999999999_bbbbbbbb%"
NAMES = Names(
    (f"{SPACE}orders", f"{SPACE}bills", "bare", f"{FOREIGN}shared"), (f"{SPACE}GID_a", f"{SPACE}GID_b"), (SPACE,)
)
ALL_SHARED = {mq_resource(f"{SPACE}GID_a"): f"{UID}/*", mq_resource(f"{SPACE}GID_b"): f"{UID}/*"}


def grantee(*statements: dict[str, Any], delegated: tuple[dict[str, Any], ...] = (), **fields: Any) -> Grantee:
    """A RAM user of the account with these statements."""
    options: dict[str, Any] = {
        "boundary": (mq_resource(f"MQ_INST_{UID}_*"), mq_resource("bare")),
        "holders": ALL_SHARED,
        "account": UID,
        "region": "mq-private",
    }
    return Grantee(
        "bob",
        statements=tuple(parse_policy({"Version": "1", "Statement": list(statements)}, "p")) if statements else (),
        delegated=tuple(parse_policy({"Version": "1", "Statement": list(delegated)})) if delegated else (),
        **(options | fields),
    )


def says(action: str | list[str], resource: str | list[str], effect: str = "Allow", **condition: Any) -> dict[str, Any]:
    """One statement."""
    found: dict[str, Any] = {"Effect": effect, "Action": action, "Resource": resource}
    return found | ({"Condition": condition} if condition else {})


def lines(translation: Translation) -> dict[str, tuple[str, ...]]:
    return {entry.resource: entry.actions for entry in translation.entries}


def test_an_administrator_has_the_whole_namespace_and_each_group() -> None:
    found = lines(translate(grantee(says("*", "*")), NAMES))
    assert found == {
        f"Topic:{SPACE}*": ("Pub", "Sub", "Get"),
        "Topic:bare": ("Pub", "Sub", "Get"),
        f"Group:{SPACE}GID_a": ("Sub", "Get"),
        f"Topic:%DLQ%{SPACE}GID_a": ("Sub", "Get"),
        f"Group:{SPACE}GID_b": ("Sub", "Get"),
        f"Topic:%DLQ%{SPACE}GID_b": ("Sub", "Get"),
    }


def test_who_may_only_publish_gets_each_topic_by_its_name() -> None:
    """A beginning would let the key make topics on a cluster that makes them by itself."""
    found = lines(translate(grantee(says("mq:PUB", "*")), NAMES))
    assert found == {f"Topic:{SPACE}orders": ("Pub",), f"Topic:{SPACE}bills": ("Pub",), "Topic:bare": ("Pub",)}


def test_a_pattern_with_a_wildcard_inside_becomes_the_topics_that_it_fits() -> None:
    found = lines(translate(grantee(says("mq:SUB", f"acs:mq:*:*:{SPACE}?r*rs")), NAMES))
    assert found == {f"Topic:{SPACE}orders": ("Sub", "Get")}


def test_a_denial_of_one_topic_leaves_the_others_by_their_names() -> None:
    rights = grantee(says("*", "*"), says("mq:PUB", f"acs:mq:*:*:{SPACE}bills", "Deny"))
    found = translate(rights, NAMES)
    assert lines(found)[f"Topic:{SPACE}*"] == ("Sub", "Get")
    assert lines(found)[f"Topic:{SPACE}orders"] == ("Pub",)
    assert f"Topic:{SPACE}bills" not in lines(found)


def test_a_grant_of_another_account_opens_its_topic_as_far_as_the_own_statements_reach() -> None:
    given = says(["mq:PUB", "mq:QueryTopic"], mq_resource(f"{FOREIGN}shared"))
    assert lines(translate(grantee(says("*", "*"), delegated=(given,)), NAMES))[f"Topic:{FOREIGN}shared"] == ("Pub",)
    assert f"Topic:{FOREIGN}shared" not in lines(translate(grantee(says("mq:SUB", "*"), delegated=(given,)), NAMES))


def test_a_group_of_another_account_in_the_namespace_is_not_covered_by_it() -> None:
    holders = ALL_SHARED | {mq_resource(f"{SPACE}GID_b"): "9999999999999999/*"}
    found = lines(translate(grantee(says("*", "*"), holders=holders), NAMES))
    assert f"Group:{SPACE}GID_b" not in found
    assert f"Topic:{SPACE}*" not in found
    assert found[f"Topic:{SPACE}orders"] == ("Pub", "Sub", "Get")


def test_the_maker_of_a_group_may_use_it_without_a_policy() -> None:
    holders = {mq_resource(f"{SPACE}GID_a"): f"{UID}/bob"}
    found = lines(translate(grantee(holders=holders), Names(groups=(f"{SPACE}GID_a",))))
    assert found[f"Group:{SPACE}GID_a"] == ("Sub", "Get")


def test_an_address_condition_becomes_source_addresses() -> None:
    here = {"acs:SourceIp": ["192.0.2.7", "10.0.0.0/8"]}
    (entry,) = translate(grantee(says("mq:PUB", mq_resource(f"{SPACE}orders"), IpAddress=here)), NAMES).entries
    assert entry == AclEntry(f"Topic:{SPACE}orders", ("Pub",), ("10.0.0.0/8", "192.0.2.7/32"))


def test_anywhere_in_ipv4_leaves_out_what_brokers_would_take_for_ipv6() -> None:
    condition = {"acs:SourceIp": ["0.0.0.0/0", "::/0", "2001:db8::/32"]}
    (entry,) = translate(grantee(says("mq:PUB", "acs:mq:*:*:bare", IpAddress=condition)), NAMES).entries
    assert not allows([entry], "Topic", "bare", "Pub", "::1")
    assert allows([entry], "Topic", "bare", "Pub", "1.0.0.1")
    assert allows([entry], "Topic", "bare", "Pub", "2001:db8::7")


@pytest.mark.parametrize(
    "condition",
    [
        {"NotIpAddress": {"acs:SourceIp": "10.0.0.0/8"}},
        {"DateLessThan": {"acs:CurrentTime": "2099-01-01"}},
        {"Bool": {"acs:SecureTransport": "true"}},
        {"Bool": {"acs:MFAPresent": "false"}},
        {"IpAddress": {"acs:SourceIp": "10.0.0.0/8"}, "Bool": {"acs:SecureTransport": "true"}},
    ],
)
def test_other_conditions_take_the_allow_away_and_are_told(condition: dict[str, Any]) -> None:
    found = translate(grantee(says("mq:PUB", "*", **condition)), NAMES)
    assert found.entries == ()
    assert found.narrower
    assert "Policy p allows under a condition" in found.narrower[0]


def test_a_denial_under_a_condition_denies_always_and_is_told() -> None:
    rights = grantee(says("mq:PUB", "*"), says("mq:PUB", "*", "Deny", DateLessThan={"acs:CurrentTime": "2020-01-01"}))
    found = translate(rights, NAMES)
    assert found.entries == ()
    assert found.narrower == ("Policy p denies under a condition (acs:CurrentTime); on the brokers it always denies.",)


def test_actions_from_different_addresses_are_allowed_from_what_is_common_and_are_told() -> None:
    def at(action: str, *places: str) -> dict[str, Any]:
        return says(action, mq_resource(f"{SPACE}orders"), IpAddress={"acs:SourceIp": list(places)})

    found = translate(grantee(at("mq:PUB", "10.0.0.0/8", "192.0.2.0/24"), at("mq:SUB", "10.0.0.0/8")), NAMES)
    assert found.entries == (AclEntry(f"Topic:{SPACE}orders", ("Pub", "Sub", "Get"), ("10.0.0.0/8",)),)
    assert "one entry holds all actions" in found.narrower[0]


def test_who_may_look_at_messages_but_not_at_the_topic_gets_nothing() -> None:
    assert translate(grantee(says("mq:QueryMessage", mq_resource(f"{SPACE}orders"))), NAMES).entries == ()


# The property: whatever the policies, the list allows nothing that the decision refuses.

_PIECES = ["MQ_INST_", UID, "_aaaaaaaa%", "orders", "bills", "o", "GID_a", "*", "?", "bare", FOREIGN, "shared", "s"]
_NAME = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4).map("".join)
_PATTERNS = st.one_of(
    st.sampled_from(["*", f"{SPACE}*", f"{SPACE}orders", f"{SPACE}o*", f"{SPACE}GID_*", "MQ_INST_*", "bare", "b*"]).map(
        lambda name: name if name == "*" else mq_resource(name)
    ),
    _NAME.map(mq_resource),
    _NAME.map(lambda name: f"acs:m*:mq-private:{UID}:{name}"),
)
_ACTIONS = st.sampled_from(["*", "mq:*", "mq:PUB", "mq:SUB", "mq:Query*", "mq:QueryTopic", "mq:CreateTopic", "mq:p?b"])
_CONDITIONS = st.sampled_from(
    [
        {},
        {},
        {},
        {"IpAddress": {"acs:SourceIp": "10.0.0.0/8"}},
        {"IpAddress": {"acs:SourceIp": ["10.1.0.0/16", "192.0.2.7"]}},
        {"IpAddress": {"acs:SourceIp": ["0.0.0.0/0", "::/0"]}},
        {"NotIpAddress": {"acs:SourceIp": "10.1.1.1"}},
        {"DateGreaterThan": {"acs:CurrentTime": "2030-01-01"}},
        {"Bool": {"acs:SecureTransport": "true"}},
    ]
)
_STATEMENTS = st.builds(
    lambda effect, actions, patterns, condition: says(actions, patterns, effect, **condition),
    st.sampled_from(["Allow", "Allow", "Allow", "Deny"]),
    st.lists(_ACTIONS, min_size=1, max_size=3),
    st.lists(_PATTERNS, min_size=1, max_size=3),
    _CONDITIONS,
)
_HOLDERS = st.dictionaries(
    st.sampled_from([mq_resource(f"{SPACE}GID_a"), mq_resource(f"{SPACE}GID_b"), mq_resource(f"{FOREIGN}GID_c")]),
    st.sampled_from([UID, f"{UID}/*", f"{UID}/bob", f"{UID}/*eve", "9999999999999999", "9999999999999999/*"]),
)
_ASKED = [*NAMES.topics, *NAMES.groups, f"{SPACE}later", f"{INSTANCE}b%x", f"{FOREIGN}other", f"{FOREIGN}GID_c", "b"]
_CONTEXTS = [
    Context(ip, datetime(year, 6, 1, tzinfo=UTC), secure_transport=secure)
    for ip in ("10.1.1.1", "10.2.2.2", "192.0.2.7", "8.8.8.8", "::1", "2001:db8::1")
    for year, secure in ((2027, False), (2031, True))
]


@given(
    st.lists(_STATEMENTS, min_size=1, max_size=4),
    st.lists(_STATEMENTS.filter(lambda s: s["Effect"] == "Allow" and "Condition" not in s), max_size=1),
    _HOLDERS,
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_a_list_never_allows_what_the_decision_refuses(
    statements: list[dict[str, Any]], delegated: list[dict[str, Any]], holders: dict[str, str], is_account: bool
) -> None:
    who = grantee(*statements, delegated=tuple(delegated), holders=holders, is_account=is_account)
    names = Names(NAMES.topics, (*NAMES.groups, f"{FOREIGN}GID_c"), NAMES.namespaces)
    entries = translate(who, names).entries
    for kind, table, prefix in (("Topic", TOPIC, ""), ("Group", GROUP, ""), ("Topic", DEAD_LETTERS, "%DLQ%")):
        for name in _ASKED:
            for action, alternatives in table.items():
                for context in _CONTEXTS:
                    if allows(entries, kind, prefix + name, action, context.source_ip):
                        assert any(
                            all(decide(who, needed, mq_resource(name), context).allowed for needed in alternative)
                            for alternative in alternatives
                        ), (kind, name, action, context.source_ip, entries)
