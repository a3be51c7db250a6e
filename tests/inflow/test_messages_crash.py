"""What stays of tasks that read a topic and a queue when their worker and Spark die at once, amid a batch of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analytics import lake
from analytics.inflow.task import EVENTS, MESSAGES
from analytics.pipelines import reaches
from analytics.pipelines.plan import Plan
from brokercore.client import Message
from tests.inflow.tasks import bodies, in_order, in_single_calls, ordered_topic
from tests.inflow.test_engine_messages import document, from_queue, from_topic, send
from tests.pipelines.crashes import kill, uncommitted, worker
from tests.pipelines.jobs import Ground, new_location, until
from tests.support.queue_service import QueueServiceProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
AT_ONCE, SENT = 20, 160
FROM_QUEUE, TO_TOPIC = "waiting", "delivered"
#: It takes its time, so that a batch is under way when the worker dies.
SLOW = {"kind": "expression", "expression": f"to_string({' | '.join(['[@, @]'] * 11)}) && @"}


def test_what_was_read_and_not_delivered_is_delivered_by_the_next_worker(
    ground: Ground, service: QueueServiceProcess, queue: str, topic: str
) -> None:
    read, written = ordered_topic(ground, f"{topic}-read"), ordered_topic(ground, f"{topic}-written")
    tasks = (
        document(ground, from_topic(ground, read), written, sink={"ordered": True}, transform=SLOW),
        document(ground, from_queue(ground, queue), topic, transform=SLOW),
    )
    plan, location = both(*map(in_single_calls, tasks)), new_location()
    send(ground, ((Message(read, b"%d" % n), f"o{n % 5}") for n in range(SENT)))
    ground.fill(queue, (b"%d" % n for n in range(SENT)))
    state = Path(lake.lake_path(location)) / "run-00000001/state"
    with worker(plan, ground, service, location, 1) as process:
        until(lambda: all(is_amid_a_batch(state, *names) for names in ((EVENTS, MESSAGES), (FROM_QUEUE, TO_TOPIC))))
        kill(process)
    assert 0 < len(bodies(ground, topic)) < SENT and 0 < len(bodies(ground, written)) < SENT
    state = Path(lake.lake_path(location)) / "run-00000002/state"
    with worker(plan, ground, service, location, 2) as process:
        until(lambda: (stands(state, EVENTS) == SENT and ground.left(queue) == 0) or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
    for found in (bodies(ground, written), bodies(ground, topic)):
        assert set(found) == set(range(SENT))
        assert len(found) - SENT <= AT_ONCE
    assert all(row == sorted(row) for row in in_order(ground, written))


def both(first: Plan, second: Plan) -> Plan:
    """Two tasks as one pipeline, so that one Spark runs both."""
    (source,), (sink,), (insert,) = second.sources, second.sinks, second.inserts
    return replace(
        first,
        sources=(*first.sources, replace(source, name=FROM_QUEUE)),
        sinks=(*first.sinks, replace(sink, name=TO_TOPIC)),
        inserts=(*first.inserts, replace(insert, sink=TO_TOPIC, sql=f"select event from {FROM_QUEUE}")),
        secrets=tuple(sorted({*first.secrets, *second.secrets})),
    )


def is_amid_a_batch(state: Path, source: str, insert: str) -> bool:
    """Whether something was delivered, and a batch has begun that is not."""
    return stands(state, source) > 0 and uncommitted(state, insert)


def stands(state: Path, source: str) -> int:
    found = reaches.reached(state, source)
    return 0 if found is None else found.sequence
