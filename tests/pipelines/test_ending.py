"""How a runner ends queries, without Spark: each once its batch has ended, whatever the others do."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from analytics.pipelines import checkpoints, waits
from analytics.pipelines.plan import Insert, Plan, Settings
from analytics.pipelines.runner import Pipeline, Start
from tests.pipelines.jobs import new_location, printed

PATIENCE_SECONDS = 60.0


@dataclass
class Query:
    """Has batches of so many seconds, one behind the other, until it is stopped."""

    batch_s: float
    begun: float = field(default_factory=time.monotonic)
    stopped: float | None = None

    @property
    def batch(self) -> int:
        """The number of the one that is under way, or was at the stop."""
        return int(((self.stopped or time.monotonic()) - self.begun) / self.batch_s)

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.stopped is None

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": True, "isDataAvailable": True}

    @property
    def _jsq(self) -> Any:
        told = SimpleNamespace(timestamp=lambda batch=self.batch - 1: f"{batch}", batchId=lambda: -1)
        return SimpleNamespace(lastProgress=lambda: told if self.batch else None)

    def stop(self) -> None:
        assert self.stopped is None, "it is stopped once"
        self.stopped = time.monotonic()


def ending(*queries: Query) -> Pipeline:
    """A pipeline of which these queries run."""
    inserts = tuple(Insert(f"shown{number}", "select 1", line=number) for number, _ in enumerate(queries))
    plan = Plan((), tuple(printed(insert.sink, "n int") for insert in inserts), (), inserts, Settings())
    location = new_location()
    pipeline = Pipeline(Start("tests", "alice", plan, location, 1), checkpoints.claim(location, 1))
    pipeline._queries = list(queries)  # type: ignore[arg-type]
    return pipeline


def waits_until(pipeline: Pipeline, sink: str, pause_ms: int) -> None:
    """Let a table tell that its next try comes after this time."""
    state, given_up = str(pipeline._held.state), threading.Event()
    given_up.set()
    with pytest.raises(Exception, match="not written any more"):
        waits.Pauses(state, sink, 3, given_up).take(pause_ms, 1, "no broker answers")


def test_each_query_is_stopped_at_the_end_of_its_own_batch_though_another_follows_without_a_gap() -> None:
    queries = [Query(2.5), Query(0.5), Query(1.0)]
    pipeline = ending(*queries)
    pipeline.stop()
    for query in queries:
        assert query.stopped is not None and query.batch == 1
    short, long = queries[1], queries[0]
    assert short.stopped < long.begun + long.batch_s  # type: ignore[operator]


def test_a_batch_may_take_no_longer_than_told() -> None:
    query = Query(PATIENCE_SECONDS)
    ending(query).abandon(0.2)
    assert query.stopped is not None and query.batch == 0


def test_a_sink_that_tries_again_in_time_may_end_its_batch_and_another_one_is_cut_off() -> None:
    soon, late = Query(2.0), Query(PATIENCE_SECONDS)
    pipeline = ending(soon, late)
    waits_until(pipeline, "shown0", 1_000)
    waits_until(pipeline, "shown1", 3_600_000)
    pipeline.stop()
    assert (soon.batch, late.batch) == (1, 0)
    assert late.stopped < soon.stopped  # type: ignore[operator]


def test_a_query_that_does_not_stop_keeps_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, well = Query(0.5), Query(0.5)

    def refuse() -> None:
        raise RuntimeError("it does not stop")

    monkeypatch.setattr(broken, "stop", refuse)
    pipeline = ending(broken, well)
    pipeline.stop()
    assert well.stopped is not None and not pipeline.is_running
