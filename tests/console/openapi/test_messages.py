"""Consumers, messages, statistics and dead letters through the API, with real messages on a real broker."""

from __future__ import annotations

import base64
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from brokercore.client.errors import RequestTimeout
from console.messaging import queries, status
from console.metrics.store import Store
from console.openapi import envelope
from console.openapi.operations import consumers
from console.topics.models import Group, Topic
from tests.console.live import Live
from tests.console.openapi.caller import Caller
from tests.support.broker import eventually
from tests.support.cast import Cast

MINUTE = 60_000


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


def now_ms() -> int:
    return int(time.time() * 1000)


def of(topic: Topic, **more: Any) -> dict[str, str]:
    return {"instanceId": topic.instance.instance_id, "topic": topic.name} | {k: str(v) for k, v in more.items()}


def group_of(group: Group, **more: Any) -> dict[str, str]:
    return {"instanceId": group.instance.instance_id, "groupId": group.group_id} | {k: str(v) for k, v in more.items()}


def test_a_message_is_found_by_either_id_and_by_key(live: Live, alice: Caller) -> None:
    topic = live.topic(queues=1)
    body = "très – 😀".encode()
    sent = live.send(topic, body, tags="created", keys="order-17 other", properties={"city": "São Paulo"})
    found = alice.data("message/getById", **of(topic, msgId=sent.message_id))
    assert (found["topic"], found["msgId"], found["body"]) == (topic.name, sent.message_id, body.decode())
    assert (found["bodyBase64"], found["bodyOmitted"], found["reconsumeTimes"]) == (False, False, 0)
    assert found["bodyCRC"] == zlib.crc32(body) & 0x7FFFFFFF
    properties = {row["name"]: row["value"] for row in found["propertyList"]}
    assert (properties["TAGS"], properties["KEYS"], properties["city"]) == ("created", "order-17 other", "São Paulo")
    assert found["storeHost"] == live.broker.address
    assert now_ms() - 60_000 < found["bornTimestamp"] <= found["storeTimestamp"] <= now_ms()

    assert alice.data("message/getById", **of(topic, msgId=sent.offset_message_id)) == found
    assert alice.data("message/getByKey", **of(topic, key="order-17")) == [found]
    assert alice.symbol("message/getByKey", **of(topic, key="order-1")) == "BIZ_NO_MESSAGE"
    other = live.topic()
    assert alice.symbol("message/getById", **of(other, msgId=sent.message_id)) == "BIZ_NO_MESSAGE"
    assert alice.symbol("message/getById", **of(other, msgId=sent.offset_message_id)) == "BIZ_NO_MESSAGE"


def test_bytes_that_are_no_text_come_in_base64_and_large_bodies_not_in_lists(
    live: Live, alice: Caller, settings: Any
) -> None:
    settings.API_LIST_BODY_BYTES = 100
    topic = live.topic(queues=1)
    binary, large = b"\xff\x00\xfe", b"x" * 101
    for body in (binary, large):
        live.send(topic, body, keys="k")
    newest, oldest = alice.data("message/getByKey", **of(topic, key="k"))
    assert (oldest["body"], oldest["bodyBase64"]) == (base64.b64encode(binary).decode(), True)
    assert (newest["body"], newest["bodyOmitted"]) == (None, True)
    whole = alice.data("message/getById", **of(topic, msgId=newest["msgId"]))
    assert (whole["body"], whole["bodyOmitted"]) == (large.decode(), False)


def test_the_64_newest_of_a_key_come_newest_first(live: Live, alice: Caller) -> None:
    topic = live.topic(queues=1)
    for n in range(70):
        live.send(topic, str(n).encode(), keys="k")
    found = alice.data("message/getByKey", **of(topic, key="k"))
    assert [row["body"] for row in found] == [str(n) for n in range(69, 5, -1)]


