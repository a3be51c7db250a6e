"""What a pipeline is told, and refused, while its account may store nothing more in the lake."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from pytest_django import Settings

from analytics import lake
from analytics.pipelines.plan import Plan, Sink
from console.accounts.models import Tenant
from console.catalog import storage
from console.pipelines import lifecycle, queries, room
from console.pipelines.lifecycle import Lease, LeaseLost
from console.pipelines.models import Pipeline, State
from console.pipelines.room import Watch
from console.web.errors import Refused
from tests.console.pipelines.conftest import plan_of
from tests.support.cast import Cast


def fill(tenant: Tenant, size: int) -> None:
    """So many bytes of the account in the lake, where nothing else is, counted."""
    location = f"oss://{storage.STATES_BUCKET}/{tenant.uid}/filling/state"
    lake.remove(location)
    lake.write_file(location, io.BytesIO(b"x" * size))
    storage.recount(tenant)


def writing_files() -> Plan:
    plan = plan_of()
    return replace(plan, sinks=(Sink("o", "filesystem", plan.sinks[0].columns, "csv", {"path": "oss://acme-lake/o/"}),))


@pytest.fixture(autouse=True)
def limit(settings: Settings) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 1_000}


@pytest.fixture
def lease(started: Pipeline) -> Lease:
    found = lifecycle.claim(started.pk, "one")
    assert found is not None
    lifecycle.run(found)
    return found


@pytest.fixture
def watch(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """One that looks whenever it is asked."""
    monkeypatch.setattr(room, "LOOK_S", 0.0)
    return Watch(lease)


def told(pipeline: Pipeline) -> list[str]:
    return list(pipeline.events.filter(kind__startswith="lake").order_by("pk").values_list("kind", flat=True))


def test_what_runs_is_told_once_that_the_lake_is_full_and_once_that_it_has_room(
    cast: Cast, started: Pipeline, watch: Watch
) -> None:
    fill(cast.acme, 999)
    assert watch.look(plan_of()) == ("", None)
    fill(cast.acme, 5_000)
    sentence, refusal = watch.look(plan_of())
    assert sentence.startswith("acme may store 1000 bytes in the lake and has 4.883 KiB: delete files or drop tables")
    assert sentence.endswith(" This job goes on; until there is room no job starts, and no savepoint is kept.")
    assert refusal is None
    assert watch.look(plan_of()) == ("", None)
    started.refresh_from_db()
    assert room.notice(started) == sentence
    fill(cast.acme, 10)
    assert watch.look(plan_of()) == ("There is room in the lake again.", None)
    assert told(started) == ["lake full", "lake has room"]
    assert room.notice(started) == ""


def test_a_notice_ends_with_the_run_that_it_was_for(cast: Cast, started: Pipeline, watch: Watch, lease: Lease) -> None:
    fill(cast.acme, 5_000)
    watch.look(plan_of())
    lifecycle.finish(lease)
    started.refresh_from_db()
    assert room.notice(started) == ""
    with pytest.raises(LeaseLost):
        lifecycle.note(lease, room.HAS_ROOM, "too late")


def test_what_writes_files_ends_once_a_tenth_more_than_the_limit_is_there(
    cast: Cast, started: Pipeline, watch: Watch
) -> None:
    fill(cast.acme, 1_100)
    sentence, refusal = watch.look(writing_files())
    assert sentence and refusal is None
    fill(cast.acme, 1_101)
    sentence, refusal = watch.look(writing_files())
    assert refusal is not None and refusal.symbol == "STORAGE_LIMIT"
    assert refusal.message.startswith("It writes files to the lake, which is full: acme may store 1000 bytes")
    assert watch.look(plan_of()) == ("", None)


def test_all_that_the_account_has_is_counted_anew_while_a_job_runs(
    cast: Cast, started: Pipeline, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cast.acme, 10)
    lake.write_file(f"{queries.location_of(started)}run-00000001/state/a", io.BytesIO(b"x" * 5_000))
    assert watch.look(plan_of()) == ("", None)
    monkeypatch.setattr(room, "COUNT_S", 0.0)
    watch.look(plan_of())
    storage.sweep()  # as the beat does each minute
    assert watch.look(plan_of())[0].startswith("acme may store")


def test_without_a_limit_nothing_is_ever_full(cast: Cast, settings: Settings, started: Pipeline, watch: Watch) -> None:
    fill(cast.acme, 5_000)
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 0}
    assert watch.look(writing_files()) == ("", None)
    room.require_for_start(cast.acme)
    room.require_for_savepoint(started)


def test_a_savepoint_has_room_or_is_refused_before_the_stop(cast: Cast, started: Pipeline, lease: Lease) -> None:
    lake.write_file(f"{queries.location_of(started)}run-{lease.fence:08}/state/a", io.BytesIO(b"x" * 300))
    fill(cast.acme, 400)
    room.require_for_savepoint(started)
    fill(cast.acme, 401)
    with pytest.raises(Refused, match="no room for a savepoint of 300 bytes, so stop late_flights without one"):
        room.require_for_savepoint(started)
    lifecycle.finish(lease)
    room.require_for_savepoint(started)  # nobody runs it: none would be kept


def test_a_kept_savepoint_is_counted_within_a_minute(cast: Cast, started: Pipeline, lease: Lease) -> None:
    fill(cast.acme, 10)
    folder = f"{queries.location_of(started)}savepoint-00000001/"
    lake.write_file(f"{folder}a", io.BytesIO(b"x" * 100))
    lifecycle.keep_savepoint(lease, folder)
    storage.sweep()
    assert storage.in_use(cast.acme)["lake_bytes"] == 110


def test_what_starts_again_after_a_failure_is_not_refused(cast: Cast, started: Pipeline, lease: Lease) -> None:
    fill(cast.acme, 5_000)
    with pytest.raises(Refused, match="acme may store 1000 bytes"):
        room.require_for_start(cast.acme)
    assert lifecycle.fail(lease, "The topic is away.") is State.STARTING
    Pipeline.objects.filter(pk=started.pk).update(due_at=None)
    assert lifecycle.claim(started.pk, "two") is not None
