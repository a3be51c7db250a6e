"""What is left of pipelines, and of savepoints, that are no more."""

from __future__ import annotations

import io
from typing import Any

import pytest

from analytics import lake
from console.catalog import storage
from console.celery import app
from console.pipelines import queries, removal, services, tasks
from console.pipelines.models import Pipeline, Savepoint, State
from tests.support.cast import Cast


def written(location: str, size: int = 1) -> str:
    """A file there; returns where."""
    lake.write_file(f"{location}fence", io.BytesIO(b"1" * size))
    return f"{location}fence"


def kept(pipeline: Pipeline, name: str, size: int = 1) -> Savepoint:
    location = f"{queries.location_of(pipeline)}savepoint-{name}/"
    written(f"{location}insert-o/", size)
    return Savepoint.objects.create(pipeline=pipeline, folder=location)


def used(cast: Cast) -> int | None:
    storage.recount(cast.acme, only_changed=True)
    return storage.in_use(cast.acme)["lake_bytes"]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[Any]]]:
    """What was handed over to workers, which do nothing before the test says so."""
    found: list[tuple[str, list[Any]]] = []
    monkeypatch.setattr(app, "send_task", lambda name, args=(), **_: found.append((name, list(args))))
    for module in (services, removal):
        monkeypatch.setattr(module, "after_commit", lambda act, *args, **named: act(*args, **named))
    return found


def test_the_state_of_a_deleted_pipeline_is_removed_and_its_account_has_the_room_again(
    cast: Cast, pipeline: Pipeline, sent: list[tuple[str, list[Any]]]
) -> None:
    kept_file = written(f"{queries.location_of(pipeline)}run-00000001/", 700)
    gone = written(queries.location_of(pipeline).replace(f"/{pipeline.pk}/", f"/{pipeline.pk + 1000}/"), 50)
    assert used(cast) == 750
    tasks.expire()
    assert lake.file(kept_file) is not None and lake.file(gone) is None
    assert used(cast) == 700
    location = queries.location_of(pipeline)
    services.delete(actor=cast.actor("alice"), pipeline=pipeline)
    assert sent == [("console.pipelines.tasks.remove", [location, cast.acme.pk])]
    tasks.remove(*sent[0][1])
    assert lake.file(kept_file) is None
    assert used(cast) == 0


def test_the_files_of_a_deleted_savepoint_are_removed_and_its_account_has_the_room_again(
    cast: Cast, pipeline: Pipeline, sent: list[tuple[str, list[Any]]]
) -> None:
    first, second = kept(pipeline, "00000001", 300), kept(pipeline, "00000002", 20)
    state = written(f"{queries.location_of(pipeline)}run-00000003/", 1)
    assert used(cast) == 321
    services.delete_savepoint(actor=cast.actor("alice"), pipeline=pipeline, savepoint=first)
    ((name, arguments),) = sent
    assert name == "console.pipelines.tasks.remove_savepoint"
    for _ in range(2):  # messages come twice
        tasks.remove_savepoint(*arguments)
    assert used(cast) == 21
    assert lake.folders(queries.location_of(pipeline)) == ["run-00000003", "savepoint-00000002"]
    assert lake.file(state) is not None and list(pipeline.savepoints.all()) == [second]


def test_savepoints_that_nobody_knows_go_within_the_hour_but_never_while_a_worker_keeps_one(
    cast: Cast, pipeline: Pipeline
) -> None:
    known = kept(pipeline, "00000001", 300)
    location = queries.location_of(pipeline)
    written(f"{location}savepoint-00000002/", 20)
    written(f"{location}.savepoint-00000003/", 4)  # half a copy, of a worker that was killed
    assert used(cast) == 324
    Pipeline.objects.filter(pk=pipeline.pk).update(state=State.STOPPING)
    tasks.expire()
    assert used(cast) == 324
    Pipeline.objects.filter(pk=pipeline.pk).update(state=State.STOPPED)
    tasks.expire()
    assert used(cast) == 300
    assert lake.folders(known.folder) == ["insert-o"]
