"""Inflow tasks on Spark, behind its wall, into queues of a real service and to real HTTP receivers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from analytics import wall
from analytics.errors import PipelineEnded, PipelineRefused
from analytics.inflow.delivery import REASON
from analytics.inflow.http_line import sign
from analytics.pipelines.plan import Value
from tests.inflow.tasks import Log, change, counted, delivered_to, ended, in_single_calls, spec, started
from tests.inflow.test_queues import bodies
from tests.pipelines.crashes import worker
from tests.pipelines.jobs import Ground, new_location, until
from tests.support.broker import free_engine_ports
from tests.support.queue_service import QueueServiceProcess
from tests.support.receivers import Pushed, receiver

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]
GIVEN: dict[str, Value] = {"functionKey": "secret key", "networks": "127.0.0.0/8"}


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with log.writer:
        yield log


def document(log: Log, sink: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A task that delivers the number of each change, at once."""
    body = {"body": {"method": "data_extraction", "path": "$.data.after.n"}}
    source = {"log": log.location, "messages": 100, "interval": 0}
    return {"name": "orders-out", "source": source, "sink": body | sink, **more}


def of_queue(ground: Ground, *, dead: str = "") -> dict[str, Any]:
    """What a task with a queue is given, and what one with a dead-letter queue is."""
    names = (
        ("deadEndpoint", "deadAccessId", "deadAccessKey") if dead else ("endpoint", "accessKeyId", "accessKeySecret")
    )
    return dict(zip(names, (ground.endpoint, ground.key_id, ground.secret), strict=True))


def test_events_arrive_in_a_queue_and_what_fails_in_another_with_its_reason(ground: Ground, log: Log) -> None:
    orders, dead = (f"{ground_name}-{log.location[-12:-1].replace('/', '-')}" for ground_name in ("orders", "dead"))
    for name in (orders, dead):
        ground.queues.create_queue(name)
    log.add(*range(1, 41))
    log.add(41, after={})
    told = document(log, {"kind": "queue", "queue": orders, "priority": 1}, deadLetterQueue=dead)
    pipeline = started(ground, told, given=of_queue(ground) | of_queue(ground, dead=dead))
    delivered_to(pipeline, 41)
    pipeline.stop()
    assert sorted(map(int, bodies(ground, orders))) == list(range(1, 41))
    (letter,) = (json.loads(body) for body in bodies(ground, dead))
    assert letter["event"] == json.loads(change(41, after={})) and letter["reason"].startswith("body: ")
    assert counted(pipeline) == {"eventsRead": 41, "messagesDelivered": 40, "eventsFailed": 1, "deadLetters": 1}


def test_a_queue_that_is_not_there_is_told_at_the_start_and_later(ground: Ground, log: Log) -> None:
    told = document(log, {"kind": "queue", "queue": "gone-soon"})
    with pytest.raises(PipelineRefused, match="The task cannot start: The queue gone-soon cannot be written to: "):
        started(ground, told, given=of_queue(ground))
    ground.queues.create_queue("gone-soon")
    pipeline = started(ground, told, given=of_queue(ground))
    ground.queues.delete_queue("gone-soon")
    log.add(1)
    failure = ended(pipeline)
    assert isinstance(failure, PipelineEnded) and failure.is_misset


