"""Comparing what the database says with what brokers have, without either."""

from __future__ import annotations

from dataclasses import replace

from console.drift.comparison import Difference, Expected, Kind, Owner, State, compare

OWNERS = {"MQ_INST_5_aaaaaaaa": Owner("MQ_INST_5_aaaaaaaa", 5)}
ROW = Expected("MQ_INST_5_aaaaaaaa%orders", "orders", "MQ_INST_5_aaaaaaaa", 5, {"queues": 8, "mode": 6})
FITS = {"queues": 8, "mode": 6}


def _one(found: list[Difference]) -> Difference:
    assert len(found) == 1
    return found[0]


def test_nothing_differs_when_every_broker_has_every_row() -> None:
    on_brokers = {"broker-a": {ROW.physical_name: FITS}, "broker-b": {ROW.physical_name: FITS}}
    assert compare(Kind.TOPIC, [ROW], on_brokers, OWNERS) == []


def test_a_row_that_one_of_two_brokers_lost_is_missing() -> None:
    found = _one(compare(Kind.TOPIC, [ROW], {"broker-a": {ROW.physical_name: FITS}, "broker-b": {}}, OWNERS))
    assert (found.state, found.details, found.tenant_id) == (State.MISSING, ("not on broker-b",), 5)


def test_what_one_broker_should_have_is_missing_only_when_none_has_it() -> None:
    row = replace(ROW, everywhere=False)
    assert compare(Kind.TOPIC, [row], {"broker-a": {ROW.physical_name: FITS}, "broker-b": {}}, OWNERS) == []
    found = _one(compare(Kind.TOPIC, [row], {"broker-a": {}, "broker-b": {}}, OWNERS))
    assert (found.state, found.details) == (State.MISSING, ("not on broker-a, broker-b",))


def test_other_settings_are_named_with_both_values() -> None:
    on_brokers = {"broker-a": {ROW.physical_name: {"queues": 4, "mode": 6}}}
    found = _one(compare(Kind.TOPIC, [ROW], on_brokers, OWNERS))
    assert (found.state, found.details) == (State.DIFFERENT, ("queues: 8 here, 4 on broker-a",))


def test_an_unknown_name_belongs_to_the_instance_of_its_namespace() -> None:
    found = _one(compare(Kind.TOPIC, [], {"broker-a": {"MQ_INST_5_aaaaaaaa%new": FITS}}, OWNERS))
    assert (found.state, found.name, found.instance_id, found.tenant_id) == (
        State.EXTRA,
        "new",
        "MQ_INST_5_aaaaaaaa",
        5,
    )


def test_a_bare_name_and_a_name_of_an_unknown_namespace_are_no_drift() -> None:
    names = ["bare", "MQ_INST_9_zzzzzzzz%gone", "MQ_INST_5_aaaaaaaa"]
    assert compare(Kind.TOPIC, [], {"broker-a": dict.fromkeys(names, FITS)}, OWNERS) == []


def test_what_was_adopted_differs_only_in_what_no_broker_has_any_more() -> None:
    row, other = replace(ROW, adopted=True), {"queues": 4, "mode": 6}
    mixed = {"broker-a": {ROW.physical_name: FITS}, "broker-b": {ROW.physical_name: other}, "broker-c": {}}
    assert compare(Kind.TOPIC, [row], mixed, OWNERS) == []
    found = _one(compare(Kind.TOPIC, [row], {"broker-a": {}, "broker-b": {ROW.physical_name: other}}, OWNERS))
    assert (found.state, found.adopted, found.details) == (
        State.DIFFERENT,
        True,
        ("queues: 8 here, 4 on broker-b",),
    )
    assert _one(compare(Kind.TOPIC, [row], {"broker-a": {}}, OWNERS)).state is State.MISSING


def test_what_brokers_and_tools_keep_for_themselves_is_nobodys_business() -> None:
    names = ["TBW102", "%RETRY%GID_x", "%DLQ%GID_x", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster"]
    assert compare(Kind.TOPIC, [], {"broker-a": dict.fromkeys(names, FITS)}, OWNERS) == []
    groups = ["TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "GANTRY_CONSOLE"]
    assert compare(Kind.GROUP, [], {"broker-a": {name: {} for name in groups}}, OWNERS) == []
