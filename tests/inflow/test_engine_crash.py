"""What stays of an inflow task when its worker and Spark die at once: every change arrives, those of a row in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import lake
from analytics.inflow.task import EVENTS, MESSAGES
from analytics.pipelines import reaches
from tests.inflow.tasks import Log, bodies, document, in_order, in_single_calls, ordered_topic
from tests.pipelines.crashes import heard, kill, tell, uncommitted, worker
from tests.pipelines.jobs import Ground, new_location, until
from tests.support.queue_service import QueueServiceProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
AT_ONCE, MORE = 20, 200


def test_no_change_is_lost_and_a_kill_repeats_at_most_a_batch(
    ground: Ground, service: QueueServiceProcess, topic: str
) -> None:
    fifo = ordered_topic(ground, f"{topic}-fifo")
    log = Log()
    # It takes its time, so that a batch is under way when the worker dies.
    slow = {"kind": "expression", "expression": f"to_string({' | '.join(['[@, @]'] * 10)}) && @"}
    told = document(ground, log, fifo, sink={"ordered": True}, source={"messages": AT_ONCE}, transform=slow)
    plan, location, sent = in_single_calls(told), new_location(), 0
    folder = Path(lake.lake_path(location))
    with log.writer:
        for number in (1, 2):
            log.add(*range(sent, sent + MORE))
            sent += MORE
            state = folder / f"run-{number:08}" / "state"
            with worker(plan, ground, service, location, number) as process:
                until(lambda: (stands(state) or 0) >= sent - MORE + AT_ONCE and uncommitted(state, MESSAGES))  # noqa: B023
                kill(process)
        log.add(*range(sent, sent + MORE))
        sent += MORE
        with worker(plan, ground, service, location, 3) as process:
            until(lambda: stands(folder / "run-00000003/state") == sent or process.poll() is not None)
            assert process.poll() is None, process.communicate()[0]
            tell(process, "end")
            assert heard(process) == "ended: None"

    found = bodies(ground, fifo)
    assert set(found) == set(range(sent))
    assert len(found) - sent <= 2 * AT_ONCE
    assert all(row == sorted(row) for row in in_order(ground, fifo))


def stands(state: Path) -> int | None:
    """The last event that is known to be delivered."""
    found = reaches.reached(state, EVENTS)
    return None if found is None else found.sequence
