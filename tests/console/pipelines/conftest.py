"""A pipeline of acme's, and the plans that it runs."""

from __future__ import annotations

import pytest

from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, View
from console.accounts.actor import Actor
from console.pipelines import services
from console.pipelines.models import Pipeline, StartFrom
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
