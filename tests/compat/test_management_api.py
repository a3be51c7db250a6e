"""The management API on messages that the vendor's Java client produced, consumed and failed on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from pytest_django.live_server_helper import LiveServer

from console.metrics import sampler
from console.metrics.store import Store
from console.rights import access_table
from tests.compat import servers
from tests.compat.programs import Keys, Program, Toolbox, build_programs
from tests.console.openapi.caller import Caller
from tests.support.broker import BrokerProcess, eventually
from tests.support.cast import Cast, cast, console

__all__ = ["cast", "console"]

#: A message whose last retry failed becomes a letter at once; the Java client reports what it did every few seconds.
PATIENCE_SECONDS = 60
#: `consumer/status` may be called 60 times a minute.
PAUSE_SECONDS = 1.5


@dataclass
class Java:
    """Acme's instance as a Java program and a caller of the API see it."""

    tools: Toolbox
    keys: Keys
    api: Caller
    instance_id: str

    def create(self, topic: str, group: str) -> dict[str, str]:
        """Make a topic and a group by the API; their parameters."""
        there = {"instanceId": self.instance_id}
        self.api.data("topic/create", **there, topic=topic, orderType="0")
        self.api.data("group/create", **there, groupId=group)
        access_table.publish()
        return there | {"topic": topic, "groupId": group}

    def send(self, of: dict[str, str], **options: Any) -> list[str]:
        """Send by the Java client; the message IDs of its SendResults."""
        events = self.tools.run("OnsProducer", self.keys, topic=of["topic"], group=of["groupId"], **options)
        return [event["id"] for event in events if event["event"] == "sent"]

    def consume(self, of: dict[str, str], **options: Any) -> Program:
        """Start a Java consumer."""
        return self.tools.start(
            "OnsConsumer", self.keys, topic=of["topic"], group=of["groupId"], **options
        ).wait_ready()

    def until(self, path: str, right: Any, **own: str) -> Any:
        """`data` of the operation once `right` holds for it."""

        last: list[Any] = []

        def answer() -> Any:
            last[:] = [self.api(path, **own)]
            return last[0]["data"] if last[0]["success"] and right(last[0]["data"]) else None

        try:
            return eventually(answer, PATIENCE_SECONDS, pause=PAUSE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"the last answer of {path}: {last}") from error


@pytest.fixture
def java(cast: Cast, broker: BrokerProcess, java_home: Path, tmp_path: Path, monkeypatch: Any) -> Iterator[Java]:
    if servers.wants_apache():
        pytest.skip("the console of these tests runs on the embedded broker")
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    build_programs()
    api = Caller.of(cast.alice)
    tools = Toolbox(java_home, broker.namesrv, cast.instance.instance_id)
    try:
        yield Java(tools, Keys(api.access_key_id, api.secret), api, cast.instance.instance_id)
    finally:
        tools.kill_since(0)


def test_a_client_that_has_the_old_address_property_alone_finds_the_name_server(
    java: Java, live_server: LiveServer
) -> None:
    of = java.create("flights", "GID_flights")
    # The client asks the console, with no signature and no header of its own.
    address = f"{live_server.url}{reverse('instances.name_servers')}"
    assert len(java.send(of, body="flight", count=3, ons_addr=address)) == 3
    consumer = java.consume(of, ons_addr=address)
    consumer.wait_received([f"flight-sync-{n}" for n in range(3)])


def test_messages_and_consumers_of_the_java_client(java: Java, cast: Cast) -> None:
    of = java.create("flights", "GID_flights")
    topic = {name: of[name] for name in ("instanceId", "topic")}
    group = {name: of[name] for name in ("instanceId", "groupId")}
    begin = int(time.time() * 1000) - 1000
    ids = java.send(of, body="flight", count=8, key="N14228", tag="AA")
    assert len(ids) == 8

    message = java.api.data("message/getById", **topic, msgId=ids[0])
    assert (message["msgId"], message["topic"]) == (ids[0], "flights")
    assert message["body"].startswith("flight")
    assert {"name": "TAGS", "value": "AA"} in message["propertyList"]
    by_key = java.api.data("message/getByKey", **topic, key="N14228")
    assert sorted(row["msgId"] for row in by_key) == sorted(ids)
    end = str(int(time.time() * 1000) + 1000)
    page = java.api.data(
        "message/getByPagedTopic", **topic, beginTime=str(begin), endTime=end, currentPage="1", pageSize="5"
    )
    assert (page["maxPageCount"], len(page["data"])) == (2, 5)

    consumer = java.consume(of)
    consumer.wait_received(m["body"] for m in by_key)
    status = java.until(
        "consumer/status",
        lambda data: data["rebalanceOK"] and data["totalDiff"] == 0 and data["lastTimestamp"],
        **group, detail="true", needJstack="true",
    )  # fmt: skip
    check_status(status)
    connections = java.api.data("consumer/getConnection", **group)
    assert connections == status["ConnectionSet"]
    assert java.api.data("topic/subDetail", **topic)["SubscriptionDataList"] == [
        {"groupId": "GID_flights", "subString": "*", "messageModel": "CLUSTERING"}
    ]
    assert java.api.data("group/subDetail", **group)["SubscriptionDataList"] == [{"topic": "flights", "subString": "*"}]
    span = java.api.data("consumer/timespan", **of)
    assert begin < span["minTimeStamp"] <= span["consumeTimeStamp"] <= span["maxTimeStamp"]
    tracks = java.until("message/trace", lambda data: data[0]["trackType"] == "CONSUMED", **topic, msgId=ids[0])
    assert [row["consumerGroup"] for row in tracks] == ["GID_flights"]
    check_trends(java, cast, of, consumer)

    before = len(consumer.bodies())
    assert java.api.data("consumer/resetoffset", **of, type="1", resetTime=str(begin)) == {}
    consumer.wait_until(lambda: len(consumer.bodies()) >= before + 16, "the messages again", PATIENCE_SECONDS)
    assert java.api.data("group/consumerUpdate", **group, readEnable="false") == {}
    assert java.api.symbol("group/delete", **group) == "BIZ_FIELD_CHECK_INVALID"


