"""The messages of a topic as batches of events, with a real broker and without Spark."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from analytics.inflow.delivery import PARTITION_KEY
from analytics.pipelines import reaches, topic_events
from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.reports import Reached
from analytics.pipelines.topic_brokers import Brokers
from analytics.pipelines.topic_events import TopicEventsReader, TopicEventsSource
from analytics.sources import mq
from brokercore.client import Message, MessageQueue, Producer
from tests.pipelines.jobs import Ground
from tests.support.broker import eventually

ALL = ReadAllAvailable()
GROUP = "GID_inflow"


@pytest.fixture
def source(ground: Ground, topic: str, tmp_path: Path) -> TopicEventsSource:
    topic += "-one"
    made(ground, topic)
    ground.admin.groups.create(GROUP)
    reaches.folder_of(tmp_path, "events").mkdir(parents=True)
    key = ground.credentials
    place = mq.Topic(ground.namesrv, topic, key.access_key_id, key.access_key_secret)
    return TopicEventsSource(
        topic=place, group=GROUP, name="events", shown=topic, state=str(tmp_path), messages_at_once=5, interval_ms=0
    )


@pytest.fixture
def producer(ground: Ground) -> Any:
    with Producer(ground.namesrv, ground.credentials, "GID_tests") as producer:
        yield producer


def made(ground: Ground, topic: str, **more: Any) -> None:
    ground.admin.topics.create(topic, **({"queues": 1} | more))
    eventually(lambda: topic in ground.admin.topics.names())


def send(producer: Producer, topic: str, *numbers: int, **more: Any) -> None:
    """Messages with these numbers."""
    for number in numbers:
        producer.send(Message(topic, b"%d" % number, **more))


def latest(reader: TopicEventsReader, after: dict[str, int]) -> dict[str, int]:
    return reader.latestOffset(after, ALL)


def read(reader: TopicEventsReader, after: dict[str, int], until: dict[str, int]) -> list[dict[str, Any]]:
    (partition,) = reader.partitions(after, until)
    return [json.loads(event) for batch in reader.read(partition) for event in batch.column(0).to_pylist()]


def bodies(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["data"]["body"]) for event in events]


def test_it_reads_queue_by_queue_in_batches_in_which_every_queue_has_its_share(
    ground: Ground, source: TopicEventsSource, producer: Producer
) -> None:
    fifo = f"{source.shown}-fifo"
    made(ground, fifo, queues=2, message_type="FIFO")
    source = replace(source, shown=fifo, topic=replace(source.topic, name=fifo))
    for number in range(20):
        producer.send_ordered(Message(fifo, b"%d" % number, "t", "k"), "a")
    for number in (100, 101):
        producer.send_ordered(Message(fifo, b"%d" % number), "b")
    reader = TopicEventsReader(source)
    begin = reader.initialOffset()
    first = latest(reader, begin)
    events = read(reader, begin, first)
    assert sorted(bodies(events)) == [0, 1, 2, 100, 101]
    assert {event[PARTITION_KEY]: event["data"]["queueId"] for event in events}.keys() == {"a", "b"}
    assert [event["data"]["queueOffset"] for event in events if event[PARTITION_KEY] == "a"] == [0, 1, 2]
    assert bodies(read(reader, first, latest(reader, first))) == [3, 4, 5, 6, 7]
    several = TopicEventsReader(replace(source, calls=3))
    assert bodies(read(several, first, latest(several, first))) == list(range(3, 18))


def test_a_batch_is_waited_for_until_it_is_full_or_its_first_message_has_waited(
    source: TopicEventsSource, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(topic_events, "_PATIENCE_S", -1.0)
    reader = TopicEventsReader(replace(source, interval_ms=10_000))
    begin = reader.initialOffset()
    send(producer, source.shown, 1, 2)
    assert latest(reader, begin) == begin
    now[0] += 9.9
    assert latest(reader, begin) == begin
    now[0] += 0.1
    first = latest(reader, begin)
    assert bodies(read(reader, begin, first)) == [1, 2]
    send(producer, source.shown, *range(5))
    assert bodies(read(reader, first, latest(reader, first))) == [0, 1, 2, 3, 4]


def test_it_begins_with_a_time_else_where_the_group_stands_else_with_the_first_message(
    ground: Ground, source: TopicEventsSource, producer: Producer
) -> None:
    topic = source.shown
    send(producer, topic, 1, 2)
    assert TopicEventsReader(source).initialOffset() == {"broker-a:0": 0}
    ground.admin.offsets.commit(GROUP, {MessageQueue(topic, "broker-a", 0): 1})
    assert TopicEventsReader(source).initialOffset() == {"broker-a:0": 1}
    (later,) = [one for one in ground.messages(topic) if one.queue_offset == 1]
    begin = TopicEventsReader(replace(source, start_ms=later.store_timestamp + 1)).initialOffset()
    assert begin == {"broker-a:0": 2}


def test_the_group_and_the_state_are_told_of_what_is_delivered_and_not_before(
    ground: Ground, source: TopicEventsSource, producer: Producer
) -> None:
    topic, queue = source.shown, MessageQueue(source.shown, "broker-a", 0)
    reader = TopicEventsReader(source)
    begin = reader.initialOffset()
    send(producer, topic, 1, 2, 3)
    stored = [one.store_timestamp for one in ground.messages(topic)]
    first = latest(reader, begin)
    assert ground.admin.offsets.committed(GROUP, queue) in (None, 0)
    told = reaches.reached(source.state, "events")
    assert told == Reached(0, "broker-a:0:0", stored[0], 3, stored[2], stored[0])
    latest(reader, first)
    assert ground.admin.offsets.committed(GROUP, queue) == 3
    told = reaches.reached(source.state, "events")
    assert told == Reached(3, "broker-a:0:3", stored[2], 3, stored[2])


def test_only_messages_of_the_tags_are_events(source: TopicEventsSource, producer: Producer) -> None:
    for number, tag in enumerate(("a", "b", "", "c")):
        send(producer, source.shown, number, tags=tag)
    reader = TopicEventsReader(replace(source, tag="a || c"))
    begin = reader.initialOffset()
    events = read(reader, begin, latest(reader, begin))
    assert bodies(events) == [0, 3]
    assert [event["data"]["systemProperties"]["TAGS"] for event in events] == ["a", "c"]
    assert {event[PARTITION_KEY] for event in events} == {"broker-a:0"}


def test_messages_that_were_removed_unread_are_told_and_reading_goes_on(
    source: TopicEventsSource, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(producer, source.shown, *range(4))
    reader = TopicEventsReader(source)
    begin = reader.initialOffset()
    found = Brokers(source).reach()
    cut = found | {"broker-a:0": found["broker-a:0"]._replace(min_offset=3)}
    monkeypatch.setattr(Brokers, "reach", lambda self: cut)  # as after the topic's retention
    first = latest(reader, begin)
    assert bodies(read(reader, begin | {"broker-a:0": 3}, first)) == [3]
    told = reaches.reached(source.state, "events")
    assert told is not None and (told.lost, told.pending) == (3, 1)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    ground: Ground, source: TopicEventsSource, producer: Producer
) -> None:
    send(producer, source.shown, *range(5))
    reader = TopicEventsReader(source)
    first = latest(reader, reader.initialOffset())
    ground.admin.topics.delete(source.shown)
    made(ground, source.shown)
    send(producer, source.shown, 7)
    again = TopicEventsReader(source)
    eventually(lambda: latest(again, first) != first)
    assert bodies(read(again, first, latest(again, first))) == [7]


def test_a_state_that_is_gone_ends_the_reader(source: TopicEventsSource, tmp_path: Path) -> None:
    reader = TopicEventsReader(source)
    begin = reader.initialOffset()
    reaches.folder_of(tmp_path, "events").rename(tmp_path / "elsewhere")
    with pytest.raises(ConnectorFailed, match=r"^The state of the pipeline cannot be used: "):
        latest(reader, begin)
