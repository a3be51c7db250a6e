"""Every error that an operation documents, and every code that there is, is really answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.core.cache import cache

from brokercore.client.errors import BrokerUnreachable
from console.instances import services as instances
from console.openapi import envelope, operations
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Operation
from console.rights import limits
from console.rights.services import set_limits
from tests.console.openapi.stage import VALID, Stage, spelled

Changes = dict[str, str]
Prepare = Callable[[Stage, pytest.MonkeyPatch], Changes]


def _small_quota(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Changes:
    monkeypatch.setattr(instances, "MAX_INSTANCES", 2)
    return {}


def _full(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Changes:
    stage.cast.instance.topic_capacity = 1
    stage.cast.instance.save()
    return {}


def _no_further_group(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Changes:
    none = dict.fromkeys((kind.name for kind in limits.KINDS), None)
    set_limits(actor=stage.cast.actor("petra"), tenant=stage.cast.acme, values=none | {"groups": 1})
    return {}


def _busy(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Changes:
    monkeypatch.setattr(operations.instances, "busiest_broker", lambda cluster: ("broker-a", 10.5))
    return {"force": "false"}


def _granted(path: str) -> Prepare:
    def prepare(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Changes:
        assert stage.caller("alice").symbol(path, **stage.valid(path)) == "SUCCESS"
        return {"relation": "6"}

    return prepare


def _in_default(group_id: str) -> Prepare:
    return lambda stage, monkeypatch: {"instanceId": stage.default.instance_id, "groupId": group_id}


def _changed(**changes: str) -> Prepare:
    return lambda stage, monkeypatch: changes


ANYWHERE: dict[str, Prepare] = {
    "BIZ_INSTANCE_NOT_FOUND": _changed(instanceId="MQ_INST_0_nowhere"),
    "BIZ_TOPIC_NOT_FOUND": _changed(topic="nowhere"),
    "BIZ_SUBSCRIPTION_NOT_FOUND": _changed(groupId="GID_nowhere"),
    "BIZ_PUBLISH_INFO_NOT_FOUND": _changed(groupId="PID_nowhere"),
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER": _in_default("CID_charlies"),
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER": _in_default("PID_charlies"),
    "BIZ_NO_MESSAGE": _changed(),
    "BIZ_TASK_NOT_FOUND": _changed(taskId="expired"),
    "EMPOWER_OWNER_CHECK_ERROR": lambda stage, _: {
        "instanceId": stage.cast.charlies.instance_id,
        "topic": "private",
    },
}
"""How to come by an error that means the same at every operation."""

OWN: dict[tuple[str, str], Prepare] = {
    ("instance/create", "BIZ_CLUSTER_NOT_FOUND"): _changed(cluster="nowhere"),
    ("instance/create", "BIZ_INSTANCE_EXISTED"): _changed(instanceName="orders"),
    ("instance/create", "BIZ_INSTANCE_DEFAULT_EXISTED"): _changed(independentNaming="false"),
    ("instance/create", "BIZ_INSTANCE_QUOTA_EXCEEDED"): _small_quota,
    ("instance/delete", "BIZ_INSTANCE_NOT_EMPTY"): _changed(),
    ("instance/update", "BIZ_INSTANCE_EXISTED"): _changed(instanceName="bare"),
    ("topic/create", "BIZ_TOPIC_EXISTED"): _changed(topic="orders"),
    ("topic/create", "BIZ_TOPIC_QUOTA_EXCEEDED"): _full,
    ("group/create", "BIZ_SUBSCRIPTION_EXISTED"): _changed(groupId="GID_orders"),
    ("group/create", "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED"): _no_further_group,
    ("group/create", "BIZ_PUBLISHER_EXISTED"): _in_default("PID_orders"),
    ("consumer/getConnection", "BIZ_CONSUMER_NOT_ONLINE"): _changed(),
    ("vpcTunnel/tunnelSwitch", "BIZ_TUNNEL_SWITCH_BLOCKED"): _busy,
    ("vpcTunnel/tunnelSwitch", "ONS_SERVICE_UNSUPPORTED"): _changed(),
    ("empower/create", "EMPOWER_EXIST_ERROR"): _granted("empower/create"),
    ("empower/createBySub", "EMPOWER_EXIST_ERROR"): _granted("empower/createBySub"),
    ("empower/delete", "EMPOWER_NOT_FOUND"): _changed(),
}
EVERYWHERE = {
    envelope.SIGNATURE, envelope.PERMISSION, envelope.FIELD, envelope.INVOKE, envelope.SYSTEM, envelope.THROTTLED,
    "BIZ_REGION_NOT_FOUND", "BIZ_CLUSTER_READ_ONLY",
}  # fmt: skip
VENDORS = [path for path, found in OPERATIONS.items() if not found.extension]
DOCUMENTED = [(path, symbol) for path in VENDORS for symbol in OPERATIONS[path].errors]


def prepared(path: str, symbol: str) -> Prepare:
    return OWN.get((path, symbol)) or ANYWHERE[symbol]


@pytest.mark.parametrize(("path", "symbol"), DOCUMENTED, ids=str)
def test_it_answers_what_it_documents(path: str, symbol: str, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = prepared(path, symbol)(stage, monkeypatch)
    answer = stage.caller("alice")(path, **spelled(stage.valid(path), changes))
    assert answer["status"] == symbol, answer["dynamicMessage"]


def test_no_way_to_an_error_is_kept_for_an_operation_that_does_not_document_it() -> None:
    assert {pair for pair in OWN if pair not in set(DOCUMENTED)} == set()
    assert set(ANYWHERE) <= {symbol for _, symbol in DOCUMENTED}


#: Answered in test_sql.py: no operation of the vendor's knows them.
OF_SQL = {"BIZ_STATEMENT_REFUSED", "BIZ_SCHEMA_NOT_FOUND", "BIZ_TABLE_NOT_FOUND", "BIZ_RESULT_NOT_FOUND"}

#: Answered in test_queues.py.
OF_QUEUES = {
    "BIZ_QUEUE_NOT_FOUND",
    "BIZ_QUEUE_EXISTED",
    "BIZ_QUEUE_QUOTA_EXCEEDED",
    "BIZ_QUEUE_TOPIC_NOT_FOUND",
    "BIZ_QUEUE_TOPIC_EXISTED",
    "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND",
    "BIZ_QUEUE_SUBSCRIPTION_EXISTED",
}

#: Answered in test_buckets.py.
OF_BUCKETS = {
    "BIZ_BUCKET_NOT_FOUND", "BIZ_BUCKET_EXISTED", "BIZ_RULE_NOT_FOUND", "BIZ_RULE_EXISTED", "BIZ_RULE_QUOTA_EXCEEDED",
}  # fmt: skip


#: Answered in test_jobs.py.
OF_JOBS = {
    "BIZ_JOB_NOT_FOUND",
    "BIZ_JOB_EXISTED",
    "BIZ_JOB_TEXT_REFUSED",
    "BIZ_JOB_STATE_INVALID",
    "BIZ_JOB_QUOTA_EXCEEDED",
    "BIZ_LAKE_QUOTA_EXCEEDED",
    "BIZ_VERSION_NOT_FOUND",
    "BIZ_SAVEPOINT_NOT_FOUND",
    "BIZ_SECRET_NOT_FOUND",
    "BIZ_VARIABLE_NOT_FOUND",
}


#: Answered in test_inflow.py.
OF_INFLOW = {
    "BIZ_INFLOW_TASK_NOT_FOUND",
    "BIZ_INFLOW_TASK_EXISTED",
    "BIZ_INFLOW_TASK_REFUSED",
    "BIZ_INFLOW_TASK_STATE_INVALID",
}


#: Answered in test_tracking.py.
OF_TRACKING = {
    "BIZ_TRACKING_TASK_NOT_FOUND",
    "BIZ_TRACKING_TASK_EXISTED",
    "BIZ_TRACKING_TASK_STATE_INVALID",
    "BIZ_TRACKING_TASK_QUOTA_EXCEEDED",
    "BIZ_CONSUMER_GROUP_NOT_FOUND",
}


#: Answered in test_alarms.py.
OF_ALARMS = {"BIZ_ALARM_NOT_FOUND", "BIZ_ALARM_STATE_INVALID", "BIZ_ALARM_QUOTA_EXCEEDED"}


#: Answered in test_adoption.py.
OF_ADOPTION = {"BIZ_ACCOUNT_NOT_FOUND", "BIZ_ADOPTION_RUN_NOT_FOUND"}


#: Answered in test_clusters.py.
OF_CLUSTERS = {"BIZ_CLUSTER_EXISTED", "BIZ_CLUSTER_IN_USE"}


def test_every_code_is_answered_by_a_test() -> None:
    of_jobs = OF_JOBS | OF_INFLOW | OF_TRACKING
    ours = OF_SQL | OF_QUEUES | OF_BUCKETS | of_jobs | OF_ALARMS | OF_ADOPTION | OF_CLUSTERS
    assert {symbol for _, symbol in DOCUMENTED} | EVERYWHERE | ours == set(envelope.CODES)


def test_there_is_a_valid_call_of_every_operation() -> None:
    assert set(VALID) == set(VENDORS)
    assert len(VENDORS) == 38


@pytest.mark.parametrize("path", VENDORS)
def test_it_refuses_what_every_operation_refuses(path: str, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, valid = stage.caller("alice"), stage.valid(path)
    assert alice.symbol(path, **valid | {"_regionId": "mars"}) == "BIZ_REGION_NOT_FOUND"
    assert alice.symbol(path, **valid | {"__preventCache": "1767225602000"}) == envelope.SIGNATURE
    for name in OPERATIONS[path].parameters.model_json_schema().get("required", []):
        answer = alice(path, **valid | {name: None})
        assert (answer["status"], answer["dynamicMessage"]) == (envelope.FIELD, f"The parameter {name} is missing.")
    broken = {
        "the handler has a bug": envelope.SYSTEM,
        BrokerUnreachable("127.0.0.1:1", "refused"): envelope.INVOKE,
    }
    for reason, symbol in broken.items():
        monkeypatch.setitem(OPERATIONS, path, _failing(OPERATIONS[path], reason))
        answer = alice(path, **valid)
        assert answer["status"] == symbol
        assert "bug" not in answer["dynamicMessage"]


def _failing(operation: Operation, reason: Any) -> Operation:
    def fail(*_: Any) -> Any:
        raise reason if isinstance(reason, Exception) else RuntimeError(reason)

    return replace(operation, handler=fail)


@pytest.mark.parametrize("path", [p for p in VENDORS if p not in ("region/list", "cluster/list")])
def test_it_needs_a_permission(path: str, stage: Stage) -> None:
    nora = stage.caller("nora")
    answer = nora(path, **stage.valid(path))
    assert answer["status"] == envelope.PERMISSION
    assert answer["dynamicMessage"].startswith("denied: ")


@pytest.mark.parametrize("path", [path for path in VENDORS if OPERATIONS[path].limit])
def test_it_is_limited(path: str, stage: Stage, settings: Any) -> None:
    settings.API_STATUS_PER_MINUTE = settings.API_QUERIES_PER_MINUTE = 2
    cache.clear()
    alice, bob = stage.caller("alice"), stage.caller("bob")
    seen = [alice.symbol(path, **stage.valid(path)) for _ in range(5)]
    # A minute may end meanwhile, and with it the count.
    assert envelope.THROTTLED in seen
    assert seen[0] != envelope.THROTTLED
    assert bob.symbol(path, **stage.valid(path)) != envelope.THROTTLED


def test_strict_callers_are_told_only_symbols_that_the_vendor_has(stage: Stage, settings: Any) -> None:
    assert {envelope.told(symbol, strict=True) for symbol in envelope.CODES} <= {
        symbol for symbol, code in envelope.CODES.items() if not code.fallback
    }
    settings.API_STRICT_CODES = True
    alice = stage.caller("alice")
    assert alice.symbol("topic/get", **stage.valid("topic/get") | {"instanceId": "MQ_INST_0_no"}) == envelope.FIELD
    denied = stage.caller("nora")("topic/get", **stage.valid("topic/get"))
    assert (denied["status"], denied["code"]) == ("EMPOWER_OWNER_CHECK_ERROR", 403)
