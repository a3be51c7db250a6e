"""What tools and consoles ask: topics, groups, offsets, progress, messages, rates, key-values."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from brokercore.protocol.bodies.stats import ConsumeStats, TopicStats, offsets_from_json, time_spans_from_json
from brokercore.protocol.message import decode_stored
from brokercore.protocol.message_queue import MessageQueue
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import eventually


def body_of(wire: Wire, code: int, **ext: Any) -> Any:
    return json.loads(wire.ok(code, ext).body)


def commit(wire: Wire, group: str, topic: str, offset: int, queue: int = 0) -> None:
    wire.ok(15, {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset})


def committed(wire: Wire, group: str, topic: str, queue: int = 0, else_zero: str = "false") -> str | None:
    ext = {"consumerGroup": group, "topic": topic, "queueId": queue, "setZeroIfNotFound": else_zero}
    answer = wire.call(14, ext)
    return answer.ext["offset"] if answer.code == 0 else None


# Topics


def test_a_topic_is_created_shown_routed_changed_and_deleted(wire: Wire) -> None:
    topic = wire.topic(queues=2, message_type="FIFO")
    shown = body_of(wire, 351, topic=topic)
    assert (shown["readQueueNums"], shown["attributes"]) == (2, {"message.type": "FIFO"})
    route = body_of(wire, 105, topic=topic)
    assert route["queueDatas"][0] | {"perm": 6} == route["queueDatas"][0]
    assert route["queueDatas"][0]["writeQueueNums"] == 2
    assert list(route["brokerDatas"][0]["brokerAddrs"]) == ["0"]
    wire.topic(queues=4, message_type="FIFO", name=topic)
    assert body_of(wire, 105, topic=topic)["queueDatas"][0]["readQueueNums"] == 4
    assert wire.publish(topic, e="3").code == 0
    wire.ok(215, {"topic": topic})
    assert wire.call(105, {"topic": topic}).code == 17
    assert wire.call(351, {"topic": topic}).code == 17


def test_a_topic_that_is_made_again_starts_empty(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    wire.publish(topic, b"old", properties(UNIQ_KEY="u", KEYS="same-key"))
    commit(wire, group, topic, 1)
    wire.ok(215, {"topic": topic})
    wire.topic(name=topic)
    assert wire.ok(30, {"topic": topic, "queueId": 0}).ext["offset"] == "0"
    assert committed(wire, group, topic) is None
    ext = {"topic": topic, "key": "same-key", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 62}
    assert wire.call(12, ext).code == 22


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "with space"},
        {"topic": "t" * 128},
        {"topic": "TBW102"},
        {"topic": "%RETRY%no-such-group"},
        {"readQueueNums": 0},
        {"writeQueueNums": 100_000},
        {"attributes": "+message.type=ODD"},
        {"attributes": "?x"},
    ],
)
def test_a_topic_that_makes_no_sense_is_refused(wire: Wire, fields: dict[str, Any]) -> None:
    ext = {"topic": fresh(), "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "order": "false"} | fields
    answer = wire.call(17, ext)
    assert answer.code == 29
    assert answer.remark


def test_many_topics_and_groups_are_made_in_one_request(wire: Wire) -> None:
    topics, groups = [fresh(), fresh()], [fresh("GID"), fresh("GID")]
    configs = [{"topicName": name, "attributes": {"+message.type": "DELAY"}} for name in topics]
    wire.ok(18, body=json.dumps({"topicConfigList": configs}).encode())
    assert body_of(wire, 351, topic=topics[1])["attributes"] == {"message.type": "DELAY"}
    wire.ok(225, body=json.dumps({"groupConfigList": [{"groupName": name} for name in groups]}).encode())
    assert body_of(wire, 352, group=groups[1])["retryMaxTimes"] == 16


def test_the_brokers_own_topics_cannot_be_deleted(wire: Wire) -> None:
    assert wire.call(215, {"topic": "SCHEDULE_TOPIC_XXXX"}).code == 29


def test_an_ordered_topic_is_ordered_in_its_route(wire: Wire) -> None:
    topic = fresh()
    wire.ok(17, {"topic": topic, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "order": "true"})
    assert body_of(wire, 105, topic=topic)["orderTopicConf"] == "broker-a:1"
    wire.ok(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": "broker-a:9"})
    assert body_of(wire, 105, topic=topic)["orderTopicConf"] == "broker-a:9"


def test_positions_of_a_topic(wire: Wire) -> None:
    topic = wire.topic(queues=2)
    wire.publish(topic, e="1")
    stats = TopicStats.from_json(wire.ok(202, {"topic": topic}).body)
    assert stats.queues[MessageQueue(topic, "broker-a", 0)] == (0, 0, 0)
    full = stats.queues[MessageQueue(topic, "broker-a", 1)]
    assert (full.min_offset, full.max_offset) == (0, 1)
    assert abs(full.last_update_ms - time.time() * 1000) < 10_000
    assert wire.call(202, {"topic": "none"}).code == 17


# Groups


def test_a_group_is_created_shown_and_deleted_with_its_topics(wire: Wire) -> None:
    group = wire.group(retryMaxTimes=3, retryQueueNums=2)
    assert body_of(wire, 352, group=group)["retryMaxTimes"] == 3
    assert body_of(wire, 105, topic=f"%RETRY%{group}")["queueDatas"][0]["readQueueNums"] == 2
    topic = wire.topic()
    commit(wire, group, topic, 0)
    wire.ok(207, {"groupName": group, "cleanOffset": "true"})
    assert wire.call(352, {"group": group}).code == 26
    assert wire.call(105, {"topic": f"%RETRY%{group}"}).code == 17
    wire.group(group)
    assert committed(wire, group, topic) is None


def test_a_group_name_that_makes_no_sense_is_refused(wire: Wire) -> None:
    for name in ("", "a b", "%RETRY%x", "g" * 256):
        assert wire.call(200, body=json.dumps({"groupName": name}).encode()).code == 29


def test_progress_of_a_group(wire: Wire) -> None:
    topic, group = wire.topic(queues=2), wire.group()
    for _ in range(3):
        wire.publish(topic)
    commit(wire, group, topic, 2)
    wire.pull(group, topic)
    stats = ConsumeStats.from_json(wire.ok(208, {"consumerGroup": group}).body)
    progress = stats.queues[MessageQueue(topic, "broker-a", 0)]
    assert (progress.broker_offset, progress.consumer_offset, progress.pull_offset) == (3, 2, 3)
    assert abs(progress.last_timestamp_ms - time.time() * 1000) < 10_000
    assert stats.backlog == 1
    assert wire.call(208, {"consumerGroup": "GID-none"}).code == 26
    whole = wire.ok(317, {"isOrder": "false"}).body
    assert group.encode() in whole


def test_who_consumes_what(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    commit(wire, group, topic, 0)
    wire.heartbeat("c1", online := wire.group(), topic, tags="a")
    assert sorted(body_of(wire, 300, topic=topic)["groupList"]) == sorted([group, online])
    assert body_of(wire, 343, group=group)["topicList"] == [topic]
    assert body_of(wire, 345, group=online, topic=topic)["subscriptionData"]["subString"] == "a"


def test_the_time_span_of_a_group(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(2):
        wire.publish(topic)
    commit(wire, group, topic, 1)
    (span,) = time_spans_from_json(wire.ok(303, {"topic": topic, "group": group}).body).values()
    assert span.min_ms <= span.consume_ms <= span.max_ms
    assert span.delay_ms >= 0


# Offsets


def test_a_young_group_starts_at_zero_on_a_queue_that_lost_nothing(wire: Wire) -> None:
    topic, group = wire.topic(queues=2), wire.group()
    wire.publish(topic, e="0")
    assert committed(wire, group, topic, 0, else_zero="true") == "0"
    # Not found would have a client ask for the end, and miss what is stored meanwhile.
    assert committed(wire, group, topic, 1, else_zero="true") == "0"
    assert committed(wire, group, topic, 0) is None


@pytest.mark.parametrize(("fields", "code"), [({"consumerGroup": "GID-none"}, 26), ({"topic": "none"}, 17)])
def test_offsets_of_what_does_not_exist_are_refused(wire: Wire, fields: dict[str, str], code: int) -> None:
    ext = {"consumerGroup": wire.group(), "topic": wire.topic(), "queueId": 0, "commitOffset": 1} | fields
    assert wire.call(15, ext).code == code


def test_a_time_finds_its_offset(wire: Wire) -> None:
    topic = wire.topic()
    stored = []
    for number in range(5):
        wire.publish(topic, b"%d" % number)
        last = wire.ok(321, {"topic": topic, "queueId": 0, "index": number, "count": 1})
        place = json.loads(last.body)["queueData"][0]["physicOffset"]
        stored.append(decode_stored(wire.ok(33, {"offset": place}).body)[0].store_timestamp)
        eventually(lambda: time.time() * 1000 > stored[-1] + 2)

    def search(timestamp: int, **more: str) -> int:
        return int(wire.ok(29, {"topic": topic, "queueId": 0, "timestamp": timestamp} | more).ext["offset"])

    assert [search(moment) for moment in stored] == [0, 1, 2, 3, 4]
    assert search(stored[2] + 1) == 3
    assert search(stored[2] + 1, boundaryType="UPPER") == 2
    assert search(0) == 0
    assert search(1 << 50) == 5
    assert wire.ok(32, {"topic": topic, "queueId": 0}).ext["timestamp"] == str(stored[0])
    assert wire.ok(31, {"topic": topic, "queueId": 0}).ext["offset"] == "0"


def test_a_reset_reaches_the_next_pull_and_holds_back_old_commits(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(3):
        wire.publish(topic)
    commit(wire, group, topic, 3)
    wire.heartbeat("c1", group, topic)
    waiting = wire.start_pull(group, topic, 3, sysFlag=6, suspendTimeoutMillis=15_000)
    ext = {"topic": topic, "group": group, "timestamp": 0, "isForce": "true", "queueId": -1, "offset": -1}
    with Wire(f"127.0.0.1:{wire.socket.getpeername()[1]}") as admin:
        table = offsets_from_json(admin.ok(222, ext).body)
    assert table == {MessageQueue(topic, "broker-a", 0): 0}
    told = wire.receive(waiting)
    assert (told.code, told.ext["nextBeginOffset"], told.remark) == (21, "0", "OFFSET_RESET")
    assert committed(wire, group, topic) == "0"
    assert wire.pull(group, topic, 0).code == 0


def test_until_the_client_is_told_its_commits_do_not_undo_a_reset(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(3):
        wire.publish(topic)
    wire.heartbeat("c1", group, topic)
    wire.ok(222, {"topic": topic, "group": group, "timestamp": 0, "isForce": "true"})
    commit(wire, group, topic, 3)
    assert committed(wire, group, topic) == "0"
    assert wire.pull(group, topic, 3).code == 21
    commit(wire, group, topic, 2)
    assert committed(wire, group, topic) == "2"


def test_a_group_that_is_offline_can_be_reset(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(3):
        wire.publish(topic)
    wire.ok(222, {"topic": topic, "group": group, "timestamp": -1, "isForce": "true"})
    assert committed(wire, group, topic) == "3"
    assert wire.pull(group, topic, 3).code == 19


def test_offsets_are_copied_to_another_group(wire: Wire) -> None:
    topic, source, target = wire.topic(), wire.group(), wire.group()
    commit(wire, source, topic, 7)
    wire.ok(314, {"srcGroup": source, "destGroup": target, "offline": "false"})
    assert committed(wire, target, topic) == "7"
    table = body_of(wire, 43)["offsetTable"]
    assert table[f"{topic}@{target}"] == {"0": 7}


# Messages


def query(wire: Wire, topic: str, key: str, unique: bool = False, **more: Any) -> list[bytes]:
    ext = {"topic": topic, "key": key, "maxNum": 64, "beginTimestamp": 0, "endTimestamp": (1 << 63) - 1}
    answer = wire.call(12, ext | ({"_UNIQUE_KEY_QUERY": "true"} if unique else {}) | more)
    assert answer.code in (0, 22)
    return [message.body for message in decode_stored(answer.body)]


def test_messages_are_found_by_each_of_their_keys_and_by_their_id(wire: Wire) -> None:
    topic, other = wire.topic(), wire.topic()
    unique_id = fresh("ID")
    wire.publish(topic, b"one", properties(UNIQ_KEY=unique_id, KEYS="k1 k2"))
    wire.publish(topic, b"two", properties(UNIQ_KEY=fresh("ID"), KEYS="k2"))
    wire.publish(other, b"three", properties(UNIQ_KEY=fresh("ID"), KEYS="k2"))
    assert query(wire, topic, "k1") == [b"one"]
    assert query(wire, topic, "k2") == [b"two", b"one"]
    assert query(wire, topic, unique_id, unique=True) == [b"one"]
    assert query(wire, topic, "k1", unique=True) == []
    assert query(wire, topic, "k3") == []
    assert query(wire, topic, "k2", maxNum=1) == [b"two"]
    assert query(wire, topic, "k2", endTimestamp=1000) == []


def test_the_entries_of_a_queue_show_tag_codes(wire: Wire) -> None:
    topic = wire.topic()
    wire.publish(topic, text=properties(UNIQ_KEY="u", TAGS="tagA"))
    entry = json.loads(wire.ok(321, {"topic": topic, "queueId": 0, "index": 0, "count": 10}).body)
    assert (entry["minQueueIndex"], entry["maxQueueIndex"]) == (0, 1)
    assert entry["queueData"][0]["tagsCode"] == 3552231


def test_a_message_that_is_not_there_is_said_so(wire: Wire) -> None:
    assert wire.call(33, {"offset": 1 << 55}).code == 1


# Broker and name server


def test_the_cluster_is_shown(wire: Wire) -> None:
    info = body_of(wire, 106)
    assert info["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    address = info["brokerAddrTable"]["broker-a"]["brokerAddrs"]["0"]
    assert int(address.rpartition(":")[2]) == wire.socket.getpeername()[1]
    assert "SCHEDULE_TOPIC_XXXX" in body_of(wire, 304)["topicList"]
    assert set(body_of(wire, 224, cluster="DefaultCluster")["topicList"]) == set(body_of(wire, 206)["topicList"])


def test_runtime_and_configuration_are_shown(wire: Wire) -> None:
    table = body_of(wire, 28)["table"]
    assert table["brokerVersionDesc"] == "V5_3_3"
    assert all(isinstance(value, str) for value in table.values())
    assert int(table["gantryStoreUsedBytes"]) > 0
    answer = wire.ok(26)
    assert b"autoCreateTopicEnable=false\n" in answer.body
    assert "counter" in json.loads(answer.ext["version"])
    assert body_of(wire, 45)["offsetTable"]["1"] >= 0


def test_rates_are_counted_per_topic_and_group(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    assert wire.call(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}).code == 1
    for _ in range(4):
        wire.publish(topic)
    wire.pull(group, topic)
    assert body_of(wire, 315, statsName="TOPIC_PUT_NUMS", statsKey=topic)["statsMinute"]["sum"] == 4
    assert body_of(wire, 315, statsName="GROUP_GET_NUMS", statsKey=f"{topic}@{group}")["statsDay"]["sum"] == 4


def test_key_values_are_kept(wire: Wire) -> None:
    namespace = fresh("ns")
    assert wire.call(101, {"namespace": namespace, "key": "k"}).code == 22
    wire.ok(100, {"namespace": namespace, "key": "k", "value": "v"})
    assert wire.ok(101, {"namespace": namespace, "key": "k"}).ext["value"] == "v"
    assert body_of(wire, 219, namespace=namespace) == {"table": {"k": "v"}}
    wire.ok(102, {"namespace": namespace, "key": "k"})
    assert wire.call(219, {"namespace": namespace}).code == 22


def test_an_unknown_request_is_answered(wire: Wire) -> None:
    answer = wire.call(9999)
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


def test_a_reset_without_isforce_never_passes_over_messages(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(3):
        wire.publish(topic)
    at = {"consumerGroup": group, "topic": topic, "queueId": 0}
    reset = {"topic": topic, "group": group, "timestamp": -1}

    def offset_after(**fields: object) -> int:
        wire.ok(15, at | {"commitOffset": 1})
        wire.ok(222, reset | fields)
        return int(wire.ok(14, at).ext["offset"])

    assert offset_after(isForce="false") == 1, "the end lies ahead"
    assert offset_after(isForce="true") == 3
    assert offset_after() == 3, "a client that does not say so means it"
    assert offset_after(isForce="false", offset=0) == 0, "back is always possible"
