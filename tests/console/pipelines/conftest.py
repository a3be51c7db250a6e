"""A pipeline of acme's, the plans that it runs, and a worker with what stands in the place of Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from analytics import engine, errors
from analytics.pipelines import runner
from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, View
from analytics.pipelines.reports import InsertReport, Report
from analytics.pipelines.waits import Waiting
from console.accounts.actor import Actor
from console.pipelines import services, worker
from console.pipelines.models import Pipeline, StartFrom
from console.pipelines.worker import Worker
from tests.support.cast import Cast


def plan_of(
    sql: str = "SELECT `a` FROM `s`", *, views: tuple[View, ...] = (), settings: Settings | None = None
) -> Plan:
    """A plan that reads generated rows and prints what the query makes of them."""
    return Plan(
        (Source("s", "datagen", (Column("a", "int"),)),),
        (Sink("o", "print", (Column("a", "int"),)),),
        views,
        (Insert("o", sql),),
        settings=settings or Settings(),
    )


@pytest.fixture(autouse=True)
def no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes the message of a start, for which it would wait seconds."""
    monkeypatch.setattr(services, "hand_over", lambda: None)


@pytest.fixture
def pipeline(cast: Cast) -> Pipeline:
    """Deployed once, and not started."""
    made = services.create(actor=cast.actor("alice"), name="late_flights", draft="SELECT 1")
    services.deploy(actor=cast.actor("alice"), pipeline=made, text="SELECT 1", plan=plan_of())
    made.refresh_from_db()
    return made


@pytest.fixture
def started(cast: Cast, pipeline: Pipeline) -> Pipeline:
    """Asked to start, and not claimed."""
    services.start(actor=cast.actor("alice"), pipeline=pipeline, start_from=StartFrom.NOTHING)
    pipeline.refresh_from_db()
    return pipeline


def started_with(actor: Actor, pipeline: Pipeline, plan: Plan) -> Pipeline:
    """Stopped, and asked to start with another plan; not claimed."""
    services.deploy(actor=actor, pipeline=pipeline, text=f"SELECT {pipeline.versions.count()}", plan=plan)
    services.stop(actor=actor, pipeline=pipeline)
    services.start(actor=actor, pipeline=pipeline, start_from=StartFrom.NOTHING)
    pipeline.refresh_from_db()
    return pipeline


class Run:
    """What the engine has started, in place of a pipeline on Spark."""

    def __init__(self, spec: runner.Start) -> None:
        self.spec = spec
        self.failure: errors.AnalyticsError | None = None
        self.ended = threading.Event()
        self.was_abandoned = False
        self.was_stopped_with: str | None = None
        self.waiting: tuple[Waiting, ...] = ()
        #: Lines that come to be printed with each look.
        self.lines = ["+I(7)"]

    def wait(self, seconds: float | None = None) -> bool:
        return self.ended.wait(seconds)

    def end(self, failure: errors.AnalyticsError | None = None) -> None:
        self.failure = failure
        self.ended.set()

    def abandon(self, patience_s: float = 0.0) -> None:
        self.was_abandoned = True
        self.ended.set()

    def stop(self, savepoint: str = "") -> str:
        self.was_stopped_with = savepoint
        self.ended.set()
        return f"{self.spec.location}savepoint-{savepoint}/" if savepoint else ""

    def report(self) -> Report:
        insert = InsertReport("o", 1, batch=3, duration_ms=40, rows_in=9, rows_in_per_second=2.5)
        return Report((insert,), waiting=self.waiting, rows_in_per_second=2.5)

    def printed(self) -> list[str]:
        return self.lines


@dataclass
class Engine:
    """What was asked of the engine, and what it answers."""

    runs: list[Run] = field(default_factory=list)
    refusal: Exception | None = None
    exits: list[int] = field(default_factory=list)

    def start(self, spec: runner.Start) -> Run:
        if self.refusal is not None:
            raise self.refusal
        self.runs.append(Run(spec))
        return self.runs[-1]


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(runner, "start", made.start)
    monkeypatch.setattr(engine, "is_lost", lambda: False)
    monkeypatch.setattr(worker, "_exit", made.exits.append)
    return made


@pytest.fixture
def process() -> Iterator[Worker]:
    """A worker process whose turns the test takes."""
    made = Worker()
    yield made
    made.leave()
