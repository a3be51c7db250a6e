"""Inflow tasks on Spark, behind its wall: from an event log into topics of a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from analytics import wall
from analytics.errors import PipelineEnded, PipelineFailed, PipelineRefused
from analytics.inflow.delivery import REASON, TASK, TRIES
from analytics.inflow.http_line import sign
from analytics.lake import Place
from analytics.pipelines import runner
from analytics.pipelines.reports import Reached
from brokercore.client import Admin, Credentials
from tests.inflow.tasks import (
    Log,
    bodies,
    change,
    counted,
    delivered_to,
    document,
    ended,
    in_order,
    in_single_calls,
    ordered_topic,
    spec,
    standing,
    started,
)
from tests.pipelines.jobs import Ground, until
from tests.pipelines.test_engine_waits import is_alive, processes_of
from tests.support.broker import BrokerProcess, broker_process, eventually, free_engine_ports

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with log.writer:
        yield log


def test_events_arrive_filtered_transformed_and_built(ground: Ground, topic: str, log: Log) -> None:
    log.add(1, 2)
    log.add(3, table="items")
    other = ground.new_topic()
    told = document(
        ground, log, topic,
        pattern={"data": {"tableName": ["orders"]}},
        transform={
            "kind": "expression",
            "expression": "[@, merge(@, {id: join('-', [id, 'copy']), gantrytopic: 'OTHER'})]".replace("OTHER", other),
        },
        sink={
            "routes": [other],
            "body": {"method": "complete_data"},
            "key": {"method": "data_extraction", "path": "$.data.primaryKey"},
            "tag": {"method": "data_extraction", "path": "$.data.operation"},
            "properties": {"method": "template", "parameters": {"table": "$.data.tableName"},
                           "template": '{"sourceTable": "${table}"}'},
        },
    )  # fmt: skip
    pipeline = started(ground, told)
    delivered_to(pipeline, 3)
    log.add(4)
    delivered_to(pipeline, 4)
    assert standing(pipeline) == Reached(4, "bin.000001:4", 4000, 4, 4000)
    assert counted(pipeline) == {"eventsRead": 4, "eventsFiltered": 1, "eventsTransformed": 6, "messagesDelivered": 6}
    pipeline.stop()
    assert pipeline.report().inserts[0].rows_in == 4

    events = {number: json.loads(change(number)) for number in (1, 2, 4)}
    found = {json.loads(message.decoded_body())["id"]: message for message in ground.messages(topic)}
    assert {name: json.loads(one.decoded_body()) for name, one in found.items()} == {
        f"e{number}": event for number, event in events.items()
    }
    assert (found["e2"].keys, found["e2"].tags) == ('{"id":2}', "UPDATE")
    assert found["e2"].properties["sourceTable"] == "orders"
    assert sorted(json.loads(message.decoded_body())["id"] for message in ground.messages(other)) == [
        "e1-copy", "e2-copy", "e4-copy",
    ]  # fmt: skip


def test_expressions_are_evaluated_behind_the_engines_wall(ground: Ground, topic: str, log: Log) -> None:
    if lacking := wall.shortcoming():
        pytest.skip(lacking)
    dead = ground.new_topic()
    log.add(1, 2, 3)
    doubled = " | ".join(["[@, @]"] * 27)
    hungry = f"data.after.n == `2` && to_string({doubled}) || @"
    told = document(ground, log, topic, transform={"kind": "expression", "expression": hungry}, deadLetterTopic=dead)
    pipeline = started(ground, told)
    delivered_to(pipeline, 3)
    pipeline.stop()
    assert sorted(bodies(ground, topic)) == [1, 3]
    (letter,) = ground.messages(dead)
    assert "takes too much memory" in letter.properties[REASON] or "too much memory" in letter.properties[REASON]


def test_changes_of_one_row_keep_their_order_in_an_ordered_topic(ground: Ground, topic: str, log: Log) -> None:
    fifo = ordered_topic(ground, f"{topic}-fifo")
    pipeline = started(ground, document(ground, log, fifo, sink={"ordered": True}, source={"messages": 20}))
    for begin in range(0, 200, 50):
        log.add(*range(begin, begin + 50))
    delivered_to(pipeline, 200)
    pipeline.stop()
    rows = list(in_order(ground, fifo))
    assert len(rows) == 5
    assert all(row == sorted(row) and len(row) == 40 for row in rows)


# Functions


class Function(BaseHTTPRequestHandler):
    """Adds the number of events of its request to each of them."""

    seen: list[tuple[int, bool]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        events = json.loads(body)
        self.seen.append((len(events), self.headers["x-gantry-signature"] == sign(b"secret key", body)))
        for event in events:
            event["data"]["after"]["n"] += 1000
        answer = json.dumps(events[1:] if events[0]["id"] == "e1" else events).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def function() -> Iterator[tuple[str, list[tuple[int, bool]]]]:
    """Its URL on a port that the wall names, and how many events each request had, with whether it was signed."""
    seen: list[tuple[int, bool]] = []
    handler = type("Handler", (Function,), {"seen": seen})
    with HTTPServer(("127.0.0.1", free_engine_ports(1)[0]), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/f", seen
        server.shutdown()


def test_a_function_gets_batches_of_at_most_so_many_events(ground: Ground, topic: str, log: Log) -> None:
    log.add(*range(1, 26))
    with function() as (url, seen):
        told = document(ground, log, topic, transform={"kind": "function", "url": url}, source={"messages": 10})
        given = {"functionKey": "secret key", "networks": "127.0.0.0/8"}
        pipeline = started(ground, told, given=given)
        delivered_to(pipeline, 25)
        pipeline.stop()
    assert seen == [(10, True), (10, True), (5, True)]
    assert sorted(bodies(ground, topic)) == [1000 + number for number in range(2, 26)]
    assert counted(pipeline) == {"eventsRead": 25, "eventsTransformed": 24, "messagesDelivered": 24}


# Where it begins, and goes on


def test_a_task_begins_with_the_events_of_a_time_once_and_goes_on_from_its_checkpoint(
    ground: Ground, topic: str, log: Log
) -> None:
    log.add(*range(1, 11))
    first = started(ground, document(ground, log, topic, source={"startTimeMs": 7000}))
    delivered_to(first, 10)
    first.stop()
    assert sorted(bodies(ground, topic)) == [7, 8, 9, 10]
    log.add(11)
    again = document(ground, log, topic, source={"startTimeMs": 2000})
    second = started(ground, again, location=first.spec.location, number=2)
    delivered_to(second, 11)
    second.stop()
    assert sorted(bodies(ground, topic)) == [7, 8, 9, 10, 11]
    assert counted(second) == {"eventsRead": 5, "messagesDelivered": 5}


def test_a_task_that_is_abandoned_in_a_batch_repeats_that_batch_and_loses_nothing(
    ground: Ground, topic: str, log: Log
) -> None:
    told = in_single_calls(document(ground, log, topic, source={"messages": 10}))
    location, sent = "", 0
    for number in range(1, 4):
        log.add(*range(sent, sent + 100))
        pipeline = started(ground, told, location=location, number=number)
        location = pipeline.spec.location
        delivered_to(pipeline, sent + 30)
        if number == 3:
            delivered_to(pipeline, sent + 100)
            pipeline.stop()
        else:
            pipeline.abandon()
        sent += 100
    found = bodies(ground, topic)
    assert set(found) == set(range(sent))
    assert len(found) - sent <= 2 * 10


# Faults


def test_a_broker_that_is_away_is_tried_until_it_is_back(ground: Ground, log: Log) -> None:
    with broker_process() as broker:
        key = Credentials(broker.access_key_id, broker.access_key_secret)
        with Admin(broker.namesrv, key) as admin:
            admin.topics.create("t", queues=2)
            eventually(lambda: "t" in admin.topics.names())
        place = {"endpoint": broker.namesrv, "accessId": key.access_key_id}
        told = document(ground, log, "t", retry="exponential", sink=place, faults="prohibited")
        pipeline = started(ground, told)
        log.add(1)
        delivered_to(pipeline, 1)
        broker.kill()
        log.add(2)
        until(lambda: bool(pipeline.report().waiting), pipeline)
        (waiting,) = pipeline.report().waiting
        assert waiting.most == 177 and "The topic t cannot be written to" in waiting.reason
        eventually(lambda: counted(pipeline).get("deliveriesRetried", 0) > 0)
        broker.start()
        delivered_to(pipeline, 2)
        assert pipeline.report().waiting == ()
        pipeline.stop()
        assert found_at(broker, "t") == [b"1", b"2"]
        counts = counted(pipeline)
        assert counts["deliveriesRetried"] >= 1 and counts["messagesDelivered"] == 2 and "eventsFailed" not in counts


def found_at(broker: BrokerProcess, topic: str) -> list[bytes]:
    key = Credentials(broker.access_key_id, broker.access_key_secret)
    with Admin(broker.namesrv, key) as admin:
        there = Ground("", "", "", broker.namesrv, key, admin)
        return sorted(message.decoded_body() for message in there.messages(topic))


def test_a_stop_does_not_wait_for_the_next_try_and_the_next_start_delivers(
    ground: Ground, topic: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PATIENCE_S", 2.0)  # the next try comes later
    log.add(1, 2)
    away = {"endpoint": f"127.0.0.1:{free_engine_ports(1)[0]}"}
    first = started(ground, document(ground, log, topic, sink=away))
    until(lambda: bool(first.report().waiting), first)
    (process,) = processes_of(first._held.state)
    first.stop()
    eventually(lambda: not is_alive(process), 120)
    second = started(ground, document(ground, log, topic), location=first.spec.location, number=2)
    delivered_to(second, 2)
    second.stop()
    assert sorted(bodies(ground, topic)) == [1, 2]


def test_what_fails_goes_to_the_dead_letter_topic_with_its_reason(ground: Ground, topic: str, log: Log) -> None:
    dead = ground.new_topic()
    log.add(1)
    log.add(2, after={})
    log.add(3)
    pipeline = started(ground, document(ground, log, topic, deadLetterTopic=dead))
    delivered_to(pipeline, 3)
    pipeline.stop()
    assert sorted(bodies(ground, topic)) == [1, 3]
    (letter,) = ground.messages(dead)
    assert letter.decoded_body() == change(2, after={})
    assert letter.properties[REASON].startswith("body: ")
    assert (letter.properties[TASK], letter.properties[TRIES]) == ("orders-to-topic", "0")
    assert counted(pipeline) == {"eventsRead": 3, "messagesDelivered": 2, "eventsFailed": 1, "deadLetters": 1}


def test_prohibited_faults_stop_the_task_for_good(ground: Ground, topic: str, log: Log) -> None:
    log.add(1)
    log.add(2, after={})
    log.add(3)
    pipeline = started(ground, document(ground, log, topic, faults="prohibited"))
    failure = ended(pipeline)
    assert isinstance(failure, PipelineEnded) and not failure.is_misset and failure.line is None
    assert failure.user_message.startswith("An event could not be delivered, and the task allows no faults: body: ")
    assert bodies(ground, topic) == [1]
    assert counted(pipeline) == {"eventsRead": 3, "messagesDelivered": 1, "eventsFailed": 1}


def test_a_topic_that_is_not_there_ends_the_task_and_no_event_is_lost(ground: Ground, topic: str, log: Log) -> None:
    gone = ground.new_topic()
    first = started(ground, document(ground, log, gone))
    ground.admin.topics.delete(gone)
    log.add(1, 2)
    failure = ended(first)
    assert isinstance(failure, PipelineEnded) and failure.is_misset
    assert failure.user_message.startswith(f"The topic {gone} cannot be written to: ")
    second = started(ground, document(ground, log, topic), location=first.spec.location, number=2)
    delivered_to(second, 2)
    second.stop()
    assert sorted(bodies(ground, topic)) == [1, 2]


def test_a_log_that_was_trimmed_is_told(ground: Ground, topic: str) -> None:
    log = Log(segment_bytes=4096)
    with log.writer:
        log.add(*range(1, 11))
        first = started(ground, document(ground, log, topic))
        delivered_to(first, 10)
        first.stop()
        for number in range(11, 60):
            log.add(number, padding="x" * 1000)
        assert log.writer.trim(most_bytes=16_000) > 11
        failure = ended(started(ground, document(ground, log, topic), location=first.spec.location, number=2))
    assert isinstance(failure, PipelineEnded) and failure.is_misset
    assert "have been removed from the log. Start it anew, from the event" in failure.user_message


def test_a_log_that_is_damaged_may_be_read_by_a_later_start(ground: Ground, topic: str, log: Log) -> None:
    log.add(*range(1, 11))
    (segment,) = log.writer.folder.glob("run-*/*.log")
    content = segment.read_bytes()
    segment.write_bytes(content[:-3] + b"xyz")
    first = started(ground, document(ground, log, topic))
    failure = ended(first)
    assert isinstance(failure, PipelineFailed) and not isinstance(failure, PipelineEnded)
    assert failure.user_message.startswith("The event log is damaged: ")
    segment.write_bytes(content)
    second = started(ground, document(ground, log, topic), location=first.spec.location, number=2)
    delivered_to(second, 10)
    second.stop()
    assert set(bodies(ground, topic)) == set(range(1, 11))


# What is refused


def test_a_text_that_is_no_expression_refuses_the_start(ground: Ground, topic: str, log: Log) -> None:
    told = document(ground, log, topic, transform={"kind": "expression", "expression": "a ||"})
    with pytest.raises(PipelineRefused, match=r"^The task cannot start: The expression cannot be read: character"):
        started(ground, told)


@pytest.mark.parametrize("name", ["topic", "deadLetterTopic"])
def test_a_topic_that_is_not_there_refuses_the_start(ground: Ground, topic: str, log: Log, name: str) -> None:
    told = document(ground, log, topic)
    (told["sink"] if name == "topic" else told)[name] = "nowhere"
    with pytest.raises(PipelineRefused, match=r"^The task cannot start: The topic nowhere cannot be written to: "):
        started(ground, told)


def test_a_log_that_the_starter_may_not_read_refuses_the_start(ground: Ground, topic: str, log: Log) -> None:
    asked: list[str] = []

    def decide(places: list[Place]) -> None:
        asked.extend(place.key for place in places)
        raise PipelineRefused("You may not read it.")

    with pytest.raises(PipelineRefused, match="You may not read it"):
        runner.start(spec(ground, document(ground, log, topic), decide=decide))
    assert asked and asked[0] in log.location
