"""Calls that ask for a region: by the parameter, by the address, in the RPC style and as a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.accounts.services.platform_admins import create_platform_key
from console.instances.models import Cluster, Instance
from console.openapi import envelope
from console.openapi.document import document
from console.openapi.mcp import tools
from tests.console.east import EAST, HERE, east, several
from tests.console.openapi.caller import Caller
from tests.console.openapi.rpc.conftest import Caller as RpcCaller
from tests.console.openapi.rpc.conftest import caller
from tests.support.cast import Cast, make_instance, make_topic

__all__ = ["caller", "east", "several"]
pytestmark = pytest.mark.django_db
Rpc = Callable[[str], RpcCaller]


@pytest.fixture
def there(cast: Cast, east: Cluster) -> Instance:
    """An instance of acme's in the second region, with a topic."""
    instance = make_instance(cast.alice, east, name="stock")
    make_topic(cast.alice, instance, "arrivals")
    return instance


# --- /json/… --------------------------------------------------------------------------------------------------------
def test_all_regions_are_told_with_their_names(alice: Caller, several: None) -> None:
    assert alice.data("region/list", _regionId=None) == [
        {"id": 1, "regionId": HERE, "regionName": "Private region"},
        {"id": 2, "regionId": EAST, "regionName": "Europe (Two)"},
    ]
    assert all(row["regions"] == [HERE, EAST] for row in alice.data("organization/list"))


def test_lists_answer_for_the_region_asked(alice: Caller, cast: Cast, there: Instance) -> None:
    for region, cluster, instance in ((HERE, "DefaultCluster", "orders"), (EAST, "east", "stock")):
        assert [row["cluster"] for row in alice.data("cluster/list", _regionId=region)] == [cluster]
        assert [row["instanceName"] for row in alice.data("instance/list", _regionId=region)] == [instance]


def test_nothing_is_found_outside_the_region_asked(alice: Caller, there: Instance) -> None:
    here = {"instanceId": there.instance_id, "topic": "arrivals"}
    assert alice.data("topic/get", _regionId=EAST, **here)["topic"] == "arrivals"
    answer = alice("topic/get", _regionId=HERE, **here)
    assert (answer["status"], answer["dynamicMessage"]) == (
        "BIZ_INSTANCE_NOT_FOUND", f"The instance {there.instance_id} was not found in the region mq-private.",
    )  # fmt: skip
    assert alice.symbol("instance/delete", instanceId=there.instance_id) == "BIZ_INSTANCE_NOT_FOUND"


def test_a_granted_topic_is_found_in_its_region_alone(alice: Caller, cast: Cast, there: Instance) -> None:
    charlie = Caller.of(cast.charlie)
    here = {"instanceId": there.instance_id, "topic": "arrivals"}
    alice.data("empower/create", _regionId=EAST, empowerUser=cast.charlies.tenant.uid, relation="4", **here)
    assert charlie.symbol("topic/get", _regionId=EAST, **here) == "SUCCESS"
    assert charlie.symbol("topic/get", **here) == "BIZ_INSTANCE_NOT_FOUND"


def test_the_instance_without_namespace_is_that_of_the_region(alice: Caller, cast: Cast, east: Cluster) -> None:
    for cluster, topic in ((cast.cluster, "west-topic"), (east, "east-topic")):
        bare = make_instance(cast.alice, cluster, name=f"bare-{cluster.name}"[:20], independent_naming=False)
        make_topic(cast.alice, bare, f"{topic}-{cast.acme.pk}")
    assert alice.symbol("topic/get", topic=f"west-topic-{cast.acme.pk}") == "SUCCESS"
    assert alice.symbol("topic/get", topic=f"east-topic-{cast.acme.pk}") == "BIZ_TOPIC_NOT_FOUND"
    assert alice.symbol("topic/get", topic=f"east-topic-{cast.acme.pk}", _regionId=EAST) == "SUCCESS"


