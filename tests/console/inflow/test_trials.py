"""A query that is tried for a page: what the worker answers, and what is told when it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from kombu.exceptions import OperationalError

from analytics.errors import PipelineFailed
from analytics.inflow.task_transforms import SqlTransform
from analytics.inflow.transform import Transformed, TransformFailed
from analytics.pipelines import query_trial
from console.celery import app
from console.inflow import journey, trials
from tests.console.inflow.conftest import document
from tests.support.cast import Cast

QUERY = SqlTransform.read({"kind": "sql", "sql": "select id, after:n::int as n from events"})
SAMPLE = {"id": "s1", "data": {"after": {"n": 4}}}
Asked = list[query_trial.Trial]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A worker that answers at once, with an engine that gives each event `seen`."""
    asked: Asked = []

    def tried(trial: query_trial.Trial, events: list[dict[str, Any]]) -> Transformed:
        asked.append(trial)
        if "fail" in trial.sql:
            raise PipelineFailed("The query takes longer than 8 s.")
        return Transformed([one | {"data": {"seen": True}} for one in events], list(range(len(events))))

    def send(name: str, *, kwargs: dict[str, Any], **_: Any) -> None:
        assert name == "console.inflow.tasks.try_query"
        trials.answer(json.loads(json.dumps(kwargs["told"])))

    monkeypatch.setattr(query_trial, "tried", tried)
    monkeypatch.setattr(app, "send_task", send)
    yield asked


def test_a_page_shows_what_the_worker_makes_of_the_sample(cast: Cast, worker: Asked) -> None:
    told = document(cast) | {"transform": QUERY.to_document()}
    seen = journey.travel(actor=cast.actor("alice"), document=told, sample=json.dumps(SAMPLE), calls=True)
    assert seen.errors == {} and seen.made == 1 and json.loads(seen.after[0])["data"] == {"seen": True}
    (trial,) = worker
    assert (trial.tenant, trial.sql, trial.tables) == (cast.acme.uid, QUERY.sql, {})


def test_what_is_typed_does_not_ask_the_engine(cast: Cast, worker: Asked) -> None:
    told = document(cast) | {"transform": QUERY.to_document()}
    seen = journey.travel(actor=cast.actor("alice"), document=told, sample=json.dumps(SAMPLE))
    assert worker == [] and "when you choose Try it" in seen.note


def test_why_a_query_cannot_be_made_is_told(cast: Cast, worker: Asked) -> None:
    failing = SqlTransform.read({"kind": "sql", "sql": "select id as fail from events"})
    with pytest.raises(TransformFailed, match="takes longer than 8 s"):
        trials.ask(cast.actor("alice"), failing, [SAMPLE])
    foreign = SqlTransform.read({"kind": "sql", "sql": "select e.id from events e join others.secrets s on true"})
    with pytest.raises(TransformFailed, match=r"There is no table others\.secrets that may be queried"):
        trials.ask(cast.actor("alice"), foreign, [SAMPLE])
    assert len(worker) == 1, "the second one never reaches the engine"


def test_an_account_tries_one_query_at_a_time(cast: Cast, worker: Asked) -> None:
    cache.add(f"inflow-trial-of-{cast.acme.uid}", "", timeout=30)
    with pytest.raises(TransformFailed, match="Another query of this account is being tried"):
        trials.ask(cast.actor("alice"), QUERY, [SAMPLE])
    cache.delete(f"inflow-trial-of-{cast.acme.uid}")
    for _ in range(2):
        assert trials.ask(cast.actor("alice"), QUERY, [SAMPLE]).events


def test_a_worker_that_does_not_answer_is_told(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "WAIT_S", 0.2)
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    with pytest.raises(TransformFailed, match=r"did not answer within 0\.2 s: it is starting or busy"):
        trials.ask(cast.actor("alice"), QUERY, [SAMPLE])

    def away(*_: object, **__: object) -> None:
        raise OperationalError("no Redis")

    monkeypatch.setattr(app, "send_task", away)
    with pytest.raises(TransformFailed, match="did not answer"):
        trials.ask(cast.actor("alice"), QUERY, [SAMPLE])


def test_who_was_disabled_since_gets_no_answer_of_the_engine(cast: Cast, worker: Asked) -> None:
    actor = cast.actor("alice")
    cast.acme.enabled = False
    cast.acme.save()
    with pytest.raises(TransformFailed, match="You were disabled or deleted"):
        trials.ask(actor, QUERY, [SAMPLE])
    assert worker == []
