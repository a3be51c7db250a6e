"""What each operation does when it succeeds: instances, topics, groups and grants."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.audit.models import Entry
from console.instances.addresses import tcp_address
from console.instances.models import Instance
from console.openapi.operations import instances
from console.topics.models import Grant, Group, Topic
from tests.console.openapi.caller import Caller
from tests.console.openapi.stage import Stage
from tests.support.cast import Cast, make_group, make_topic, on_broker


def test_it_lists_regions_and_clusters(alice: Caller, cast: Cast) -> None:
    assert alice.data("region/list") == [{"id": 1, "regionId": "mq-private", "regionName": "Private region"}]
    [row] = alice.data("cluster/list")
    assert (row["regionId"], row["cluster"]) == ("mq-private", cast.cluster.name)
    for name in ("createTime", "modifyTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row[name])


def test_an_instance_lives_from_create_to_delete(alice: Caller, cast: Cast) -> None:
    wanted = {
        "cluster": cast.cluster.name, "instanceName": "  très neuf ", "independentNaming": "TRUE", "remark": "first",
        "maxSendTps": "5000", "maxReceiveTps": "4000", "topicCapacity": "25",
    }  # fmt: skip
    made = alice.data("instance/create", **wanted)["instanceId"]
    assert re.fullmatch(rf"MQ_INST_{cast.acme.uid}_[A-Za-z0-9]{{8}}", made)
    info = alice.data("instance/baseInfo", instanceId=made)
    assert info | wanted | {"independentNaming": True} == info | {
        **wanted, "independentNaming": True,
    }  # fmt: skip
    assert (info["instanceName"], info["maxSendTps"], info["topicCapacity"]) == ("très neuf", 5000, 25)
    address = tcp_address(Instance.objects.get(instance_id=made)).removeprefix("http://")
    assert info["Endpoints"]["tcpEndpoint"] == address
    assert (info["ResourceGroup"], info["DepartmentName"]) == (None, "Head office")

    assert alice.data("instance/update", instanceId=made) == {}
    assert alice.data("instance/update", instanceId=made, instanceName="très neuf") == {}
    alice.data("instance/update", instanceId=made, instanceName="renamed")
    alice.data("instance/update", instanceId=made, remark="")
    row = Instance.objects.get(instance_id=made)
    assert (row.name, row.remark) == ("renamed", "")
    listed = {r["instanceId"]: r for r in alice.data("instance/list")}
    assert listed[made]["namespaceRulesType"] is listed[made]["independentNaming"] is True
    assert alice.data("instance/delete", instanceId=made) == {}
    assert alice.symbol("instance/baseInfo", instanceId=made) == "BIZ_INSTANCE_NOT_FOUND"
    actions = Entry.objects.filter(resource=made).order_by("pk").values_list("action", flat=True)
    assert [a.rpartition(".")[2] for a in actions] == ["create", "update", "update", "delete"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"instanceName": "ab"}, {"instanceName": "x" * 65}, {"instanceName": "a\tb"}, {"independentNaming": "1"},
        {"independentNaming": "yes"}, {"maxSendTps": "0"}, {"maxSendTps": "1.0"}, {"maxReceiveTps": "-1"},
        {"maxReceiveTps": "2147483648"}, {"topicCapacity": "0"}, {"topicCapacity": "many"}, {"remark": "x" * 257},
    ],
    ids=str,
)  # fmt: skip
def test_it_refuses_a_wrong_instance(wrong: dict[str, str], stage: Stage) -> None:
    valid = stage.valid("instance/create")
    assert stage.caller("alice").symbol("instance/create", **valid | wrong) == "BIZ_FIELD_CHECK_INVALID"
    assert Instance.objects.filter(tenant=stage.cast.acme).count() == 2


def test_a_topic_lives_from_create_to_delete(stage: Stage) -> None:
    alice, there = stage.caller("alice"), {"instanceId": stage.instance_id, "topic": "flights"}
    assert alice("topic/create", "post", **there, orderType="2", remark="all of them")["data"] == {}
    assert f"{stage.instance_id}%flights" in on_broker(stage.cast.cluster)
    found = alice.data("topic/get", **there)
    assert found.pop("createTime") > 1_700_000_000_000
    assert found == {
        "topic": "flights", "owner": stage.cast.acme.uid, "instanceId": stage.instance_id, "independentNaming": True,
        "orderType": 2, "perm": 6, "status": 0, "relation": 1, "remark": "all of them",
    }  # fmt: skip
    assert alice.data("topic/update", **there, perm="4") == {}
    assert alice.data("topic/get", **there)["perm"] == 4
    assert alice.data("topic/subDetail", **there) == {"topic": "flights", "SubscriptionDataList": []}
    grantee = stage.users["charlie"].tenant
    assert grantee is not None
    alice.data("empower/create", **there, empowerUser=grantee.uid, relation="2")
    assert alice.data("topic/delete", **there) == {}
    assert f"{stage.instance_id}%flights" not in on_broker(stage.cast.cluster)
    assert not Grant.objects.filter(topic__name="flights").exists()
    alice.data("topic/create", **there, orderType="0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "ab"}, {"topic": "x" * 94}, {"topic": "x" * 128}, {"topic": "CIDa"}, {"topic": "GIDdata"},
        {"topic": "a%b"}, {"topic": "très"}, {"orderType": "3"}, {"orderType": "6"}, {"orderType": "true"},
        {"orderType": "1.0"}, {"remark": "x" * 257},
    ],
    ids=str,
)  # fmt: skip
def test_it_refuses_a_wrong_topic(wrong: dict[str, str], stage: Stage) -> None:
    valid = stage.valid("topic/create")
    assert stage.caller("alice").symbol("topic/create", **valid | wrong) == "BIZ_FIELD_CHECK_INVALID"


def test_topics_come_page_by_page_with_the_same_number_of_queries(alice: Caller, cast: Cast) -> None:
    rows = [
        Topic(
            instance=cast.instance, name=f"t{n:03}", physical_name=cast.instance.physical_name(f"t{n:03}"), order_type=0
        )
        for n in range(200)
    ]
    Topic.objects.bulk_create(rows)
    there = {"instanceId": cast.instance.instance_id}
    first = alice("topic/listInPage", **there)
    assert (first["currentPage"], first["pageSize"], first["total"], len(first["data"])) == (1, 20, 200, 20)
    second = alice("topic/listInPage", **there, currentPage="2", pageSize="7")
    assert [row["topic"] for row in second["data"]] == [f"t{n:03}" for n in range(7, 14)]
    beyond = alice("topic/listInPage", **there, currentPage="99", pageSize="100")
    assert (beyond["data"], beyond["total"], beyond["currentPage"]) == ([], 200, 99)
    assert [row["topic"] for row in alice("topic/listInPage", **there, topic="t007")["data"]] == ["t007"]
    assert alice("topic/listInPage", **there, topic="t00")["data"] == []
    for size in ("0", "101", "x"):
        assert alice.symbol("topic/listInPage", **there, pageSize=size) == "BIZ_FIELD_CHECK_INVALID"
    assert alice.symbol("topic/listInPage", **there, currentPage="0") == "BIZ_FIELD_CHECK_INVALID"
    assert alice.data("topic/listNames", **there) == [f"t{n:03}" for n in range(200)]

    def queries(path: str, **own: str) -> int:
        with CaptureQueriesContext(connection) as found:
            alice.data(path, **there, **own)
        return len(found)

    assert queries("topic/listInPage", pageSize="10") == queries("topic/listInPage", pageSize="100") <= 5
    many = queries("group/list"), queries("topic/listNames")
    Group.objects.bulk_create(
        Group(
            instance=cast.instance, group_id=f"GID_{n:03}", physical_name=cast.instance.physical_name(f"GID_{n:03}"),
            owner=cast.acme,
        )
        for n in range(200)
    )  # fmt: skip
    assert len(alice.data("group/list", **there)) == 200
    assert (queries("group/list"), queries("topic/listNames")) == many


def test_a_ram_users_lists_have_a_constant_number_of_queries(stage: Stage) -> None:
    rita = stage.caller("rita")

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as found:
            assert rita.data(path, instanceId=stage.instance_id)
        return len(found)

    paths = ("topic/listInPage", "topic/listNames", "group/list")
    queries(paths[0])  # notes the use of the key
    before = [queries(path) for path in paths]
    for n in range(5):
        make_topic(stage.cast.alice, stage.cast.instance, f"more_{n}")
        make_group(stage.cast.alice, stage.cast.instance, f"GID_more_{n}")
    assert [queries(path) for path in paths] == before


def test_a_group_lives_from_create_to_delete(stage: Stage) -> None:
    alice, there = stage.caller("alice"), {"instanceId": stage.instance_id, "groupId": "GID_billing"}
    made = alice.data("group/create", **there, remark="billing service")
    assert made == there | {"remark": "billing service"}
    assert f"{stage.instance_id}%GID_billing" in on_broker(stage.cast.cluster)
    assert alice.data("group/list", **there) == [
        there
        | {"owner": stage.cast.acme.uid, "independentNaming": True, "remark": "billing service"}
        | {"deliveryOrderType": "Auto"}
    ]
    assert alice.data("group/list", **there | {"groupId": "GID_unknown"}) == []
    assert alice.data("group/subDetail", **there) == {
        "groupId": "GID_billing", "online": False, "messageModel": None, "SubscriptionDataList": [],
    }  # fmt: skip
    assert alice.data("group/consumerUpdate", **there, readEnable="False") == {}
    assert Group.objects.get(group_id="GID_billing").read_enabled is False
    assert alice.data("group/update", **there, deliveryOrderType="Orderly") == {}
    assert Group.objects.get(group_id="GID_billing").delivery_order == "Orderly"
    assert alice.symbol("group/update", **there, deliveryOrderType="orderly") == "BIZ_FIELD_CHECK_INVALID"
    assert alice.data("group/delete", **there) == {}
    assert f"{stage.instance_id}%GID_billing" not in on_broker(stage.cast.cluster)


@pytest.mark.parametrize(
    "name", ["GID_", "GID", "gid_a", "XGID_a", "GID_" + "x" * 61, "GID_ü", "GID_a b", "CID_new", "PID-new"]
)
def test_it_refuses_a_wrong_group_id(name: str, stage: Stage) -> None:
    wrong = stage.valid("group/create") | {"groupId": name}
    assert stage.caller("alice").symbol("group/create", **wrong) == "BIZ_FIELD_CHECK_INVALID"


def test_legacy_ids_work_on_but_cannot_be_made_again(stage: Stage) -> None:
    alice, default = stage.caller("alice"), stage.default.instance_id
    for group_id in ("CID_orders", "PID_orders"):
        assert alice.data("group/subDetail", groupId=group_id)["online"] is False
    assert [row["groupId"] for row in alice.data("group/list", instanceId=default)] == ["CID_orders"]
    taken = {
        name: alice.symbol("group/create", instanceId=default, groupId=name)
        for name in ("CID_orders", "PID_orders", "CID_charlies", "PID_charlies")
    }
    assert taken == {
        "CID_orders": "BIZ_SUBSCRIPTION_EXISTED",
        "PID_orders": "BIZ_PUBLISHER_EXISTED",
        "CID_charlies": "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
        "PID_charlies": "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
    }


def test_the_instance_may_be_left_out_only_where_one_has_no_namespace(alice: Caller, stage: Stage) -> None:
    assert alice.data("topic/create", topic="bare_topic") == {}
    assert alice.data("topic/get", topic="bare_topic")["independentNaming"] is False
    assert alice.data("topic/listNames") == ["bare_topic"]
    assert stage.caller("charlie").symbol("topic/create", topic="bare_topic", orderType="0") == "BIZ_TOPIC_EXISTED"
    owner = stage.caller("charlie").symbol("empower/list", topic="bare_topic", empowerUser="1")
    assert owner == "BIZ_TOPIC_NOT_FOUND"
    Instance.objects.filter(pk=stage.charlies_default.pk).update(independent_naming=True)
    answer = stage.caller("charlie")("topic/listNames")
    assert answer["status"] == "BIZ_FIELD_CHECK_INVALID"
    assert "instanceId" in answer["dynamicMessage"]


def test_grants_are_made_listed_and_revoked_by_the_owner(stage: Stage) -> None:
    alice, topic = stage.caller("alice"), {"instanceId": stage.instance_id, "topic": "orders"}
    account, user = stage.valid("empower/create")["empowerUser"], stage.users["nora"].uid
    assert alice("empower/create", **topic, empowerUser=account, relation="6")["data"] is None
    assert alice("empower/createBySub", **topic, empowerUser=user, relation="2")["data"] is None
    everyone = alice.data("empower/list", **topic)
    assert [(row["empowerUser"], row["relation"], row["subUser"]) for row in everyone] == [
        (account, 6, False), (user, 2, True),
    ]  # fmt: skip
    assert {row["owner"] for row in everyone} == {stage.cast.acme.uid}
    assert [row["relation"] for row in alice.data("empower/list", **topic, empowerUser=user)] == [2]
    assert alice("empower/delete", **topic, empowerUser=account)["data"] is None
    assert alice.data("empower/list", **topic, empowerUser=account) == []
    for wrong in ("0", "abc", str(2**63), "1234", stage.cast.acme.uid):
        assert alice.symbol("empower/create", **topic, empowerUser=wrong, relation="2") == "BIZ_FIELD_CHECK_INVALID"
    for relation in ("1", "3", "7"):
        wrong_relation = topic | {"empowerUser": account, "relation": relation}
        assert alice.symbol("empower/create", **wrong_relation) == "BIZ_FIELD_CHECK_INVALID"


def test_the_access_mode_cannot_be_switched_here(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests send to the same broker, and traffic would be the answer.
    monkeypatch.setattr(instances, "busiest_broker", lambda cluster: ("broker-a", 0.0))
    alice, valid = stage.caller("alice"), stage.valid("vpcTunnel/tunnelSwitch")
    for changes in ({}, {"tunnelType": "singleTunnel", "vSwitchId": "vsw-1"}, {"force": "false"}):
        assert alice.symbol("vpcTunnel/tunnelSwitch", **valid | changes) == "ONS_SERVICE_UNSUPPORTED"
    wrong: Any
    for wrong in ({"tunnelType": "noTunnel"}, {"tunnelType": None}, {"instanceId": ""}, {"force": "2"}):
        assert alice.symbol("vpcTunnel/tunnelSwitch", **valid | wrong) == "BIZ_FIELD_CHECK_INVALID"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["topic/create", "group/create", "instance/create"])
def test_of_two_that_race_for_a_name_exactly_one_wins(path: str, stage: Stage) -> None:
    caller, parameters = stage.caller("alice"), stage.valid(path)
    start, answers = threading.Barrier(4), []

    def create(signed_at_ms: int) -> None:
        start.wait(20)
        try:
            answers.append(caller.symbol(path, __preventCache=str(signed_at_ms), **parameters))
        finally:
            connection.close()

    now_ms = int(time.time() * 1000)  # each signs for itself: one signature is good for one change
    threads = [threading.Thread(target=create, args=[now_ms + number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    loser = {
        "topic/create": "BIZ_TOPIC_EXISTED", "group/create": "BIZ_SUBSCRIPTION_EXISTED",
        "instance/create": "BIZ_INSTANCE_EXISTED",
    }[path]  # fmt: skip
    assert sorted(answers) == sorted(["SUCCESS"] + [loser] * 3)
