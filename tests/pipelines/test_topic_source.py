"""What a source `mq` reads of a topic, and how long it waits for a broker. No Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from analytics.pipelines import topic_brokers
from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.topic_source import TopicReader, TopicSource, TopicStreamReader
from analytics.sources import mq
from brokercore.client import Admin, Credentials, Message, Producer, StoredMessage
from tests.support.broker import BrokerProcess, broker_process, eventually

T = TypeVar("T")
SCHEMA = pa.schema([("body", pa.binary())])
PATIENCE_SECONDS = 60.0
LIMIT = TopicStreamReader(None).getDefaultReadLimit()  # type: ignore[arg-type]


def source(namesrv: str = "", topic: str = "words", key: tuple[str, str] = ("", ""), **more: str) -> TopicSource:
    read = mq.Topic(namesrv, topic, *key)
    return TopicSource(topic=read, schema=SCHEMA, metadata=("",), format="binary", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tag", "read"),
    [
        ("", ["", "a", "b"]),
        ("*", ["", "a", "b"]),
        (" * ", ["", "a", "b"]),
        ("a || *", ["", "a", "b"]),
        (" || ", ["", "a", "b"]),
        ("a", ["a"]),
        ("a || b||c", ["a", "b"]),
    ],
)
def test_it_reads_the_tags_that_it_names_or_all(tag: str, read: list[str]) -> None:
    messages = [StoredMessage("words", one.encode(), {"TAGS": one} if one else {}) for one in ("", "a", "b")]
    found = [row for message in messages for row in source(tag=tag).rows(message)]
    assert [body.decode() for (body,) in found] == read


@pytest.fixture(scope="module")
def always() -> Iterator[BrokerProcess]:
    """A broker that tests kill and start."""
    with broker_process() as broker:
        with Admin(broker.namesrv, Credentials(broker.access_key_id, broker.access_key_secret)) as admin:
            admin.topics.create("words", queues=1)
            eventually(lambda: "words" in admin.topics.names())
        yield broker


def reading(broker: BrokerProcess) -> TopicSource:
    return source(broker.namesrv, key=(broker.access_key_id, broker.access_key_secret), group="GID_words")


def send(broker: BrokerProcess, *bodies: bytes) -> None:
    with Producer(broker.namesrv, Credentials(broker.access_key_id, broker.access_key_secret), "GID_w") as producer:
        for body in bodies:
            producer.send(Message("words", body))


def rows(reader: TopicStreamReader | TopicReader, partitions: Sequence[InputPartition]) -> list[bytes]:
    return [row for part in partitions for batch in reader.read(part) for row in batch["body"].to_pylist()]


def meanwhile(work: Callable[[], list[T]]) -> Callable[[], list[T]]:
    """Do it in a thread; what is returned waits for what came out."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.extend(work()), daemon=True)
    thread.start()

    def wait() -> list[T]:
        thread.join(PATIENCE_SECONDS)
        return found

    return wait


def test_a_broker_that_is_restarted_costs_a_stream_nothing(always: BrokerProcess) -> None:
    reader = TopicStreamReader(reading(always))
    begin = reader.initialOffset()
    send(always, b"one")
    first = reader.latestOffset(begin, LIMIT)

    always.kill()
    assert reader.latestOffset(first, LIMIT) == first
    wait = meanwhile(lambda: rows(reader, reader.partitions(begin, first)))
    always.start()
    send(always, b"two")
    assert wait() == [b"one"]

    eventually(lambda: reader.latestOffset(first, LIMIT) != first, PATIENCE_SECONDS)
    last = reader.latestOffset(first, LIMIT)
    assert rows(reader, reader.partitions(first, last)) == [b"two"]


def test_a_job_begins_when_its_broker_is_there_again(always: BrokerProcess) -> None:
    source = reading(always)
    expected = TopicStreamReader(source).initialOffset()
    always.kill()
    stream = meanwhile(lambda: [TopicStreamReader(source).initialOffset()])
    batch = meanwhile(lambda: [*TopicReader(source).partitions()])
    always.start()
    assert stream() == [expected]
    assert batch() != []


def test_a_broker_that_stays_away_fails_the_job(always: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_brokers, "PATIENCE_S", 1.0)
    reader = TopicStreamReader(reading(always))
    begin = reader.initialOffset()
    always.kill()
    try:
        with pytest.raises(ConnectorFailed, match="The brokers of words cannot be asked: "):
            while True:
                assert reader.latestOffset(begin, LIMIT) == begin
        with pytest.raises(ConnectorFailed, match="The brokers of words cannot be asked: "):
            TopicStreamReader(reading(always)).initialOffset()
        with pytest.raises(ConnectorFailed, match="Messages of words cannot be read: "):
            rows(reader, mq.plan([mq.Reach(place.partition(":")[0], 0, 0, 9) for place in begin]))
    finally:
        always.start()


def test_what_does_not_pass_fails_the_job_at_once(always: BrokerProcess) -> None:
    known = reading(always)
    begin = TopicStreamReader(known).initialOffset()
    refused = TopicStreamReader(replace(known, topic=replace(known.topic, secret="x")))
    for ask in (refused.initialOffset, lambda: refused.latestOffset(begin, LIMIT)):
        with pytest.raises(ConnectorFailed, match="The brokers of words cannot be asked: "):
            ask()
    with pytest.raises(ConnectorFailed, match="There is no topic nothing"):
        TopicStreamReader(replace(known, topic=replace(known.topic, name="nothing"))).initialOffset()