def test_a_query_task_reads_page_by_page(live: Live, alice: Caller, cast: Cast) -> None:
    topic, begin = live.topic(), now_ms() - 1000
    for n in range(12):
        live.send(topic, str(n).encode())
    query = of(topic, beginTime=begin, endTime=now_ms() + 1000, pageSize=5)
    first = alice.data("message/getByPagedTopic", **query, currentPage="1")
    assert (first["maxPageCount"], first["currentPage"], len(first["data"])) == (3, 1, 5)
    later = query | {"taskId": first["taskId"], "beginTime": "0", "endTime": "1", "pageSize": "50"}
    pages = [alice.data("message/getByPagedTopic", **later, currentPage=str(n)) for n in (2, 3, 1)]
    assert [len(page["data"]) for page in pages] == [5, 2, 5]
    assert pages[2] == first
    bodies = [row["body"] for page in (first, *pages[:2]) for row in page["data"]]
    assert sorted(bodies, key=int) == [str(n) for n in range(12)]
    times = [row["storeTimestamp"] for page in (first, *pages[:2]) for row in page["data"]]
    assert times == sorted(times, reverse=True)
    assert len(alice.data("message/getByPagedTopic", **query, currentPage="3")["data"]) == 2

    assert alice.symbol("message/getByPagedTopic", **later, currentPage="4") == envelope.FIELD
    assert Caller.of(cast.rita).symbol("message/getByPagedTopic", **later, currentPage="1") == "BIZ_TASK_NOT_FOUND"
    foreign = later | of(live.topic())
    assert alice.symbol("message/getByPagedTopic", **foreign, currentPage="1") == "BIZ_TASK_NOT_FOUND"
    cache.delete(queries._key(first["taskId"]))  # as ten minutes without use do
    assert alice.symbol("message/getByPagedTopic", **later, currentPage="1") == "BIZ_TASK_NOT_FOUND"


@pytest.mark.parametrize(
    "wrong",
    [
        {"currentPage": "0"}, {"currentPage": "51"}, {"currentPage": None}, {"pageSize": "4"}, {"pageSize": "51"},
        {"beginTime": "-1"}, {"beginTime": "now"}, {"endTime": str(2**63)}, {"beginTime": "9", "endTime": "8"},
    ],
    ids=str,
)  # fmt: skip
def test_it_refuses_a_wrong_query(wrong: dict[str, Any], live: Live, alice: Caller) -> None:
    query = of(live.topic(), beginTime=1, endTime=2, currentPage=1) | wrong
    assert alice.symbol("message/getByPagedTopic", **query) == envelope.FIELD


