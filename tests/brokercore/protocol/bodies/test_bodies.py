"""The JSON bodies: captured ones are read, ours come back as they were."""

from __future__ import annotations

import orjson
import pytest

from brokercore.protocol.bodies import stats
from brokercore.protocol.bodies.clients import (
    Connection,
    ConsumerConnection,
    ConsumerData,
    ConsumeStatus,
    DirectResult,
    Heartbeat,
    ProducerInfo,
    RunningInfo,
    SubscriptionData,
    connections_from_json,
    connections_to_json,
    producers_from_json,
    producers_to_json,
)
from brokercore.protocol.bodies.config import (
    DataVersion,
    GroupConfig,
    TopicConfig,
    group_rows_to_json,
    group_table_from_json,
    topic_rows_to_json,
    topic_table_from_json,
)
from brokercore.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from brokercore.protocol.bodies.stats import (
    ConsumeStats,
    QueueProgress,
    QueueStats,
    TimeSpan,
    TopicStats,
    group_offsets_from_json,
    offsets_from_json,
    offsets_to_json,
    time_spans_from_json,
    time_spans_to_json,
)
from brokercore.protocol.errors import LenientJsonError, SubscriptionError
from brokercore.protocol.message_queue import MessageQueue
from tests.brokercore.protocol import captured

QUEUE = MessageQueue("TopicA", "broker-a", 3)
BROKER = BrokerData("DefaultCluster", "broker-a", {"0": "127.0.0.2:20911"})


def test_it_reads_a_captured_heartbeat() -> None:
    heartbeat = Heartbeat.from_json(captured.HEARTBEAT)
    (consumer,) = heartbeat.consumers
    assert (heartbeat.client_id, heartbeat.producer_groups) == (
        "192.0.2.2@11659#1067717744406",
        ["CLIENT_INNER_PRODUCER"],
    )
    assert (consumer.group, consumer.consume_from_where) == ("CG_push", "CONSUME_FROM_FIRST_OFFSET")
    assert consumer.subscriptions[0].codes == [3552231, 3552256, -791160896]
    assert orjson.loads(heartbeat.to_json()) == orjson.loads(captured.HEARTBEAT)


def test_a_tag_subscription_carries_its_codes() -> None:
    subscription = SubscriptionData.of_tags("t", "tagA || tagB", 7)
    assert (subscription.tags, subscription.codes) == (["tagA", "tagB"], [3552231, 3552232])
    assert SubscriptionData.of_tags("t", "", 7).expression == "*"
    with pytest.raises(SubscriptionError):
        SubscriptionData.of_tags("t", "||", 7)


def test_it_reads_captured_routes() -> None:
    assert TopicRoute.from_json(captured.ROUTE) == TopicRoute([QueueData("broker-a", 8, 8, 7)], [BROKER])
    assert ClusterInfo.from_json(captured.CLUSTER_INFO) == ClusterInfo(
        {"broker-a": BROKER}, {"DefaultCluster": ["broker-a"]}
    )


def test_it_reads_captured_statistics() -> None:
    stats = TopicStats.from_json(captured.TOPIC_STATS)
    assert stats.queues == {MessageQueue("TopicSql", "broker-a", 2): QueueStats(0, 5, 1795246360362)}
    progress = ConsumeStats.from_json(captured.CONSUME_STATS)
    assert (progress.tps, progress.queues) == (0.8, {QUEUE: QueueProgress(7, 7, 7, 1795244588199)})
    assert offsets_from_json(captured.RESET_TABLE) == {QUEUE: 7}


def test_it_reads_all_committed_offsets() -> None:
    body = b'{"dataVersion":{},"offsetTable":{"T@G":{0:12,3:4},"nonsense":{}}}'
    assert group_offsets_from_json(body) == {("T", "G"): {0: 12, 3: 4}}


def test_the_backlog_is_what_is_not_consumed_yet() -> None:
    found = ConsumeStats(0, {QUEUE: QueueProgress(10, 4, 5, 0), QUEUE._replace(queue_id=1): QueueProgress(2, 3, 3, 0)})
    assert found.backlog == 6