def check_status(status: dict[str, Any]) -> None:
    """The diagnosis of one Java client, thread stacks and all."""
    assert (status["online"], status["consumeModel"], status["subscriptionSame"]) == (True, "CLUSTERING", True)
    [client] = status["ConsumerConnectionInfoList"]
    assert (client["language"], client["consumeType"]) == ("JAVA", "PUSH")
    assert client["version"].startswith("V4_")
    assert client["threadCount"] == 4
    assert client["startTimeStamp"] > time.time() * 1000 - 600_000
    [subscription] = client["SubscriptionSet"]
    assert (subscription["topic"], subscription["subString"]) == ("flights", "*")
    assert [row["topic"] for row in client["RunningDataList"]] == ["flights"]
    stacks = {track["thread"]: track["trackList"] for track in client["Jstack"]}
    assert any("gantry.compat.OnsConsumer.main" in line for line in stacks["main"])
    assert any(name.startswith("ConsumeMessageThread") for name in stacks)


def check_trends(java: Java, cast: Cast, of: dict[str, str], consumer: Program) -> None:
    """What is sent and consumed between two samples."""
    assert sampler.sample_cluster(cast.cluster)
    java.send(of, body="later", count=8)
    consumer.wait_received([f"later-sync-{n}" for n in range(8)])
    group = {name: of[name] for name in ("instanceId", "groupId")}
    java.until("consumer/accumulate", lambda data: data["totalDiff"] == 0, **group)
    kept = Store(cast.cluster.name)
    last = kept.latest()
    assert last is not None
    then = int(time.time() * 1000) - 50_000
    kept.put_latest(replace(last, at_ms=then, turns=[then]))
    assert sampler.sample_cluster(cast.cluster)
    now = int(time.time() * 1000)
    wanted = {"beginTime": str(now - 180_000), "endTime": str(now), "period": "1", "type": "0"}
    topic = {name: of[name] for name in ("instanceId", "topic")}
    assert sum(row["y"] for row in java.api.data("trend/topicInputTps", **topic, **wanted)["records"]) == 8
    assert sum(row["y"] for row in java.api.data("trend/groupOutputTps", **of, **wanted)["records"]) == 8


def test_dead_letters_of_the_java_client(java: Java) -> None:
    of = java.create("refunds", "GID_refunds")
    letters = {"InstanceId": of["instanceId"], "GroupId": of["groupId"]}
    consumer = java.consume(of, max_reconsume_times=0)
    [message_id] = java.send(of, body="refund", count=1, key="order-17", properties="fails=1")
    found = java.until("message/getByIdInDLQ", lambda data: True, **letters, MsgId=message_id)
    assert (found["Topic"], found["MsgId"]) == ("refunds", message_id)
    page = java.api.data(
        "message/getByPagedDLQ", **letters, BeginTime="0", EndTime=str(int(time.time() * 1000) + 1000), CurrentPage="1"
    )
    assert [row["MsgId"] for row in page["Data"]] == [message_id]
    before = len(consumer.bodies())
    assert java.api.data("message/resendByIdInDLQ", **letters, MsgId=message_id) == {}
    consumer.wait_until(lambda: len(consumer.bodies()) > before, "the letter again", PATIENCE_SECONDS)
    # It failed again, since its counter began at 0 anew: a second letter with the same ID, the first one stays.
    pages = {"BeginTime": "0", "EndTime": str(int(time.time() * 1000) + 600_000), "CurrentPage": "1"}
    again = java.until("message/getByPagedDLQ", lambda data: len(data["Data"]) == 2, **letters, **pages)
    assert {row["MsgId"] for row in again["Data"]} == {message_id}
