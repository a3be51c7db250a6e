"""Inflow tasks that read topics and queues, on Spark, with a real broker and queue service."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from analytics.inflow.delivery import REASON
from analytics.inflow.task import MESSAGES
from brokercore.client import Message, MessageQueue, Producer
from tests.inflow.tasks import counted, ordered_topic, standing, started
from tests.pipelines.jobs import Ground, until

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]
GROUP = "GID_of_a_task"


def from_topic(ground: Ground, topic: str, **more: Any) -> dict[str, Any]:
    """The source of a task that reads a topic at once."""
    ground.admin.groups.create(GROUP)
    key = {"accessId": ground.credentials.access_key_id, "accessKey": "${secret_values.broker}"}
    place = {"kind": "topic", "topic": topic, "group": GROUP, "endpoint": ground.namesrv}
    return place | key | {"messages": 20, "interval": 0} | more


def from_queue(ground: Ground, queue: str, **more: Any) -> dict[str, Any]:
    """The source of a task that reads a queue at once."""
    key = {"accessKeyId": "${secret_values.id}", "accessKeySecret": "${secret_values.secret}"}
    place = {"kind": "queue", "queue": queue, "endpoint": ground.endpoint}
    return place | key | {"messages": 20, "interval": 0} | more


def document(ground: Ground, source: dict[str, Any], topic: str, **more: Any) -> dict[str, Any]:
    sink: dict[str, Any] = {
        "topic": topic,
        "endpoint": f"http://{ground.namesrv}",
        "accessId": ground.credentials.access_key_id,
    }
    sink |= {"accessKey": "${secret_values.broker}", "body": {"method": "data_extraction", "path": "$.data.body"}}
    return {"name": "messages-to-topic", "source": source, "sink": sink | more.pop("sink", {}), **more}


def send(ground: Ground, messages: Iterable[tuple[Message, str]]) -> None:
    with Producer(ground.namesrv, ground.credentials, "GID_tests") as producer:
        for message, key in messages:
            producer.send_ordered(message, key) if key else producer.send(message)


def delivered(ground: Ground, topic: str) -> list[str]:
    return [message.decoded_body().decode() for message in ground.messages(topic)]


def test_messages_of_a_topic_keep_their_keys_tags_and_the_order_of_their_sharding_keys(
    ground: Ground, topic: str
) -> None:
    read, written = ordered_topic(ground, f"{topic}-read"), ordered_topic(ground, f"{topic}-written")
    messages = [Message(read, b"%d" % n, "even" if n % 2 == 0 else "odd", f"k{n}", {"n": str(n)}) for n in range(100)]
    send(ground, ((message, f"o{n % 5}") for n, message in enumerate(messages)))
    part = {"method": "data_extraction"}
    sink = {
        "ordered": True,
        "key": part | {"path": "$.data.systemProperties.KEYS"},
        "tag": part | {"path": "$.data.systemProperties.TAGS"},
        "properties": part | {"path": "$.data.userProperties"},
    }
    pattern = {"data": {"systemProperties": {"TAGS": ["even"]}}}
    pipeline = started(ground, document(ground, from_topic(ground, read), written, sink=sink, pattern=pattern))
    until(lambda: standing(pipeline).sequence == 100, pipeline)
    pipeline.stop()
    found = ground.messages(written)
    assert sorted(int(one.decoded_body()) for one in found) == list(range(0, 100, 2))
    assert all((one.keys, one.tags, one.properties["n"]) == (f"k{n}", "even", str(n))
               for one in found for n in [int(one.decoded_body())])  # fmt: skip
    rows: dict[int, list[int]] = {}
    for one in found:
        rows.setdefault(int(one.decoded_body()) % 5, []).append(int(one.decoded_body()))
    assert all(row == sorted(row) for row in rows.values())
    stands = standing(pipeline)
    queues = {place.queue_id: stats.max_offset for place, stats in ground.admin.topics.stats(read).items()}
    assert (stands.position, stands.pending) == (" ".join(f"broker-a:{q}:{n}" for q, n in queues.items()), 0)
    committed = {q: ground.admin.offsets.committed(GROUP, MessageQueue(read, "broker-a", q)) for q in queues}
    assert committed == queues
    assert counted(pipeline) == {"eventsRead": 100, "eventsFiltered": 50, "messagesDelivered": 50}


def test_messages_of_a_queue_are_deleted_once_they_are_delivered_and_bad_bodies_are_dead_letters(
    ground: Ground, queue: str, topic: str
) -> None:
    dead = ground.new_topic()
    ground.queues.set_attributes(queue, {"VisibilityTimeout": 5})
    bodies = [*(b'{"n": %d}' % n for n in range(50)), b"{"]
    ground.fill(queue, map(base64.b64encode, bodies))
    source = from_queue(ground, queue, format="json", base64=True)
    sink = {"body": {"method": "data_extraction", "path": "$.data.body.n"}}
    pipeline = started(ground, document(ground, source, topic, sink=sink, deadLetterTopic=dead))
    until(lambda: ground.left(queue) == 0, pipeline)
    until(lambda: standing(pipeline).sequence == 51, pipeline)
    pipeline.stop()
    assert sorted(map(int, delivered(ground, topic))) == list(range(50))
    (letter,) = ground.messages(dead)
    assert letter.properties[REASON].startswith("The body of the message is no JSON: ")
    original = json.loads(letter.decoded_body())
    assert (original["data"]["body"], original["data"]["queue"]) == ("{", queue)
    stands = standing(pipeline)
    assert stands.pending == 0 and stands.position and stands.time_ms
    assert counted(pipeline) == {"eventsRead": 51, "messagesDelivered": 50, "eventsFailed": 1, "deadLetters": 1}
    assert pipeline.report().connectors["events"]["deletedMessages"] == 51


def cut_off(checkpoint: Path) -> None:
    """As after a kill while Spark wrote where the first batch ends."""
    for folder in ("offsets", "commits"):
        for file in (checkpoint / folder).iterdir():
            file.unlink()
    (checkpoint / "offsets/.0.b5c1.tmp").write_bytes(b"v1")


@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_messages_wait_for_others_until_the_interval_is_over(ground: Ground, queue: str, topic: str, kind: str) -> None:
    written = ground.new_topic()
    more = {"messages": 1000, "interval": 15}
    source = from_topic(ground, topic, **more) if kind == "topic" else from_queue(ground, queue, **more)
    pipeline = started(ground, document(ground, source, written))
    if kind == "topic":
        send(ground, [(Message(topic, b"one"), "")])
    else:
        ground.fill(queue, [b"one"])
    until(lambda: standing(pipeline).pending == 1, pipeline)
    assert standing(pipeline).since_ms and delivered(ground, written) == []
    pipeline.stop()
    cut_off(pipeline._held.state / f"insert-{MESSAGES}")
    told = document(ground, source | {"interval": 0}, written)
    again = started(ground, told, location=pipeline.spec.location, number=2)
    until(lambda: delivered(ground, written) == ["one"], again)
    again.stop()
