"""Attack: an account fills the disk, by files that it uploads and by statements that write more than anybody foresaw.

`demo` may store little; what it is refused is nowhere afterwards, and `other` notices nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from analytics import engine
from analytics import lake as files_of_lake
from analytics.errors import LakeError, QueryTimedOut
from analytics.lake import Place, files, lake_path
from analytics.specs import QueryResult, QuerySpec
from analytics.sql import running
from console.accounts.actor import Actor
from console.accounts.models import TenantLimits, TenantUse, User
from console.catalog import buckets, ddl, storage
from console.catalog.models import Bucket, ExternalTable, Schema
from console.rights import limits
from console.sql import lifecycle, results, services, worker
from console.sql import quota as sql_room
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from console.web.errors import Refused
from console.web.text import in_words
from tests.support import lakes
from tests.support.sql_cast import Cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 1024**2
#: Random texts, which no format makes smaller: half a gigabyte and more.
FLOOD = "select uuid() as a, uuid() as b, uuid() as c from range(0, 5000000, 1, 2)"


@pytest.fixture
def lake(sql_cast: Cast, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both accounts have a bucket; each may store a mebibyte in the lake, and as much of results."""
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": MIB, "result_bytes": MIB}
    folder = lakes.own_lake(monkeypatch)
    for actor in (sql_cast.alice, sql_cast.charlie):
        Bucket.objects.create(tenant=actor.tenant, name=f"{actor.tenant.name}-lake")
    Schema.objects.filter(name="demo").update(location="oss://demo-lake/demo/")
    return folder


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the test runs a task."""
    monkeypatch.setattr(lifecycle, "hand_over", lambda _task_id: None)


def signed_in(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(must_change_password=False)
    client = Client()
    client.force_login(user)
    return client


def upload(actor: Actor, name: str, size: int) -> None:
    content = SimpleUploadedFile(name, b"x" * size)
    buckets.upload(actor, Place(f"{actor.tenant.name}-lake", "in"), name, content, size)


def stored(folder: Path) -> int:
    """Bytes of everything that is there, hidden or not."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def used(actor: Actor, kind: str = "lake_bytes") -> int | None:
    return next(line.used for line in limits.lines(actor.tenant)[0] if line.kind.name == kind)


def ended(actor: Actor, text: str) -> QueryTask:
    """Submit a statement and do what a worker does with it."""
    task = lifecycle.claim(services.submit(actor, read(text), "demo").pk, "worker-1")
    assert task is not None
    lifecycle.end(task, worker.outcome_of(task))
    return QueryTask.objects.get(pk=task.pk)


# --- Uploads --------------------------------------------------------------------------------------------------------
def test_a_file_beyond_the_limit_is_refused_in_one_sentence_and_is_nowhere(sql_cast: Cast, lake: Path) -> None:
    client = signed_in(sql_cast.alice.person)
    url = reverse("sql.bucket_upload", args=["demo-lake"])
    assert client.post(url, {"folder": "in", "content": SimpleUploadedFile("a", b"x" * 700_000)}).status_code == 302
    answer = client.post(url, {"folder": "in", "content": SimpleUploadedFile("b", b"x" * 700_000)})
    assert answer.status_code == 422
    assert "demo may store 1 MiB in the lake and has 683.6 KiB: delete files or drop tables" in answer.content.decode()
    assert stored(lake / "demo-lake") == 700_000
    upload(sql_cast.charlie, "theirs", 700_000)


def test_what_sql_jobs_keep_counts_for_their_account(sql_cast: Cast, lake: Path) -> None:
    state = lake / storage.STATES_BUCKET / sql_cast.alice.tenant.uid / "1" / "run-00000001"
    state.mkdir(parents=True)
    (state / "000000000001.arrow").write_bytes(b"x" * 700_000)
    storage.recount(sql_cast.alice.tenant)
    assert used(sql_cast.alice) == 700_000
    with pytest.raises(Refused, match=r"has 683\.6 KiB"):
        upload(sql_cast.alice, "a", 700_000)
    upload(sql_cast.charlie, "a", 700_000)


def test_what_was_deleted_makes_room_at_once(sql_cast: Cast, lake: Path) -> None:
    upload(sql_cast.alice, "a", 700_000)
    with pytest.raises(Refused):
        upload(sql_cast.alice, "b", 700_000)
    buckets.delete_file(sql_cast.alice, Place("demo-lake", "in/a"))
    upload(sql_cast.alice, "b", 700_000)
    upload(sql_cast.alice, "b", 300_000)
    storage.sweep()
    assert used(sql_cast.alice) == 300_000, "a file that was replaced is counted once"