def test_of_a_long_range_50_pages_can_be_reached(live: Live, alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_PAGES", 2)  # of 5: cheaper than 2,500 messages
    monkeypatch.setattr("console.messaging.queries.MAX_PAGES", 2)
    topic = live.topic(queues=1)
    for n in range(12):
        live.send(topic, str(n).encode())
    query = of(topic, beginTime=0, endTime=now_ms() + 1000, pageSize=5)
    assert alice.data("message/getByPagedTopic", **query, currentPage="2")["maxPageCount"] == 2
    assert alice.symbol("message/getByPagedTopic", **query, currentPage="3") == envelope.FIELD


def test_trace_tells_of_each_own_group(live: Live, alice: Caller) -> None:
    topic, done, away = live.topic(queues=1), live.group(), live.group()
    sent = live.send(topic, tags="A")
    for group in (done, away):
        got = live.consume(group, topic)
        eventually(lambda got=got: got)
        live.stop_consumers()
    live.consume(done, topic)

    def tracks() -> dict[str, str] | None:
        rows = alice.data("message/trace", **of(topic, msgId=sent.message_id))
        assert {row["instanceId"] for row in rows} <= {live.instance.instance_id}
        found = {row["consumerGroup"]: row["trackType"] for row in rows}
        return found if found.get(done.group_id) == "CONSUMED" else None

    assert eventually(tracks, 20) == {done.group_id: "CONSUMED", away.group_id: "NOT_ONLINE"}


def test_an_online_group_is_described(live: Live, alice: Caller) -> None:
    topic, group = live.topic(queues=2), live.group()
    for _ in range(4):
        live.send(topic, tags="A")
    got = live.consume(group, topic, expression="A || B")
    eventually(lambda: len(got) == 4)
    detail = alice.data("topic/subDetail", **of(topic))["SubscriptionDataList"]
    assert detail == [{"groupId": group.group_id, "subString": "A || B", "messageModel": "CLUSTERING"}]
    assert alice.data("group/subDetail", **group_of(group)) == {
        "groupId": group.group_id, "online": True, "messageModel": "CLUSTERING",
        "SubscriptionDataList": [{"topic": topic.name, "subString": "A || B"}],
    }  # fmt: skip
    [connection] = alice.data("consumer/getConnection", **group_of(group))
    assert connection["remoteIP"] == "127.0.0.1"
    assert connection["clientAddr"].startswith("127.0.0.1:")
    assert (connection["language"], connection["version"]) == ("PYTHON", "V5_3_3")
    assert alice.symbol("group/delete", **group_of(group)) == envelope.FIELD

    def consumed() -> Any:
        found = alice.data("consumer/accumulate", **group_of(group))
        return found if found["totalDiff"] == 0 and found["lastTimestamp"] else None

    backlog = eventually(consumed, 20)
    assert (backlog["onLine"], backlog["online"], backlog["delayTime"]) == (True, True, 0)
    assert backlog["DetailInTopicList"] == []
    rows = alice.data("consumer/accumulate", **group_of(group, detail="true"))["DetailInTopicList"]
    [row] = [row for row in rows if row["topic"] == topic.name]
    assert row["totalDiff"] == 0 and len(row["queues"]) == 2
    assert sum(queue["consumerOffset"] for queue in row["queues"]) == 4
    assert all(queue["diff"] == 0 and queue["brokerOffset"] == queue["consumerOffset"] for queue in row["queues"])

    plain = alice.data("consumer/status", **group_of(group, needJstack="true"))
    assert plain["ConsumerConnectionInfoList"] == plain["DetailInTopicList"] == []
    assert plain["ConnectionSet"] == [connection]
    full = alice.data("consumer/status", **group_of(group, detail="true", needJstack="true"))
    [client] = full["ConsumerConnectionInfoList"]
    assert (full["online"], full["consumeModel"], full["subscriptionSame"]) == (True, "CLUSTERING", True)
    assert (client["consumeType"], client["consumeModel"]) == ("PUSH", "CLUSTERING")
    [subscription] = client["SubscriptionSet"]
    assert (subscription["topic"], subscription["tagsSet"]) == (topic.name, ["A", "B"])
    assert any("pull" in thread["thread"].lower() or thread["trackList"] for thread in client["Jstack"])


def test_an_offline_group_is_described_from_its_offsets(live: Live, alice: Caller) -> None:
    topic, group = live.topic(queues=1), live.group()
    never = alice.data("consumer/status", **group_of(group, detail="true"))
    assert (never["online"], never["rebalanceOK"], never["subscriptionSame"]) == (False, False, True)
    assert (never["consumeModel"], never["ConnectionSet"], never["totalDiff"]) == (None, [], 0)
    assert alice.data("consumer/timespan", **group_of(group, topic=topic.name)) == {
        "topic": topic.name, "minTimeStamp": 0, "maxTimeStamp": 0, "consumeTimeStamp": 0,
    }  # fmt: skip
    live.send(topic)
    got = live.consume(group, topic)
    eventually(lambda: got)
    live.stop_consumers()
    middle = now_ms()
    eventually(lambda: now_ms() > middle)
    live.send(topic)
    behind = alice.data("consumer/accumulate", **group_of(group, detail="TRUE"))
    assert (behind["onLine"], behind["totalDiff"]) == (False, 1)
    assert behind["delayTime"] == max(row["delayTime"] for row in behind["DetailInTopicList"])
    span = alice.data("consumer/timespan", **group_of(group, topic=topic.name))
    assert 0 < span["minTimeStamp"] <= span["consumeTimeStamp"] <= middle < span["maxTimeStamp"]

    def backlog_after(**reset: str) -> int:
        assert alice.data("consumer/resetoffset", **group_of(group, topic=topic.name), **reset) == {}
        return int(alice.data("consumer/accumulate", **group_of(group))["totalDiff"])

    assert backlog_after(type="0") == 0
    assert backlog_after(type="1", resetTime="0") == 2
    assert backlog_after(type="1", resetTime=str(middle)) == 1
    assert backlog_after(type="0", resetTime=str(now_ms() + 86_400_000)) == 0
    for wrong in ({"type": "1"}, {"type": "2"}, {"type": "1", "resetTime": str(now_ms() + 86_400_000)}):
        reset = group_of(group, topic=topic.name) | wrong
        assert alice.symbol("consumer/resetoffset", **reset) == envelope.FIELD


def test_a_client_that_does_not_answer_is_told(live: Live, alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic)

    def silent(*_: Any, **__: Any) -> Any:
        raise RequestTimeout("127.0.0.1:1", 5000)

    monkeypatch.setattr(live.admin.clients, "running_info", silent)
    found = alice.data("consumer/status", **group_of(group, detail="true"))
    assert (found["online"], found["subscriptionSame"], found["rebalanceOK"]) == (True, None, None)
    assert found["ConsumerConnectionInfoList"][0]["RunningDataList"] == []
    stack = group_of(group, detail="true", needJstack="true")
    assert alice.symbol("consumer/status", **stack) == envelope.INVOKE
    assert status.diagnose(group).partial


def test_stacks_are_read_by_thread() -> None:
    java = (
        "main                                    TID: 1 STATE: WAITING\n"
        "main                                    java.lang.Object.wait(Native Method)\n"
        "main                                    demo.Main.main(Main.java:7)\n"
        "\n"
        "Consume Thread_1                        TID: 22 STATE: RUNNABLE\n\n"
    )
    assert consumers.threads_of(java) == [
        ("main", ["TID: 1 STATE: WAITING", "java.lang.Object.wait(Native Method)", "demo.Main.main(Main.java:7)"]),
        ("Consume Thread_1", ["TID: 22 STATE: RUNNABLE"]),
    ]
    assert consumers.threads_of("") == consumers.threads_of("what is this") == []


def test_trends_have_one_point_a_period(live: Live, alice: Caller) -> None:
    topic, group = live.topic(), live.group()
    start = (now_ms() // MINUTE - 5) * MINUTE
    kept = Store(live.instance.cluster.name)
    name = topic.physical_name
    kept.add(start + 50_000, 50.0, {f"in:{name}": (100, 50.0), f"out:{name}@{group.physical_name}": (60, 50.0)})
    wanted = {"beginTime": start, "endTime": start + 2 * MINUTE, "period": 1}
    count = alice.data("trend/topicInputTps", **of(topic, **wanted, type=0))
    assert count == {
        "title": topic.name,
        "records": [{"x": start + n * MINUTE, "y": y} for n, y in enumerate([100.0, 0.0])],
    }
    assert alice.data("trend/topicInputTps", **of(topic, **wanted, type=1))["records"][0]["y"] == 2.0
    out = alice.data("trend/groupOutputTps", **group_of(group, topic=topic.name, **wanted, type=0))
    assert [row["y"] for row in out["records"]] == [60.0, 0.0]
    week = 7 * 24 * 60 * MINUTE
    for wrong in (
        {"period": 2}, {"type": 2}, {"endTime": start - 1}, {"beginTime": start - week - 1, "endTime": start},
    ):  # fmt: skip
        assert alice.symbol("trend/topicInputTps", **of(topic, **(wanted | {"type": 0} | wrong))) == envelope.FIELD


def test_dead_letters_are_found_listed_and_sent_again(live: Live, alice: Caller) -> None:
    topic, group = live.topic(), live.group()
    sent = live.send(topic, b'{"n":1}', keys="order-17")
    live.consume(group, topic, fail=True, retries=0)
    there = {"InstanceId": group.instance.instance_id, "GroupId": group.group_id}
    one = there | {"MsgId": sent.message_id}
    letter = eventually(lambda: a["data"] if (a := alice("message/getByIdInDLQ", **one))["success"] else None, 20)
    live.stop_consumers()
    assert (letter["Topic"], letter["MsgId"], letter["Body"]) == (topic.name, sent.message_id, '{"n":1}')
    assert {"Name": "KEYS", "Value": "order-17"} in letter["PropertyList"]
    camel = {name[0].lower() + name[1:]: value for name, value in one.items()}
    assert alice.data("message/getByIdInDLQ", **camel) == letter
    assert alice.symbol("message/getByIdInDLQ", **one, msgId="A") == envelope.FIELD

    query = there | {"BeginTime": "0", "EndTime": str(now_ms() + 1000), "PageSize": "5"}
    page = alice.data("message/getByPagedDLQ", **query, CurrentPage="1")
    assert (page["MaxPageCount"], page["CurrentPage"], page["Data"]) == (1, 1, [letter])
    again = alice.data("message/getByPagedDLQ", **query, CurrentPage="1", TaskId=page["TaskId"])
    assert again == page
    assert alice.symbol("message/getByPagedDLQ", **query, CurrentPage="2", TaskId=page["TaskId"]) == envelope.FIELD
    unknown = alice.symbol("message/getByPagedDLQ", **query, CurrentPage="1", TaskId="gone")
    assert unknown == "BIZ_TASK_NOT_FOUND"

    found = {"BeginTime": "0", "EndTime": str(now_ms() + 1000), "CurrentPage": "1"} | there
    assert alice.data("message/getByPagedDLQ", **found, Key="order-17", Body='{"N"', Reason="early")["Data"] == [letter]
    assert alice.data("message/getByPagedDLQ", **found, Tag="none")["Data"] == []
    assert alice.symbol("message/getByPagedDLQ", **found, Reason="luck") == envelope.FIELD
    assert alice.data("message/discardByIdInDLQ", **one) == {}
    assert alice.data("message/getByPagedDLQ", **found)["Data"] == []
    assert alice.data("message/getByPagedDLQ", **found, State="discarded")["Data"] == [letter]
    assert alice.data("message/discardByIdInDLQ", **one, Restore="true") == {}
    assert alice.data("message/getByPagedDLQ", **found)["Data"] == [letter]

    got = live.consume(group, topic)
    assert alice.data("message/resendByIdInDLQ", **one) == {}
    (message,) = eventually(lambda: got, 20)
    assert (message.message_id, message.reconsume_times, message.topic) == (sent.message_id, 0, topic.name)
    assert alice.data("message/getByIdInDLQ", **one) == letter