def test_an_instance_is_made_in_the_region_asked(alice: Caller, cast: Cast, east: Cluster) -> None:
    new = {"instanceName": "new", "independentNaming": "true", "maxSendTps": "1", "maxReceiveTps": "1"}
    answer = alice("instance/create", cluster="east", **new)
    assert (answer["status"], answer["dynamicMessage"]) == (
        "BIZ_CLUSTER_NOT_FOUND",
        "The cluster east does not exist in the region mq-private; its clusters are DefaultCluster.",
    )
    made = alice.data("instance/create", cluster="east", _regionId=EAST, **new)["instanceId"]
    assert Instance.objects.get(instance_id=made).region == EAST
    endpoint = alice.data("instance/baseInfo", instanceId=made, _regionId=EAST)["Endpoints"]["tcpEndpoint"]
    assert endpoint.endswith(east.namesrv.rpartition(":")[2])


def test_an_unknown_or_missing_region_is_refused_with_what_is_allowed(alice: Caller, several: None) -> None:
    answer = alice("instance/list", _regionId="mars")
    assert (answer["status"], answer["dynamicMessage"]) == (
        "BIZ_REGION_NOT_FOUND", "The region mars does not exist; allowed are mq-private, eu-2.",
    )  # fmt: skip
    answer = alice("instance/list", _regionId=None)
    assert (answer["status"], answer["dynamicMessage"]) == (
        envelope.FIELD, "The parameter _regionId is missing; allowed are mq-private, eu-2.",
    )  # fmt: skip


