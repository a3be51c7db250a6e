"""The management API from outside: signed requests against the real services and a real broker."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import AccessKey, Organization, User
from console.accounts.policies import ensure_system_policies, system_policy
from console.audit.models import Entry
from console.demo.services import ensure_cluster
from console.instances.models import Cluster
from console.openapi.signature import sign
from tests.support.broker import BrokerProcess

pytestmark = pytest.mark.django_db


class Caller:
    """Signs as the vendor's sample does."""

    def __init__(self, key: accounts.IssuedKey) -> None:
        self.key = key

    def parameters(self, **own: str) -> dict[str, str]:
        common = {
            "_accesskey": self.key.access_key_id,
            "__preventCache": str(int(time.time() * 1000)),
            "_regionId": settings.REGION,
        }
        return {name: value for name, value in (common | own).items() if value != ""}

    def __call__(self, path: str, method: str = "get", **own: str) -> dict[str, Any]:
        parameters = self.parameters(**own)
        parameters["_signature"] = sign(parameters, self.key.access_key_secret)
        client = Client()
        response = (
            client.get(f"/json/{path}", parameters) if method == "get" else client.post(f"/json/{path}", parameters)
        )
        assert response.status_code == 200
        answer: dict[str, Any] = response.json()
        assert answer["requestId"] == response["X-Request-Id"]
        return answer


@pytest.fixture
def cluster(live_broker: BrokerProcess, settings: Any) -> Cluster:
    settings.NAMESRV = live_broker.namesrv
    settings.REDIS_URL = live_broker.redis_url
    settings.BROKER_ACCESS_KEY_ID = live_broker.access_key_id
    settings.BROKER_ACCESS_KEY_SECRET = live_broker.access_key_secret
    return ensure_cluster()


def _tenant(name: str) -> User:
    organization, _ = Organization.objects.get_or_create(name="Tests", parent=None)
    return accounts.create_tenant(name=name, organization=organization, password="correct horse 7")


def _caller(user: User) -> Caller:
    return Caller(accounts.create_access_key(actor=Actor(user=user), user=user))


@pytest.fixture
def alice(db: None) -> User:
    return _tenant("alice")


@pytest.fixture
def call(alice: User) -> Caller:
    return _caller(alice)


def _instance(call: Caller, cluster: Cluster, naming: str = "true", name: str = "orders") -> str:
    answer = call(
        "instance/create",
        cluster=cluster.name,
        instanceName=name,
        independentNaming=naming,
        maxSendTps="1000",
        maxReceiveTps="1000",
    )
    assert answer["success"], answer
    return str(answer["data"]["instanceId"])


def test_it_lists_the_regions_without_a_region(call: Caller) -> None:
    answer = call("region/list", _regionId="")
    assert answer["code"] == 200
    assert answer["status"] == "SUCCESS"
    assert answer["data"] == [{"id": 1, "regionId": "mq-private", "regionName": "Private region"}]


def test_it_creates_and_lists_instances_topics_and_groups(call: Caller, cluster: Cluster, alice: User) -> None:
    instance_id = _instance(call, cluster)
    assert alice.tenant
    assert instance_id.startswith(f"MQ_INST_{alice.tenant.uid}_")
    for name in ("orders_b", "orders_a", "orders_c"):
        assert call("topic/create", "post", instanceId=instance_id, topic=name, orderType="1")["data"] == {}
    made = call("group/create", instanceId=instance_id, groupId="GID_billing", remark="billing service")
    assert made["data"] == {"instanceId": instance_id, "groupId": "GID_billing", "remark": "billing service"}

    instances = call("instance/list")["data"]
    assert [(i["instanceId"], i["namespaceRulesType"], i["DepartmentName"]) for i in instances] == [
        (instance_id, True, "Tests")
    ]
    page = call("topic/listInPage", instanceId=instance_id, currentPage="2", pageSize="2")
    assert (page["currentPage"], page["pageSize"], page["total"]) == (2, 2, 3)
    assert [t["topic"] for t in page["data"]] == ["orders_c"]
    assert page["data"][0]["owner"] == alice.tenant.uid
    assert page["data"][0]["orderType"] == 1
    groups = call("group/list", instanceId=instance_id)["data"]
    assert [(g["groupId"], g["remark"]) for g in groups] == [("GID_billing", "billing service")]
    assert Entry.objects.filter(channel="api", action="topics.topic.create", result="success").count() == 3


def test_the_instance_may_be_left_out_only_with_a_default_instance(call: Caller, cluster: Cluster) -> None:
    missing = call("group/list")
    assert (missing["status"], missing["code"]) == ("BIZ_FIELD_CHECK_INVALID", 400)
    default = _instance(call, cluster, naming="False", name="default")
    assert call("topic/create", topic="bare_topic", orderType="0")["success"]
    assert [t["instanceId"] for t in call("topic/listInPage")["data"]] == [default]