BODIES = [
    TopicRoute([QueueData("b", 4, 2, 6)], [BROKER], "b:4"),
    ClusterInfo({"broker-a": BROKER}, {"c": ["broker-a"]}),
    TopicConfig("t", 4, 3, 2, True, {"message.type": "FIFO"}),
    GroupConfig("g", retry_max_times=3, consume_enable=False, subscriptions=[{"topic": "t"}]),
    Heartbeat("c", ["p"], [ConsumerData("g", [SubscriptionData.of_tags("t", "a", 1)])], 5, True),
    TopicStats({QUEUE: QueueStats(1, 2, 3)}, 0.5),
    TopicStats(),
    ConsumeStats(1.5, {QUEUE: QueueProgress(1, 2, 3, 4)}),
    ConsumerConnection([Connection("c", "1.2.3.4:5", "JAVA", 479)], {"t": SubscriptionData("t")}, "p", "m", "f"),
    RunningInfo(
        {"a": "b"}, [SubscriptionData("t")], {QUEUE: {"locked": False}}, {"t": ConsumeStatus(1, 2, 3, 4, 5, 6)}, "s"
    ),
    DirectResult("CR_LATER", "why", 3, True, False),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_body_comes_back_as_it_was(body: TopicRoute) -> None:
    assert type(body).from_json(body.to_json()) == body


def test_tables_come_back_as_they_were() -> None:
    topics, groups = {"t": TopicConfig("t")}, {"g": GroupConfig("g")}
    spans, connections = {QUEUE: TimeSpan(1, 2, 3, 4)}, [Connection("c", "1.2.3.4:5", "JAVA", 479)]
    assert topic_table_from_json(topic_rows_to_json({"t": topics["t"].to_json()}, DataVersion(1, 2))) == topics
    assert group_table_from_json(group_rows_to_json({"g": groups["g"].to_json()}, DataVersion(1, 2))) == groups
    assert time_spans_from_json(time_spans_to_json(spans)) == spans
    assert connections_from_json(connections_to_json(connections)) == connections
    producers = {"PG": [ProducerInfo("c", "1.2.3.4:5", "JAVA", 479, 1_795_244_731_204)], "empty": []}
    assert producers_from_json(producers_to_json(producers)) == producers
    assert offsets_from_json(offsets_to_json({QUEUE: 5}, "messageQueueTable"), "messageQueueTable") == {QUEUE: 5}


def test_a_topic_without_a_type_is_normal() -> None:
    assert TopicConfig("t").message_type == "NORMAL"


@pytest.mark.parametrize(
    "broken", [b"", b"[]", b'{"offsetTable":{"a":1}}', b'{"offsetTable":{{"queueId":0}:{"minOffset":"x"}}}']
)
def test_what_is_no_such_body_is_refused(broken: bytes) -> None:
    with pytest.raises(LenientJsonError):
        TopicStats.from_json(broken)


def test_it_reads_the_positions_of_a_topic_as_brokers_write_them_and_in_any_other_way() -> None:
    entry = '{{"brokerName":"a","queueId":{},"topic":"t"}}:{{"lastUpdateTimestamp":9,"maxOffset":{},"minOffset":{}}}'
    told = (
        '{"offsetTable":{' + ",".join((entry.format(0, 7, 2), entry.format(1, 5, 0))) + '},"topicPutTps":0}'
    ).encode()
    assert stats.queue_positions_from_json(told) == [2, 7, 0, 5]
    assert stats.queue_positions_from_json(told.replace(b":", b" : ")) == [2, 7, 0, 5]
    swapped = f'{{"offsetTable":{{{entry.format(1, 5, 0)},{entry.format(0, 7, 2)}}}}}'.encode()
    assert stats.queue_positions_from_json(swapped) == [2, 7, 0, 5]
    assert stats.queue_positions_from_json(b'{"offsetTable":{},"topicPutTps":0.0}') == []
    with pytest.raises(LenientJsonError, match="not numbered"):
        stats.queue_positions_from_json(f'{{"offsetTable":{{{entry.format(3, 5, 0)}}}}}'.encode())


def test_positions_of_all_topics_survive_the_wire_and_are_whole_numbers() -> None:
    table = {"t": [0, 7, 3, 9], "%RETRY%g": [0, 0]}
    assert stats.topic_positions_from_json(stats.topic_positions_to_json(table)) == table
    for wrong in ('{"t":[1]}', '{"t":[1,"2"]}', '{"t":{"0":1}}', '{"t":[true,false]}'):
        with pytest.raises(LenientJsonError, match="pairs of whole numbers"):
            stats.topic_positions_from_json(f'{{"offsetTable":{wrong}}}'.encode())


def test_the_committed_offsets_of_many_groups_are_read_with_numeric_keys_and_without() -> None:
    for queues in ("{0:12,1:-1}", '{"0":12,"1":-1}', "{ 0 : 12 , 1 : -1 }"):
        body = f'{{"dataVersion":{{"counter":1}},"offsetTable":{{"{{0:t@g":{queues},"no group":{{}}}}}}'.encode()
        assert stats.series_offsets_from_json(body) == {"{0:t@g": {"0": 12, "1": -1}}
    with pytest.raises(LenientJsonError, match="not whole numbers"):
        stats.series_offsets_from_json(b'{"offsetTable":{"t@g":{0:"x"}}}')


def test_the_latest_time_of_many_answers_is_read_without_their_dialect() -> None:
    assert stats.latest_ms(captured.CONSUME_STATS) == 1795244588199
    topic = TopicStats({QUEUE: QueueStats(0, 3, 40), QUEUE._replace(queue_id=1): QueueStats(0, 0, 0)})
    assert stats.latest_ms(topic.to_json()) == 40
    assert stats.latest_ms(TopicStats().to_json()) == 0
