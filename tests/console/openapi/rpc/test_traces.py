"""Traces as the public cloud's SDKs ask for them, of messages on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from console.messaging.status import clients_of
from console.topics.models import Group, Topic
from tests.console.live import Live, live, live_broker, live_redis
from tests.console.messaging.test_trace import sent_and_told
from tests.console.openapi.rpc.conftest import Caller
from tests.support.broker import eventually

__all__ = ["live", "live_broker", "live_redis"]

pytestmark = pytest.mark.django_db
Callers = Callable[[str], Caller]


@pytest.fixture
def traced(live: Live) -> tuple[Topic, Group, str]:
    """A message that was sent, failed once, was consumed, and was begun a third time."""
    topic, group, identity, _ = sent_and_told(live, keys="k1 k2", tags="paid")
    return topic, group, identity


def ask(call: Caller, action: str, topic: Topic, **what: str) -> Any:
    now = int(time.time() * 1000)
    times = {"BeginTime": str(now - 600_000), "EndTime": str(now + 600_000)} | what
    return call(action, InstanceId=topic.instance.instance_id, Topic=topic.name, **times)


@pytest.mark.parametrize("action", ["OnsTraceQueryByMsgId", "OnsTraceQueryByMsgKey"])
def test_a_query_is_begun_and_its_result_has_each_attempt(
    caller: Callers, traced: tuple[Topic, Group, str], action: str
) -> None:
    topic, group, identity = traced
    alice = caller("alice")
    what = {"MsgId": identity} if action.endswith("Id") else {"MsgKey": "k2"}
    query = ask(alice, action, topic, **what).json()["QueryId"]
    data = alice("OnsTraceGetResult", QueryId=query).json()["TraceData"]
    assert (data["Status"], data["QueryId"], data["Topic"]) == ("finish", query, topic.name)
    (sending,) = data["TraceList"]["TraceMapDo"]
    assert {name: sending[name] for name in ("MsgId", "MsgKey", "Tag", "PubGroupName", "CostTime", "Status")} == {
        "MsgId": identity, "MsgKey": "k1 k2", "Tag": "paid", "PubGroupName": "PG_orders", "CostTime": 20,
        "Status": "SEND_SUCCESS",
    }  # fmt: skip
    (of_group,) = sending["SubList"]["SubMapDo"]
    assert (of_group["SubGroupName"], of_group["SuccessCount"], of_group["FailCount"]) == (group.group_id, 1, 1)
    attempts = of_group["ClientList"]["SubClientInfoDo"]
    assert [(one["ReconsumeTimes"], one["Status"], one.get("CostTime")) for one in attempts] == [
        (0, "CONSUME_FAILED", 50), (1, "CONSUME_SUCCESS", 30), (2, "CONSUME_NOT_RETURN", None),
    ]  # fmt: skip


def test_a_query_is_its_accounts_and_needs_the_right_to_read(caller: Callers, traced: tuple[Topic, Group, str]) -> None:
    topic, _, identity = traced
    alice = caller("alice")
    query = ask(alice, "OnsTraceQueryByMsgId", topic, MsgId=identity).json()["QueryId"]
    stranger = caller("charlie")("OnsTraceGetResult", QueryId=query)
    assert (stranger.status_code, stranger.json()["Code"]) == (404, "BIZ_TASK_NOT_FOUND")
    assert caller("nora")("OnsTraceGetResult", QueryId=query).status_code == 403
    assert ask(caller("nora"), "OnsTraceQueryByMsgId", topic, MsgId=identity).status_code == 403
    assert ask(caller("charlie"), "OnsTraceQueryByMsgId", topic, MsgId=identity).status_code == 404
    later = ask(alice, "OnsTraceQueryByMsgId", topic, MsgId=identity, BeginTime="1", EndTime="2").json()["QueryId"]
    found = alice("OnsTraceGetResult", QueryId=later).json()["TraceData"]["TraceList"]["TraceMapDo"]
    assert found == []
    wrong = ask(alice, "OnsTraceQueryByMsgId", topic, MsgId=identity, BeginTime="2", EndTime="1")
    assert (wrong.status_code, wrong.json()["Message"]) == (400, "EndTime is before BeginTime.")


def test_a_message_is_pushed_to_a_client(caller: Callers, live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    sent = live.send(topic, b"once more")
    got = live.consume(group, topic)
    eventually(lambda: got, seconds=30)
    connection = clients_of(group)
    assert connection is not None
    client = connection.connections[0].client_id
    of_group = {"InstanceId": topic.instance.instance_id, "GroupId": group.group_id, "Topic": topic.name}
    answer = caller("alice")("OnsMessagePush", **of_group, MsgId=sent.message_id, ClientId=client)
    assert answer.status_code == 200, answer.json()
    assert [one.body for one in got] == [b"once more", b"once more"]
    absent = caller("alice")("OnsMessagePush", **of_group, MsgId=sent.message_id, ClientId="nobody")
    assert (absent.status_code, absent.json()["Code"]) == (409, "BIZ_CONSUMER_NOT_ONLINE")
