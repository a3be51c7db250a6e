"""The sink `mq` at a real broker, without Spark: what becomes of rows that cannot be written, and of many."""

from __future__ import annotations

import socket
from dataclasses import replace

import pyarrow as pa
import pytest

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.topic_sink import Sent, TopicSink, write
from tests.pipelines.jobs import Ground


@pytest.fixture
def sink(ground: Ground, topic: str) -> TopicSink:
    key = ground.credentials
    return TopicSink(
        f"http://MQ_INST_1_x.{ground.namesrv}", topic, key.access_key_id, key.access_key_secret, "GID_sink", "binary",
        tag="t", retries=2, pause_ms=10,
    )  # fmt: skip


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_it_writes_many_rows_in_few_requests_and_each_once(ground: Ground, sink: TopicSink) -> None:
    sink = replace(sink, namesrv=ground.namesrv)
    rows = pa.record_batch([pa.array([f"{n}".encode() for n in range(2500)], pa.binary())], names=["payload"])
    large = pa.record_batch([pa.array([b"x" * 700_000] * 3, pa.binary())], names=["payload"])
    assert write(sink, iter([rows, large])) == Sent(rows=2503, again=0)
    found = ground.messages(sink.topic)
    assert {message.tags for message in found} == {"t"}
    bodies = [message.decoded_body() for message in found]
    assert sorted(int(body) for body in bodies if len(body) < 9) == list(range(2500))
    assert [len(body) for body in bodies if len(body) >= 9] == [700_000] * 3


def test_it_tries_again_as_often_as_told_and_then_says_why(sink: TopicSink) -> None:
    gone = replace(sink, namesrv=f"127.0.0.1:{closed_port()}")
    with pytest.raises(ConnectorFailed, match=f"cannot be written to the topic {sink.topic} after 3 tries: "):
        gone.send([b"a"])


def test_it_does_not_try_again_what_no_try_can_help(ground: Ground, sink: TopicSink) -> None:
    for changed in (
        replace(sink, namesrv=ground.namesrv, topic=f"{sink.topic}-none"),
        replace(sink, namesrv=ground.namesrv, secret="wrong"),
        replace(sink, namesrv=ground.namesrv),
    ):
        with pytest.raises(ConnectorFailed) as refused:
            changed.send([b"a", b""])
        assert "tries" not in str(refused.value)


def test_a_topic_of_an_instance_is_named_with_its_namespace(ground: Ground, sink: TopicSink) -> None:
    namespace = "MQ_INST_1_bench"
    ground.admin.topics.create(f"{namespace}%{sink.topic}", queues=1)
    replace(sink, namesrv=ground.namesrv, namespace=namespace).send([b"a"])
    assert [message.body for message in ground.messages(f"{namespace}%{sink.topic}")] == [b"a"]