def test_events_arrive_at_an_endpoint_signed_and_in_the_order_of_their_keys(
    ground: Ground, topic: str, log: Log
) -> None:
    log.add(*range(1, 101))
    log.add(101, after={})
    with receiver(lambda pushed: 422 if pushed.body == b"7" else 200, port=free_engine_ports(1)[0]) as found:
        sink = {
            "kind": "http", "url": f"{found.url}/in", "mode": "body", "ordered": True,
            "headers": {"Authorization": "Bearer ${secret_values.broker}"},
        }  # fmt: skip
        dead = {
            "deadEndpoint": ground.namesrv,
            "deadAccessId": ground.credentials.access_key_id,
            "deadAccessKey": ground.credentials.access_key_secret,
        }
        pipeline = started(ground, document(log, sink, deadLetterTopic=topic), given=GIVEN | dead)
        delivered_to(pipeline, 101)
        pipeline.stop()
    numbers = [int(body) for body in found.bodies]
    assert sorted(numbers) == list(range(1, 101))
    assert all([one for one in numbers if one % 5 == key] == [*range(key or 5, 101, 5)] for key in range(5))
    one = found.pushed[0]
    assert one.headers["x-gantry-signature"] == sign(b"secret key", one.body)
    assert one.headers["authorization"] == f"Bearer {ground.secrets['broker']}"
    reasons = sorted(letter.properties[REASON] for letter in ground.messages(topic))
    assert reasons[0] == "The endpoint at 127.0.0.1 answers with status 422." and reasons[1].startswith("body: ")
    assert counted(pipeline)["messagesDelivered"] == 99


def test_what_an_endpoint_took_before_a_kill_comes_again_under_the_same_id(
    ground: Ground, service: QueueServiceProcess, log: Log
) -> None:
    location, at_once, most = new_location(), 20, 100
    running: list[subprocess.Popen[str]] = []

    def reply(pushed: Pushed) -> int:
        if len(found.pushed) == most // 2:
            os.killpg(running[0].pid, signal.SIGKILL)  # it was delivered, and nobody hears it
        return 200

    with receiver(reply, port=free_engine_ports(1)[0]) as found:
        told = document(log, {"kind": "http", "url": found.url, "mode": "body", "ordered": True})
        plan = in_single_calls(told | {"source": told["source"] | {"messages": at_once}})
        (sink,) = plan.sinks
        plan = replace(plan, sinks=(replace(sink, options=sink.options | GIVEN),))
        with worker(plan, ground, service, location, 1) as process:
            running.append(process)
            log.add(*range(most))
            until(lambda: process.poll() is not None)
        assert len(found.pushed) < most
        pipeline = started(ground, plan, location=location, number=2)
        delivered_to(pipeline, most)
        pipeline.stop()
    numbers = [int(body) for body in found.bodies]
    assert set(numbers) == set(range(most))
    assert len(numbers) - most <= at_once
    first = list(dict.fromkeys(numbers))
    assert all([one for one in first if one % 5 == key] == list(range(key, most, 5)) for key in range(5))
    assert len({(one.body, one.headers["x-gantry-request-id"]) for one in found.pushed}) == most


def test_a_port_that_the_wall_closes_is_told_with_the_setting_that_opens_it(ground: Ground, log: Log) -> None:
    if lacking := wall.shortcoming():
        pytest.skip(lacking)
    log.add(1)
    with receiver() as found:
        pipeline = started(ground, document(log, {"kind": "http", "url": found.url}), given=GIVEN)
        failure = ended(pipeline)
    assert isinstance(failure, PipelineEnded) and failure.is_misset
    assert failure.user_message.endswith(
        f"may not connect to its port {found.port}, which the platform's administrator opens by GANTRY_ENGINE_PORTS."
    )
    assert found.pushed == []


def test_an_address_within_the_platform_is_told_at_the_start(ground: Ground, log: Log) -> None:
    with pytest.raises(PipelineRefused, match="has no public address, nor one that the platform's administrator"):
        started(ground, document(log, {"kind": "http", "url": "http://127.0.0.1:1/"}), given={"functionKey": "k"})


def test_a_secret_of_a_header_that_is_not_there_is_told(ground: Ground, log: Log) -> None:
    sink = {"kind": "http", "url": "http://127.0.0.1:1/", "headers": {"x-key": "${secret_values.nobody}"}}
    plan = spec(ground, document(log, sink), given=GIVEN)
    assert plan.plan.secrets == ("nobody",)
    with pytest.raises(PipelineRefused, match="There is no secret nobody"):
        started(ground, document(log, sink), given=GIVEN)
