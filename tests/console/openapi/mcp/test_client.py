"""The official SDK's client at a live server: what it is shown, what it may do, and what stands in the audit trail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from jsonschema import Draft202012Validator

from console.accounts.models import Policy
from console.accounts.services import IssuedKey
from console.audit.models import Entry
from console.openapi.mcp.protocol import HANDSHAKES, WITHOUT_HANDSHAKE
from console.openapi.operations import OPERATIONS
from console.topics.models import Topic
from tests.console.openapi.mcp.conftest import BASIC, Assistant, authorization
from tests.support.cast import Cast, make_group, make_topic
from tests.support.roles import role_key

pytestmark = pytest.mark.django_db(transaction=True)
As = Callable[[str], Assistant]
READS = {path.replace("/", "_") for path, found in OPERATIONS.items() if not found.changes}
OF_THE_PLATFORM = {
    path.replace("/", "_") for path, found in OPERATIONS.items() if any(n.startswith("platform:") for n in found.needs)
}
ADOPTED = "adoption_listAdopted"
"""Of an instance of the account's own it is the account's."""


def allow(cast: Cast, name: str, *actions: str, effect: str = "Allow", resource: str = "*", **more: Any) -> None:
    """Attach a policy of one statement to a RAM user."""
    statement = {"Effect": effect, "Action": list(actions), "Resource": resource, **more}
    document = {"Version": "1", "Statement": [statement]}
    number = Policy.objects.count()
    tenant = cast.users[name].tenant
    cast.users[name].policies.add(Policy.objects.create(tenant=tenant, name=f"given-{number}", document=document))


# --- The handshake --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("mode", "revision"), [("auto", WITHOUT_HANDSHAKE), ("legacy", HANDSHAKES[-1])])
def test_it_connects_and_learns_what_this_is(assistant: As, mode: str, revision: str) -> None:
    async def told(client: Any) -> tuple[Any, ...]:
        return client.protocol_version, client.server_info.name, client.server_capabilities, client.instructions

    version, name, capabilities, instructions = assistant("rita").do(told, mode)
    assert (version, name) == (revision, "gantry")
    assert capabilities.tools is not None
    assert capabilities.resources is None and capabilities.prompts is None
    assert "instance_list" in instructions


@pytest.mark.filterwarnings("ignore:ping is removed")
def test_a_ping_is_answered(assistant: As) -> None:
    assistant("nora").do(lambda client: client.send_ping(), "legacy")


def test_who_shakes_hands_finds_the_same(cast: Cast, assistant: As) -> None:
    rita = assistant("rita")
    shown = rita.do(lambda client: client.list_tools(), "legacy").tools
    assert {tool.name: tool for tool in shown} == rita.tools()
    result = rita.do(lambda client: client.call_tool("instance_list", {}), "legacy")
    assert [one["instanceId"] for one in result.structured_content["data"]] == [cast.instance.instance_id]
    assert rita.do(lambda client: client.call_tool("topic_get", {}), "legacy").is_error


# --- What is listed -------------------------------------------------------------------------------------------------
def test_every_operation_is_a_tool_with_a_schema_that_holds(assistant: As) -> None:
    tools = assistant("alice").tools() | assistant("petra").tools()
    assert set(tools) == {path.replace("/", "_") for path in OPERATIONS}
    for path, operation in OPERATIONS.items():
        tool = tools[path.replace("/", "_")]
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.name)
        assert tool.title == operation.summary
        assert tool.description and operation.description in tool.description
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"
        assert set(tool.input_schema["required"]) <= set(tool.input_schema["properties"])
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not operation.changes


def test_the_schema_says_what_the_operation_declares(assistant: As) -> None:
    schema = assistant("alice").tools()["topic_create"].input_schema
    assert schema["required"] == ["topic"]
    assert schema["properties"]["orderType"]["enum"] == [0, 1, 2, 4, 5]
    assert schema["properties"]["topic"]["maxLength"] == 127
    takes = Draft202012Validator(schema).is_valid
    assert takes({"topic": "orders", "orderType": 1})
    assert not takes({"topic": "orders", "orderType": 3}) and not takes({"orderType": 1}) and not takes({"topic": 1})


@pytest.mark.parametrize(
    ("name", "destroys"),
    [("topic_create", False), ("topic_delete", True), ("queue_send", False), ("sql_query", True), ("topic_get", False)],
)
def test_what_destroys_says_so(assistant: As, name: str, destroys: bool) -> None:
    annotations = assistant("alice").tools()[name].annotations
    assert annotations is not None and annotations.destructive_hint is destroys


def test_who_may_look_is_shown_no_tool_that_writes(assistant: As) -> None:
    shown = set(assistant("rita").tools())
    assert {"topic_listInPage", "message_getByKey", "queue_peek", "trend_topicInputTps"} <= shown <= READS
    assert not shown & {"sql_tasks", "job_list", "policy_list", "cluster_get"}


def test_who_may_do_everything_with_messages_is_shown_the_writes_of_it(assistant: As) -> None:
    shown = set(assistant("bob").tools())
    assert {"topic_create", "topic_delete", "message_resendByIdInDLQ", "queue_send", "sql_query"} <= shown
    assert not shown & {"policy_create", "vpcTunnel_tunnelSwitch", "alarm_putRule", *OF_THE_PLATFORM - {ADOPTED}}


def test_who_has_no_policy_is_shown_what_is_everybodys(assistant: As) -> None:
    assert set(assistant("nora").tools()) == {"region_list", "cluster_list", "organization_list", "resourceGroup_list"}


def test_an_account_is_shown_nothing_of_the_platform_and_the_platform_nothing_of_an_account(assistant: As) -> None:
    assert set(assistant("alice").tools()) & OF_THE_PLATFORM == {ADOPTED}
    platforms = set(assistant("petra").tools())
    assert platforms >= OF_THE_PLATFORM
    assert not platforms & {"topic_create", "instance_list", "sql_query"}


def test_an_account_that_may_adopt_is_shown_that(cast: Cast, assistant: As) -> None:
    cast.acme.may_adopt = True
    cast.acme.save(update_fields=["may_adopt"])
    assert set(assistant("alice").tools()) & OF_THE_PLATFORM == {n for n in OF_THE_PLATFORM if n.startswith("adoption")}


def test_one_topic_is_enough_to_be_shown_its_tools(cast: Cast, assistant: As) -> None:
    allow(cast, "nora", "mq:UpdateTopic", resource="acs:mq:*:*:MQ_INST_x_y%just-this-one")
    shown = set(assistant("nora").tools())
    assert "topic_update" in shown
    assert "topic_delete" not in shown


@pytest.mark.parametrize(
    ("denial", "shown"),
    [
        ({}, False),
        ({"resource": "acs:mq:*:*:MQ_INST_x_y*"}, True),
        ({"Condition": {"IpAddress": {"acs:SourceIp": "192.0.2.0/24"}}}, True),
        ({"Condition": {"IpAddress": {"acs:SourceIp": "127.0.0.0/8"}}}, False),
    ],
)
def test_what_is_denied_everywhere_is_not_shown(cast: Cast, assistant: As, denial: dict[str, Any], shown: bool) -> None:
    allow(cast, "bob", "mq:DeleteTopic", effect="Deny", **denial)
    assert ("topic_delete" in assistant("bob").tools()) is shown


def test_a_condition_that_does_not_hold_here_allows_nothing_to_be_shown(cast: Cast, assistant: As) -> None:
    allow(cast, "nora", "mq:DeleteTopic", Condition={"IpAddress": {"acs:SourceIp": "192.0.2.0/24"}})
    assert "topic_delete" not in assistant("nora").tools()


def test_who_made_a_group_is_shown_what_its_maker_may(cast: Cast, assistant: As) -> None:
    group = make_group(cast.alice, cast.instance)
    group.creator = cast.nora
    group.save(update_fields=["creator"])
    nora = assistant("nora")
    shown = set(nora.tools())
    assert {"group_subDetail", "consumer_status", "consumer_resetoffset"} <= shown
    assert not shown & {"topic_create", "instance_list"}
    there = {"instanceId": cast.instance.instance_id, "groupId": group.group_id}
    assert nora.data("group_subDetail", **there)["groupId"] == group.group_id


def test_a_client_may_ask_for_some_services(assistant: As) -> None:
    some = assistant("alice")
    some.url += "?service=Topic&service=Instance"
    shown = set(some.tools())
    assert {"topic_get", "instance_list"} <= shown
    assert {OPERATIONS[name.replace("_", "/", 1)].service for name in shown} == {"Topic", "Instance"}


# --- Calls ----------------------------------------------------------------------------------------------------------
def test_a_read_has_its_data_and_its_request_id(cast: Cast, assistant: As) -> None:
    make_topic(cast.alice, cast.instance)
    result = assistant("rita").call("topic_listInPage", instanceId=cast.instance.instance_id, pageSize=5)
    assert not result.is_error
    told = result.structured_content
    assert [row["topic"] for row in told["data"]] == ["orders"]
    assert (told["currentPage"], told["pageSize"], told["total"]) == (1, 5, 1)
    assert json.loads(result.content[0].text) == told  # type: ignore[union-attr]
    assert Entry.objects.get(request_id=told["requestId"]).action == "openapi.topic/listInPage"


def test_a_change_is_made_and_stands_in_the_trail(cast: Cast, assistant: As) -> None:
    key = assistant("bob")
    result = key.call("topic_create", instanceId=cast.instance.instance_id, topic="by-an-assistant", orderType=1)
    assert not result.is_error, result
    assert Topic.objects.get(name="by-an-assistant").order_type == 1
    entry = Entry.objects.get(request_id=result.structured_content["requestId"])
    assert (entry.action, entry.actor, entry.channel, entry.result) == (
        "topics.topic.create", "bob@acme", "mcp", "success",
    )  # fmt: skip
    assert entry.access_key_id and entry.source_ip == "127.0.0.1"


def test_every_call_is_one_entry_whatever_becomes_of_it(cast: Cast, assistant: As) -> None:
    make_topic(cast.alice, cast.instance)
    here, rita = {"instanceId": cast.instance.instance_id}, assistant("rita")
    before = Entry.objects.count()
    rita.data("topic_get", **here, topic="orders")
    assert rita.symbol("topic_get", **here, topic="missing") == "BIZ_TOPIC_NOT_FOUND"
    assert rita.symbol("topic_get", **here) == "BIZ_FIELD_CHECK_INVALID"
    assert rita.symbol("topic_delete", **here, topic="orders") == "AUTH_PERMISSION_DENIED"
    rita.tools()
    entries = list(Entry.objects.order_by("pk")[before:])
    assert [(entry.action, entry.resource, entry.result) for entry in entries] == [
        ("openapi.topic/get", f"{cast.instance.instance_id}%orders", "success"),
        ("openapi.topic/get", f"{cast.instance.instance_id}%missing", "refused"),
        ("openapi.topic/get", cast.instance.instance_id, "refused"),
        ("mq:DeleteTopic", f"acs:mq:*:*:{cast.instance.instance_id}%orders", "refused"),
    ]
    assert {(entry.actor, entry.channel) for entry in entries} == {("rita@acme", "mcp")}
    assert entries[2].detail["reason"] == "The parameter topic is missing."
    assert Topic.objects.filter(name="orders").exists()


def test_a_refusal_says_why_in_one_sentence(cast: Cast, assistant: As) -> None:
    result = assistant("rita").call("topic_get", instanceId=cast.instance.instance_id, topic="missing")
    assert result.is_error
    told = result.structured_content
    assert (told["code"], told["status"]) == (404, "BIZ_TOPIC_NOT_FOUND")
    assert result.content[0].text == f"BIZ_TOPIC_NOT_FOUND: {told['message']}"  # type: ignore[union-attr]
    assert told["message"] == f"The topic missing was not found in the instance {cast.instance.instance_id}."


def test_another_accounts_instance_is_unknown(cast: Cast, assistant: As) -> None:
    make_topic(cast.charlie, cast.charlies, "private")
    there = {"instanceId": cast.charlies.instance_id}
    alice = assistant("alice")
    for name, more in {"topic_get": {"topic": "private"}, "instance_delete": {}, "topic_listInPage": {}}.items():
        result = alice.call(name, **there, **more)
        assert result.structured_content["status"] == "BIZ_INSTANCE_NOT_FOUND", name
        assert "private" not in str(result.structured_content["message"])
    assert [one["instanceId"] for one in alice.data("instance_list")] == [cast.instance.instance_id]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"topic": "new", "orderType": 3}, "The parameter orderType is not valid: "),
        ({"topic": "new", "order_type": 1}, "There is no parameter order_type; there are topic, "),
        ({"topic": "new", "orderType": True}, "The parameter orderType is not valid: "),
        ({"topic": ["new"]}, "The parameter topic is an array; give it as a text."),
        ({"topic": "new", "remark": {"a": 1}}, "The parameter remark is an object; give it as a text."),
        ({"topic": "n\0w"}, "The parameter topic has a NUL character."),
        ({}, "The parameter topic is missing."),
        ({"topic": None}, "The parameter topic is missing."),
    ],
)
def test_wrong_arguments_are_told_by_name(cast: Cast, assistant: As, arguments: dict[str, Any], sentence: str) -> None:
    result = assistant("alice").call("topic_create", **arguments, instanceId=cast.instance.instance_id)
    assert result.structured_content["status"] == "BIZ_FIELD_CHECK_INVALID"
    assert result.structured_content["message"].startswith(sentence)
    assert not Topic.objects.filter(instance=cast.instance).exists()


def test_whole_floats_and_booleans_are_taken(cast: Cast, assistant: As) -> None:
    here = {"instanceId": cast.instance.instance_id}
    group = make_group(cast.alice, cast.instance)
    alice = assistant("alice")
    assert alice.data("topic_listInPage", **here, pageSize=5.0, topic=None) == []
    assert alice.data("group_consumerUpdate", **here, groupId=group.group_id, readEnable=False) == {}
    assert alice.symbol("topic_listInPage", **here, pageSize=5.5) == "BIZ_FIELD_CHECK_INVALID"


def test_limits_of_calls_are_those_of_the_api(cast: Cast, assistant: As, settings: Any) -> None:
    settings.API_STATUS_PER_MINUTE = 1
    group = make_group(cast.alice, cast.instance)
    alice, there = assistant("alice"), {"instanceId": cast.instance.instance_id, "groupId": group.group_id}
    alice.data("consumer_status", **there)
    assert "BIZ_THROTTLED" in {alice.call("consumer_status", **there).structured_content.get("status") for _ in "123"}


def test_a_tool_that_there_is_not_is_an_error_of_the_protocol(assistant: As) -> None:
    with pytest.raises(Exception, match="There is no tool topic_explode"):
        assistant("alice").call("topic_explode")


def test_the_program_of_the_documentation_runs(cast: Cast, live_server: Any, keys: Callable[[str], IssuedKey]) -> None:
    page = (Path(settings.BASE_DIR) / "docs/use/assistants.md").read_text()
    program = re.findall("```python\n(.*?)```", page, re.DOTALL)[0]
    given = authorization(keys("rita"))["Authorization"].removeprefix("Bearer ")
    environment = os.environ | {"GANTRY_KEY": given, "GANTRY_MCP_URL": f"{live_server.url}/mcp"}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "topic_listInPage" in ended.stdout
    assert cast.instance.instance_id in ended.stdout


# --- Who calls ------------------------------------------------------------------------------------------------------
def test_basic_carries_the_same_pair(cast: Cast, live_server: Any, keys: Callable[[str], IssuedKey]) -> None:
    rita = Assistant(f"{live_server.url}/mcp", authorization(keys("rita"), BASIC))
    assert [one["instanceId"] for one in rita.data("instance_list")] == [cast.instance.instance_id]


@pytest.mark.parametrize("place", ["header", "bearer"])
def test_a_role_calls_with_its_token(cast: Cast, live_server: Any, place: str) -> None:
    issued = role_key(cast.actor("alice"), "AliyunMQReadOnlyAccess", session_name="assistant")
    headers = authorization(issued)
    if place == "bearer":
        headers = {"Authorization": f"{headers['Authorization']}:{issued.security_token}"}
    session = Assistant(f"{live_server.url}/mcp", headers)
    shown = set(session.tools())
    assert "topic_get" in shown <= READS
    assert [one["instanceId"] for one in session.data("instance_list")] == [cast.instance.instance_id]
    assert Entry.objects.get(action="openapi.instance/list", channel="mcp").actor == "role/Sender@acme/assistant"
    headers = {"Authorization": f"Bearer {issued.access_key_id}:{issued.access_key_secret}"}
    with pytest.raises(Exception, match="security token is not valid"):
        Assistant(f"{live_server.url}/mcp", headers).tools()


def test_a_wrong_secret_opens_nothing(live_server: Any, keys: Callable[[str], IssuedKey]) -> None:
    wrong = authorization(keys("alice"))["Authorization"][:-1] + "_"
    with pytest.raises(Exception, match="The AccessKey ID, its secret or its security token is not valid"):
        Assistant(f"{live_server.url}/mcp", {"Authorization": wrong}).tools()