def test_uploads_at_once_do_not_all_get_the_same_rest(sql_cast: Cast, lake: Path) -> None:
    storage.sweep()
    outcomes: list[str] = []

    def one(number: int) -> None:
        try:
            upload(sql_cast.alice, f"f{number}", 400_000)
            outcomes.append("stored")
        except Refused as refused:
            outcomes.append(refused.symbol)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["STORAGE_LIMIT"] * 4 + ["stored"] * 2
    assert stored(lake / "demo-lake") == 800_000


def test_two_who_count_at_once_do_not_both_correct_the_figure(
    sql_cast: Cast, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = sql_cast.alice.tenant
    upload(sql_cast.alice, "a", 400_000)
    TenantUse.objects.filter(tenant=tenant).update(lake_bytes=800_000)
    size_of, counts = files_of_lake.size_of, []

    def beside_another(location: str, **how: Any) -> int:
        if location == "oss://demo-lake":
            counts.append(location)
            if len(counts) == 1:
                storage.recount(tenant)
        return size_of(location, **how)

    monkeypatch.setattr("analytics.lake.size_of", beside_another)
    storage.recount(tenant)
    assert used(sql_cast.alice) == 400_000
    assert len(counts) == 3, "who came second looks again: its first look may be older than a deletion"


def test_what_is_being_written_keeps_its_room_while_the_account_is_counted(sql_cast: Cast, lake: Path) -> None:
    tenant = sql_cast.alice.tenant
    storage.sweep()
    storage.reserve(tenant, 700_000)
    storage.changed(tenant)
    with pytest.raises(Refused, match="may store 1 MiB"):
        storage.reserve(tenant, 400_000)
    storage.release(tenant, 700_000)
    storage.reserve(tenant, 400_000)


def test_the_page_of_limits_and_the_refusal_tell_the_same_number(sql_cast: Cast, lake: Path) -> None:
    upload(sql_cast.alice, "a", 100_000)
    storage.reserve(sql_cast.alice.tenant, 700_000)
    assert used(sql_cast.alice) == 800_000
    with pytest.raises(Refused, match=f"and has {in_words(800_000)}:"):
        storage.reserve(sql_cast.alice.tenant, 400_000)


def test_the_room_of_a_writer_that_was_killed_is_free_again_after_an_hour(sql_cast: Cast, lake: Path) -> None:
    tenant = sql_cast.alice.tenant
    storage.sweep()
    storage.reserve(tenant, 700_000)
    storage.reserve(tenant, 100_000)
    storage.release(tenant, 100_000)
    with pytest.raises(Refused, match="may store 1 MiB"):
        storage.reserve(tenant, 400_000)
    TenantUse.objects.filter(tenant=tenant).update(arriving_at=timezone.now() - timedelta(minutes=61))
    storage.reserve(tenant, 400_000)


def test_a_file_that_could_not_be_written_takes_no_room(
    sql_cast: Cast, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise LakeError("the lake is full")

    storage.sweep()
    monkeypatch.setattr("analytics.lake.write_file", broken)
    with pytest.raises(Refused, match="the lake is full"):
        upload(sql_cast.alice, "a", 700_000)
    assert used(sql_cast.alice) == 0


def test_hidden_folders_and_what_came_by_another_way_count(sql_cast: Cast, lake: Path) -> None:
    (lake / "demo-lake" / "_hidden" / ".deep").mkdir(parents=True)
    (lake / "demo-lake" / "_hidden" / ".deep" / "x").write_bytes(b"x" * MIB)
    with pytest.raises(Refused, match="may store 1 MiB"):
        upload(sql_cast.alice, "a", 1)


def test_the_administrator_gives_an_account_a_limit_of_its_own(sql_cast: Cast, lake: Path) -> None:
    TenantLimits.objects.create(tenant=sql_cast.alice.tenant, lake_bytes=3 * MIB)
    upload(sql_cast.alice, "a", 2 * MIB)
    with pytest.raises(Refused):
        upload(sql_cast.charlie, "a", 2 * MIB)
    TenantLimits.objects.update(lake_bytes=0)
    upload(sql_cast.alice, "b", 2 * MIB)
    assert used(sql_cast.alice) == 4 * MIB


def test_a_figure_that_is_kept_costs_no_walk(sql_cast: Cast, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(sql_cast.alice, "a", 10)

    def walked(*_: object, **__: object) -> int:
        raise AssertionError("the lake was walked")

    monkeypatch.setattr("analytics.lake.size_of", walked)
    upload(sql_cast.alice, "b", 10)
    assert used(sql_cast.alice) == 20


# --- Statements -----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "text",
    [
        f"create table flood stored as csv as {FLOOD}",
        "insert overwrite sink " + FLOOD,
    ],
)
def test_a_statement_that_grows_beyond_what_is_left_is_ended_and_leaves_nothing(
    spark: SparkSession, sql_cast: Cast, lake: Path, text: str
) -> None:
    schema = Schema.objects.get(name="demo")
    columns = [{"name": name, "type": "string"} for name in "abc"]
    ExternalTable.objects.create(schema=schema, name="sink", location="oss://demo-lake/demo/sink/", columns=columns)
    before = stored(lake / "demo-lake")
    seen = watch(lake)
    task = ended(sql_cast.alice, text)
    most = seen()
    assert (task.status, task.error_condition) == ("FAILURE", "STORAGE_LIMIT")
    assert task.message.startswith("demo may store 1 MiB in the lake and has ")
    assert stored(lake / "demo-lake") == before
    assert not ExternalTable.objects.filter(name="flood").exists()
    assert most < 400 * MIB, "it was ended while it wrote, not afterwards"
    storage.sweep()
    assert used(sql_cast.alice) == before


def watch(lake: Path) -> Callable[[], int]:
    """Look how much there is while the test goes on; what is returned says what the most was, and ends that."""
    most, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            try:
                most[0] = max(most[0], stored(lake / "demo-lake"))
            except FileNotFoundError:
                continue

    thread = threading.Thread(target=look, daemon=True)
    thread.start()

    def seen() -> int:
        done.set()
        thread.join()
        return most[0]

    return seen


@pytest.mark.usefixtures("quiet")
def test_a_statement_that_fits_is_counted_and_a_dropped_table_is_not(
    spark: SparkSession, sql_cast: Cast, lake: Path
) -> None:
    task = ended(sql_cast.alice, "create table small as select uuid() as a from range(1000)")
    assert task.status == "SUCCESS", task.message
    size = sum(file.size for file in files("oss://demo-lake/demo/small/"))
    assert size > 30_000
    assert used(sql_cast.alice) == size
    assert used(sql_cast.alice, "result_bytes") == task.result_bytes > 0
    ddl.run(sql_cast.alice, "drop table small", "demo")
    storage.sweep()
    assert used(sql_cast.alice) == 0


@pytest.mark.usefixtures("quiet")
def test_an_account_without_room_does_not_even_begin_to_write(
    sql_cast: Cast, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(_: QuerySpec) -> QueryResult:
        raise AssertionError("the statement was begun")

    monkeypatch.setattr(engine, "run_query", begun)
    upload(sql_cast.alice, "a", MIB)
    task = ended(sql_cast.alice, "create table small as select 1 as a")
    assert (task.error_condition, task.status) == ("STORAGE_LIMIT", "FAILURE")
    assert "may store 1 MiB in the lake and has 1 MiB" in task.message


def running_task(actor: Actor, text: str, schema: str = "demo") -> QueryTask:
    task = lifecycle.claim(services.submit(actor, read(text), schema).pk, "worker-1")
    assert task is not None
    return task


@pytest.mark.usefixtures("quiet")
def test_statements_that_run_at_once_share_the_rest(sql_cast: Cast, lake: Path, settings: Settings) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 10 * MIB}
    tasks = [running_task(sql_cast.alice, f"create table t{n} as select 1 as a") for n in range(2)]
    one, other = (sql_room.room_of(task, storage.LAKE) for task in tasks)
    assert one(6 * MIB, False) == ""
    assert "may store 10 MiB in the lake and has 11 MiB" in other(5 * MIB, False)
    with pytest.raises(Refused):
        upload(sql_cast.alice, "a", 5 * MIB)
    lifecycle.end(tasks[0], lifecycle.CANCELLED)
    assert other(5 * MIB, True) == "", "what an ended statement had written is gone"


@pytest.mark.usefixtures("quiet")
def test_what_a_running_statement_writes_is_not_counted_twice(sql_cast: Cast, lake: Path, settings: Settings) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 10 * MIB}
    task = running_task(sql_cast.alice, "create table t as select 1 as a")
    staging = lake / "demo-lake" / "demo" / "t" / f"_staging-{task.pk}"
    staging.mkdir(parents=True)
    (staging / "part").write_bytes(b"x" * 6 * MIB)
    room = sql_room.room_of(task, storage.LAKE)
    assert room(6 * MIB, False) == ""
    storage.recount(sql_cast.alice.tenant)
    assert room(8 * MIB, False) == ""
    assert room(11 * MIB, True) != ""


def test_a_look_that_fails_leaves_a_statement_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake may not answer for a moment: the thread that holds the limits went with it."""

    class Spark:
        def cancel(self, tag: str) -> None: ...
        def holds_cores(self, tag: str) -> bool:
            return False

    statement = running.Statement(Spark(), "q1", 0.6)  # type: ignore[arg-type]
    looked = []

    def limit() -> None:
        looked.append(1)
        raise LakeError("the lake does not answer")

    statement.limit = limit
    thread = threading.Thread(target=statement.watch)
    thread.start()
    assert statement._wake.wait(30), "the limit of time holds all the same"
    statement.finished()
    thread.join(30)
    assert looked
    with pytest.raises(QueryTimedOut):
        statement.check()


# --- Results --------------------------------------------------------------------------------------------------------
def result(actor: Actor, size: int, age: timedelta, *, synchronous: bool = False) -> QueryTask:
    """A task of some time ago with a result of that size."""
    task = running_task(actor, "select 1", "information_schema")
    location = f"oss://aliyun-oa-query-results-{actor.tenant.uid}-oss-x/DLA_Result/2026/01/15/{task.pk}/result.csv"
    path = Path(lake_path(location))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * size)
    outcome = lifecycle.Outcome(TaskStatus.SUCCESS, result_file=location, result_bytes=size)
    lifecycle.end(task, outcome)
    created = timezone.now() - age
    QueryTask.objects.filter(pk=task.pk).update(create_time=created, synchronous=synchronous)
    storage.recount(actor.tenant)
    return QueryTask.objects.get(pk=task.pk)


def is_there(task: QueryTask) -> bool:
    return Path(lake_path(task.result_file)).exists()


@pytest.mark.usefixtures("quiet")
def test_new_results_take_the_room_of_the_oldest(sql_cast: Cast, lake: Path) -> None:
    day = timedelta(days=1)
    oldest, old, young = (result(sql_cast.alice, 300_000, age) for age in (5 * day, 3 * day, day / 2))
    theirs = result(sql_cast.charlie, 900_000, 9 * day)
    storage.sweep()
    assert used(sql_cast.alice, "result_bytes") == 900_000
    room = sql_room.room_of(running_task(sql_cast.alice, "select 2"), storage.RESULTS)
    assert room(300_000, True) == ""
    assert [is_there(task) for task in (oldest, old, young, theirs)] == [False, True, True, True]
    assert used(sql_cast.alice, "result_bytes") == 600_000 + 300_000, "what is kept, and what is being written"
    oldest.refresh_from_db()
    gone = LakeError("there is no such file", is_missing=True)
    assert results.why_gone(oldest, gone).startswith("The result was deleted to make room for newer ones")
    assert results.why_gone(old, gone) == "there is no such file"


@pytest.mark.usefixtures("quiet")
def test_a_result_that_somebody_may_still_fetch_is_not_deleted_for_another(sql_cast: Cast, lake: Path) -> None:
    hour = timedelta(hours=1)
    young = result(sql_cast.alice, 500_000, 20 * hour)
    waited = result(sql_cast.alice, 500_000, 2 * hour, synchronous=True)
    room = sql_room.room_of(running_task(sql_cast.alice, "select 2"), storage.RESULTS)
    assert room(300_000, True) == ""
    assert (is_there(young), is_there(waited)) == (True, False), "its client has the rows already"
    told = room(900_000, True)
    assert told.startswith("demo may keep 1 MiB of results, and those of the last 24 hours")
    assert is_there(young)


@pytest.mark.usefixtures("quiet")
def test_a_result_beyond_the_limit_ends_its_statement_while_it_is_written(
    spark: SparkSession, sql_cast: Cast, lake: Path
) -> None:
    task = ended(sql_cast.alice, f"/*+ run_async=true */ {FLOOD}")
    assert (task.status, task.error_condition) == ("FAILURE", "STORAGE_LIMIT")
    assert task.message.startswith("demo may keep 1 MiB of results")
    assert stored(lake) == 0
    assert ended(sql_cast.alice, "select 1 as a").status == "SUCCESS"


@pytest.mark.usefixtures("quiet")
def test_the_pages_show_what_is_stored(sql_cast: Cast, lake: Path) -> None:
    upload(sql_cast.alice, "a", MIB // 2)
    page = signed_in(sql_cast.alice.person).get(reverse("instances.overview_limits"), {"all": "1"}).content.decode()
    assert "Bytes in the lake" in page
    assert "512.0 KiB" in page