def test_the_address_may_say_the_region_and_must_not_say_another(alice: Caller, there: Instance, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver", ".example.com"]
    at_east = {"Host": "mq.console.eu-2.example.com"}
    assert [row["instanceName"] for row in alice.data("instance/list", headers=at_east, _regionId=EAST)] == ["stock"]
    answer = alice("instance/list", headers=at_east)
    assert (answer["status"], answer["dynamicMessage"]) == (
        envelope.FIELD, "_regionId is mq-private but the address is that of the region eu-2.",
    )  # fmt: skip
    settings.API_DEFAULT_REGION = True
    found = alice.data("instance/list", headers=at_east, _regionId=None)
    assert [row["instanceName"] for row in found] == ["stock"]
    assert [row["instanceName"] for row in alice.data("instance/list", _regionId=None)] == ["orders"]


def test_clusters_are_added_to_and_found_in_the_region_asked(cast: Cast, east: Cluster) -> None:
    issued = create_platform_key(name="petra")
    petra = Caller(issued.access_key_id, issued.access_key_secret)
    petra.data("cluster/add", cluster="more", namesrv="127.0.0.1:9", _regionId=EAST)
    assert petra.data("cluster/get", cluster="more", _regionId=EAST)["region"] == EAST
    assert petra.symbol("cluster/get", cluster="more") == "BIZ_CLUSTER_NOT_FOUND"
    assert petra.symbol("adoption/rules", cluster="more") == "BIZ_CLUSTER_NOT_FOUND"
    assert petra.symbol("adoption/rules", cluster="more", _regionId=EAST) == "SUCCESS"
    answer = petra("cluster/update", cluster="more", region="mars", _regionId=EAST)
    assert answer["dynamicMessage"] == "The region mars does not exist; allowed are mq-private, eu-2."
    petra.data("cluster/update", cluster="more", region=HERE, _regionId=EAST)
    assert petra.data("cluster/get", cluster="more")["region"] == HERE


def test_the_document_tells_the_regions(several: None) -> None:
    built = document()
    assert built["components"]["parameters"]["Region"]["schema"]["enum"] == [HERE, EAST]
    facts = {path: item["post"]["x-gantry"]["regional"] for path, item in built["paths"].items()}
    assert facts["/json/instance/create"] and facts["/json/instance/list"] and facts["/json/message/getByIdInDLQ"]
    assert not facts["/json/queue/list"] and not facts["/json/region/list"]


# --- The RPC style --------------------------------------------------------------------------------------------------
def test_regions_and_instances_in_the_rpc_style(caller: Rpc, cast: Cast, there: Instance) -> None:
    alice = caller("alice")
    listed = alice("OnsRegionList", RegionId=EAST).json()["Data"]["RegionDo"]
    assert [(row["OnsRegionId"], row["RegionName"]) for row in listed] == [
        (HERE, "Private region"), (EAST, "Europe (Two)"),
    ]  # fmt: skip
    for asked, name in (("", "orders"), (HERE, "orders"), (EAST, "stock")):
        found = alice("OnsInstanceInServiceList", RegionId=asked).json()["Data"]["InstanceVO"]
        assert [row["InstanceName"] for row in found] == [name]
    topic = {"InstanceId": there.instance_id, "Topic": "arrivals"}
    assert "Data" in alice("OnsTopicStatus", RegionId=EAST, **topic).json()
    assert alice("OnsTopicStatus", **topic).json()["Code"] == "BIZ_TOPIC_NOT_FOUND"
    assert alice("OnsTopicSubDetail", **topic).json()["Code"] == "BIZ_INSTANCE_NOT_FOUND"


def test_an_unknown_region_in_the_rpc_style(caller: Rpc, several: None) -> None:
    answer = caller("alice")("OnsInstanceInServiceList", RegionId="cn-mars")
    assert answer.status_code == 404
    assert answer.json()["Code"] == "BIZ_REGION_NOT_FOUND"
    assert answer.json()["Message"] == "The region cn-mars does not exist; allowed are mq-private, eu-2."
    sts = caller("alice")("GetCallerIdentity", RegionId="cn-mars", Version="2015-04-01")
    assert sts.status_code == 200


def test_an_instance_is_made_on_the_first_cluster_of_the_region(caller: Rpc, cast: Cast, several: None) -> None:
    alice = caller("alice")
    answer = alice("OnsInstanceCreate", InstanceName="new", RegionId=EAST).json()
    assert (answer["Code"], answer["Message"]) == ("BIZ_CLUSTER_NOT_FOUND", "The region eu-2 has no cluster yet.")
    Cluster.objects.create(name="east", region=EAST, namesrv="127.0.0.1:9")
    made = alice("OnsInstanceCreate", InstanceName="new", RegionId=EAST).json()["Data"]["InstanceId"]
    assert Instance.objects.get(instance_id=made).region == EAST


def test_the_endpoint_says_the_region_of_an_sdk(caller: Rpc, cast: Cast, there: Instance, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver", ".example.com"]
    alice = caller("alice")
    parameters = alice.parameters("OnsInstanceInServiceList")
    alice.client.defaults["HTTP_HOST"] = "ons.eu-2.example.com"
    try:
        found = alice.send(parameters).json()["Data"]["InstanceVO"]
        assert [row["InstanceName"] for row in found] == ["stock"]
        answer = alice("OnsInstanceInServiceList", RegionId=HERE).json()
        assert answer["Message"] == "RegionId is mq-private but the address is that of the region eu-2."
    finally:
        del alice.client.defaults["HTTP_HOST"]


# --- Tools of assistants --------------------------------------------------------------------------------------------
def test_tools_take_the_region_where_it_matters(cast: Cast, there: Instance) -> None:
    shown = {tool.name: tool.input_schema["properties"] for tool in tools.listed(cast.actor("alice"))}
    assert shown["instance_list"]["regionId"]["enum"] == [HERE, EAST]
    assert "regionId" in shown["topic_get"] and "regionId" not in shown["queue_list"]


def test_with_one_region_no_tool_has_a_region(cast: Cast) -> None:
    assert not any("regionId" in tool.input_schema["properties"] for tool in tools.listed(cast.actor("alice")))


# --- The API Tool ---------------------------------------------------------------------------------------------------
def test_the_api_tool_asks_for_the_region(cast: Cast, alice: Caller, there: Instance) -> None:
    client = cast.client("alice")
    page = client.get("/api-tool/instance/list").content.decode()
    assert '<option value="eu-2">Europe (Two), eu-2</option>' in page
    given = {"key": alice.access_key_id, "region": EAST}
    answer = client.post("/api-tool/try/instance/list", given).content.decode()
    assert "stock" in answer and there.instance_id in answer
    assert "_regionId=eu-2" in client.get("/api-tool/instance/list?region=eu-2").content.decode()
