"""What stays of a pipeline when its worker and Spark die at once: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analytics import lake
from analytics.pipelines.plan import Insert
from tests.pipelines.crashes import heard, kill, numbered, tell, uncommitted, worker
from tests.pipelines.jobs import Ground, lines_at, new_location, plan_of, printed, until
from tests.support.queue_service import QueueServiceProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
MESSAGES, MORE = 400, 50


def test_no_message_is_lost_and_none_counts_twice_when_the_worker_dies_between_read_and_commit(
    ground: Ground, service: QueueServiceProcess, queue: str
) -> None:
    ground.queues.set_attributes(queue, {"VisibilityTimeout": 12})
    location = new_location()
    # Rows that take their time, so that a batch is under way when the worker dies; and a count of each message, which
    # Spark keeps by batches: one that came in two of them counts twice.
    sql = "select id, count(*) from flights where length(repeat(sha2(carrier, 512), 20000)) > 0 group by id"
    source = ground.mns(queue, "id bigint, carrier string")
    plan = replace(
        plan_of(source, printed("all", "id bigint, times bigint"), ""), inserts=(Insert("all", sql, "update"),)
    )
    sent = MESSAGES
    ground.fill(queue, map(numbered, range(sent)))
    state = Path(lake.lake_path(location))

    for number in (1, 2):
        with worker(plan, ground, service, location, number) as process:
            until(lambda: uncommitted(state / f"run-{number:08}" / "state", "all"))  # noqa: B023
            kill(process)
        until(lambda: ground.queues.queue(queue).inactive == 0)  # what was under way comes again
        ground.fill(queue, map(numbered, range(sent, sent + MORE)))
        sent += MORE
    with worker(plan, ground, service, location, 3) as process:
        until(lambda: ground.left(queue) == 0 or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        until(lambda: not list(state.glob("run-*/state/source-flights/*.arrow")))  # also what a kill left of a batch
        tell(process, "end")
        assert heard(process) == "ended: None"  # an engine that ends lets its pipelines end first

    counted = {tuple(map(int, line[3:-1].split(", "))) for line in lines_at(location, "all")}
    assert counted == {(number, 1) for number in range(sent)}
    noted = json.loads(next(state.glob("run-*/state/source-flights/state.json")).read_text())
    assert noted["counters"]["duplicateMessages"] > 0