@pytest.mark.parametrize(
    ("own", "symbol"),
    [
        ({"topic": "GIDdata", "orderType": "0"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"topic": "ok_name", "orderType": "3"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"topic": "ok_name"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"topic": "a b", "orderType": "0"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"topic": "taken", "orderType": "0"}, "BIZ_TOPIC_EXISTED"),
        ({"topic": "ok_name", "orderType": "0", "instanceId": "MQ_INST_0_none"}, "BIZ_INSTANCE_NOT_FOUND"),
        ({"topic": "ok_name", "orderType": "0", "_regionId": "mars"}, "BIZ_REGION_NOT_FOUND"),
        ({"topic": "ok_name", "orderType": "0", "_regionId": ""}, "BIZ_FIELD_CHECK_INVALID"),
    ],
)
def test_it_refuses_a_topic_with_the_documented_symbol(
    call: Caller, cluster: Cluster, own: dict[str, str], symbol: str
) -> None:
    instance_id = _instance(call, cluster)
    assert call("topic/create", instanceId=instance_id, topic="taken", orderType="0")["success"]
    answer = call("topic/create", **({"instanceId": instance_id} | own))
    assert (answer["success"], answer["status"], answer["dynamicCode"]) == (False, symbol, symbol)
    assert answer["data"] is None
    assert answer["dynamicMessage"]


def test_a_second_instance_without_namespace_and_a_taken_name_are_refused(call: Caller, cluster: Cluster) -> None:
    _instance(call, cluster, naming="false", name="default")
    again = {"cluster": cluster.name, "maxSendTps": "1", "maxReceiveTps": "1"}
    second = call("instance/create", instanceName="second", independentNaming="false", **again)
    assert second["status"] == "BIZ_INSTANCE_DEFAULT_EXISTED"
    taken = call("instance/create", instanceName="default", independentNaming="true", **again)
    assert taken["status"] == "BIZ_INSTANCE_EXISTED"


def test_wrong_key_wrong_signature_and_wrong_clock_give_one_answer(call: Caller, alice: User) -> None:
    def answer(**own: str) -> tuple[str, str]:
        parameters = call.parameters(**own)
        parameters["_signature"] = sign(parameters, call.key.access_key_secret + own.get("_platform", ""))
        body = Client().get("/json/instance/list", parameters).json()
        return body["status"], body["dynamicMessage"]

    wrong = {
        answer(_accesskey="LTAInobody"),
        answer(_platform="changes the secret"),
        answer(__preventCache=str(int((time.time() - 3600) * 1000))),
        answer(__preventCache="yesterday"),
    }
    assert wrong == {
        ("AUTH_SIGNATURE_INVALID", "The access key, the signature or the time of the request is not valid.")
    }
    AccessKey.objects.update(enabled=False)
    assert answer()[0] == "AUTH_SIGNATURE_INVALID"


def test_a_session_cookie_is_no_signature(alice: User, client: Client) -> None:
    client.force_login(alice)
    assert client.get("/json/instance/list").json()["status"] == "AUTH_SIGNATURE_INVALID"


def test_a_ram_user_does_only_what_its_policies_allow(alice: User, cluster: Cluster) -> None:
    ensure_system_policies()
    actor = Actor(user=alice)
    reader = accounts.create_user(
        actor=actor, name="rita", password="correct horse 7", policies=[system_policy("AliyunMQReadOnlyAccess")]
    )
    nobody = accounts.create_user(actor=actor, name="nick", password="correct horse 7", policies=[])
    instance_id = _instance(_caller(alice), cluster)

    may_read = _caller(reader)
    assert may_read("topic/listInPage", instanceId=instance_id)["success"]
    denied = may_read("topic/create", instanceId=instance_id, topic="mine", orderType="0")
    assert denied["status"] == "AUTH_PERMISSION_DENIED"
    assert "mq:CreateTopic" in denied["dynamicMessage"]
    assert _caller(nobody)("instance/list")["status"] == "AUTH_PERMISSION_DENIED"
    assert Entry.objects.filter(result="refused", actor="rita@alice", action="mq:CreateTopic").count() == 1


def test_another_tenants_instance_does_not_exist(call: Caller, cluster: Cluster) -> None:
    instance_id = _instance(call, cluster)
    charlie = _caller(_tenant("charlie"))
    assert charlie("topic/listInPage", instanceId=instance_id)["status"] == "BIZ_INSTANCE_NOT_FOUND"
    assert charlie("instance/list")["data"] == []


def test_a_doubled_parameter_and_headers_that_contradict_are_refused(call: Caller) -> None:
    parameters = call.parameters()
    parameters["_signature"] = sign(parameters, call.key.access_key_secret)
    doubled = Client().post("/json/region/list?_regionId=mq-private", parameters).json()
    assert doubled["status"] == "BIZ_FIELD_CHECK_INVALID"
    header = Client().get("/json/instance/list", parameters, headers={"x-acs-regionid": "mars"}).json()
    assert header["status"] == "BIZ_FIELD_CHECK_INVALID"
    lonely = Client().get("/json/instance/list", parameters, headers={"x-acs-resourcegroupid": "7"}).json()
    assert lonely["status"] == "BIZ_FIELD_CHECK_INVALID"


def test_repeated_slashes_are_collapsed_and_an_unknown_path_is_404(call: Caller) -> None:
    parameters = call.parameters(_regionId="")
    parameters["_signature"] = sign(parameters, call.key.access_key_secret)
    assert Client().get("http://testserver//json/region//list", parameters).json()["success"]
    assert Client().get("/json/region/destroy", parameters).status_code == 404
