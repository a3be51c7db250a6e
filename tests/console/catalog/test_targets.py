"""Where INSERT and CREATE TABLE … AS write: the text, the rights, the names; then the whole way on real Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from analytics import engine
from analytics.errors import QueryCancelled, QueryRefused
from analytics.lake import files, open_result
from console import statements
from console.accounts.actor import Actor
from console.audit.models import Entry
from console.catalog import targets
from console.catalog.models import Bucket, BucketChange, BucketRule, ExternalTable, Schema
from console.outbox.models import Notification
from console.sql import lifecycle, services, specs, worker, writes
from console.sql.models import QueryTask, TaskStatus
from console.statements import read, write
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

BOTH = "select 'UA' as carrier, 1 as hour"


@pytest.fixture
def lake(cast: Cast) -> str:
    """A bucket of the tenant, in which the tables of schema `demo` lie; another tenant has one too."""
    name = f"demo-{uuid.uuid4().hex[:12]}"
    Bucket.objects.create(tenant=cast.alice.tenant, name=name)
    Bucket.objects.create(tenant=cast.charlie.tenant, name=f"other-{name}")
    schema = Schema.objects.get(tenant=cast.alice.tenant, name="demo")
    Schema.objects.filter(pk=schema.pk).update(location=f"oss://{name}/demo/")
    for table in schema.tables.all():
        ExternalTable.objects.filter(pk=table.pk).update(location=f"oss://{name}/demo/{table.name}/")
    return name


def parsed(text: str) -> write.TargetStatement:
    found = write.parse(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("insert into t select 1", write.Insert(None, "t", "select 1")),
        ("INSERT OVERWRITE TABLE s.t VALUES (1)", write.Insert("s", "t", "VALUES (1)", overwrite=True)),
        ("insert into `a b`.`c``d` (select 1)", write.Insert("a b", "c`d", "(select 1)")),
        ("insert into t (a, `b c`) with x as (select 1) table x",
         write.Insert(None, "t", "with x as (select 1) table x", columns=("a", "b c"))),
        ("insert into t partition (d = '2026-01-15', h) select 1",
         write.Insert(None, "t", "select 1", partition=(("d", "2026-01-15"), ("h", None)))),
        ("insert /* into x */ into -- y\n t select 1", write.Insert(None, "t", "select 1")),
        ("create table t as select 1", write.CreateTableAs(None, "t", "select 1")),
        ("create external table if not exists s.t stored as orc partitioned by (d) location 'oss://b/c/'"
         " comment 'it''s' options (compression = 'zlib') as (select 1)",
         write.CreateTableAs("s", "t", "(select 1)", True, "orc", ("d",), "oss://b/c/",
                               {"compression": "zlib"}, {}, "it's")),
        ("create table t using csv tblproperties ('skip.header.line.count' = 1) as values (1)",
         write.CreateTableAs(None, "t", "values (1)", False, "csv", properties={"skip.header.line.count": "1"})),
    ],
)  # fmt: skip
def test_the_head_of_a_statement_is_read(text: str, expected: write.TargetStatement) -> None:
    assert write.parse(text) == expected
    assert statements.parse(text) == expected


@pytest.mark.parametrize("text", ["select 1", "create table t (a int)", "create view v as select 1", "", "insertx"])
def test_other_statements_are_none_of_these(text: str) -> None:
    assert write.parse(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("insert t select 1", "INSERT is written INSERT INTO … or INSERT OVERWRITE …."),
        ("insert into t", "INSERT must continue with SELECT, WITH, VALUES, FROM or TABLE, not with 'the end'."),
        (
            "insert into t delete from t",
            "INSERT must continue with SELECT, WITH, VALUES, FROM or TABLE, not with 'delete'.",
        ),
        ("insert overwrite local directory '/x' select 1", "INSERT OVERWRITE DIRECTORY is not allowed"),
        ("insert overwrite directory '/x' select 1", "INSERT OVERWRITE DIRECTORY is not allowed"),
        ("insert into a.b.c select 1", "A.b.… has too many parts: a table is named schema.table."),
        ("insert into t partition (d = ?) select 1", "must be a text in quotes or a number"),
        ("insert into t by name select 1", "BY NAME is not supported here"),
        ("create external table t as select 1", "CREATE EXTERNAL TABLE … AS needs LOCATION"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(Refused) as refusal:
        write.parse(text)
    assert message.lower() in refusal.value.message.lower()


def test_a_head_of_any_size_is_read_in_linear_time() -> None:
    for text in (
        "insert into t (" + "a," * 500_000,
        "insert " + "/*" * 500_000,
        "create table t" + " -- x\n" * 300_000,
    ):
        try:
            assert write.parse(text) is None
        except Refused as refused:
            assert len(refused.message) < 200


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("insert into nosuch select 1", "TABLE_NOT_FOUND"),
        ("insert into secret.t select 1", "SCHEMA_NOT_FOUND"),
        ("insert into mq.t select 1", "SCHEMA_READ_ONLY"),
        ("insert into flights (nosuch) select 1", "COLUMN_NOT_FOUND"),
        ("insert into flights (hour, HOUR) select 1, 2", "COLUMN_TWICE"),
        ("insert into flights partition (carrier = 'UA') select 1", "COLUMN_NOT_FOUND"),
        ("create table flights as select 1", "TABLE_EXISTS"),
        ("create table `../x` as select 1", "NAME_INVALID"),
        ("create table t location 'oss://other-{lake}/x/' as select 1", "BUCKET_NOT_FOUND"),
        ("create table t location 'oss://{lake}/../other-{lake}/x/' as select 1", "LOCATION_INVALID"),
        ("create table t location 'oss://{lake}/' as select 1", "LOCATION_INVALID"),
        ("create table t location 'file:///etc/' as select 1", "LOCATION_INVALID"),
        ("create table t location 's3a://{lake}/x/' as select 1", "LOCATION_INVALID"),
        ("create table t location 'oss://aliyun-oa-query-results-1-oss-x/y/' as select 1", "BUCKET_READ_ONLY"),
        ("create table t location 'oss://gantry-archive-1/y/' as select 1", "BUCKET_READ_ONLY"),
        ("create table t using csv options (path = '/etc') as select 1", "SYNTAX_ERROR"),
    ],
)
def test_places_that_are_not_the_tenants_are_refused(cast: Cast, lake: str, text: str, symbol: str) -> None:
    with pytest.raises(Refused) as refusal:
        targets.prepare(cast.alice, parsed(text.format(lake=lake)), "demo")
    assert refusal.value.symbol == symbol
    assert len(refusal.value.message) > 20


def policy(*actions: str) -> dict[str, object]:
    return {"Version": "1", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}


@pytest.mark.parametrize(
    ("text", "action"),
    [("insert into flights select 1", "dla:InsertTable"), ("create table t as select 1 as a", "dla:CreateTable")],
)
def test_both_rights_are_needed(cast: Cast, lake: str, text: str, action: str) -> None:
    for given in ((), (action,), ("dla:WriteBucket",), ("dla:SubmitQuery", "dla:ReadBucket")):
        actor = allow(cast.bob.person, policy(*given)) if given else Actor(cast.bob.person)
        with pytest.raises(PermissionDenied):
            targets.prepare(actor, parsed(text), "demo")
        cast.bob.person.policies.clear()
    actor = allow(cast.bob.person, policy(action, "dla:WriteBucket"))
    assert targets.prepare(actor, parsed(text), "demo")["schema"] == "demo"


def submitted(actor: Actor, text: str) -> QueryTask:
    return services.submit(actor, read(text), "demo")


@pytest.mark.usefixtures("handed_over")
def test_of_two_that_make_one_table_the_second_is_told(cast: Cast, lake: str) -> None:
    first = submitted(cast.alice, f"create table made as {BOTH}")
    for text in (f"create table MADE as {BOTH}", f"create table x location 'oss://{lake}/demo/made/' as {BOTH}"):
        with pytest.raises(Refused, match=f"is being made by the task {first.pk}"):
            submitted(cast.alice, text)


@pytest.mark.usefixtures("handed_over")
def test_rights_are_looked_at_again_when_it_runs(cast: Cast, lake: str) -> None:
    actor = allow(cast.bob.person, policy("dla:*"))
    task = submitted(actor, f"insert into flights {BOTH}")
    cast.bob.person.policies.clear()
    task = QueryTask.objects.get(pk=task.pk)
    with pytest.raises(QueryRefused, match="dla:InsertTable"):
        writes.target_of(task, specs.author_of(task))


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """Real Spark for the tests that run their statements."""
    yield
    engine.stop()


def ended(actor: Actor, text: str) -> QueryTask:
    """Submit a statement and do what a worker does with it."""
    task = lifecycle.claim(submitted(actor, text).pk, "worker-1")
    assert task is not None
    lifecycle.end(task, worker.outcome_of(task))
    return QueryTask.objects.get(pk=task.pk)


def rows_of(task: QueryTask) -> list[str]:
    assert task.status == TaskStatus.SUCCESS, task.message
    with open_result(task.result_file) as file:
        return file.read().decode().splitlines()[1:]


@pytest.mark.usefixtures("handed_over", "spark")
def test_rows_are_inserted_and_a_table_is_made(cast: Cast, lake: str, django_capture_on_commit_callbacks: Any) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        task = ended(cast.alice, f"/*+ run_async=true */ insert into flights {BOTH} union all select 'B6', 2")
    assert (task.task_name, task.status, task.row_count) == ("INSERT", "SUCCESS", 2)
    assert rows_of(task) == ["2"]
    made = ended(cast.alice, "create table late comment 'of us' as select carrier, hour + 1 as next from flights")
    assert (made.task_name, made.row_count) == ("CREATE_TABLE_AS_SELECT", 2)
    table = ExternalTable.objects.get(schema__tenant=cast.alice.tenant, name="late")
    assert (table.location, table.format, table.managed, table.comment) == (
        f"oss://{lake}/demo/late/", "parquet", True, "of us",
    )  # fmt: skip
    assert table.columns == [{"name": "carrier", "type": "string"}, {"name": "next", "type": "int"}]
    assert rows_of(ended(cast.alice, "select * from late order by 1")) == ["B6,3", "UA,2"]
    again = ended(cast.alice, f"create table if not exists late as {BOTH}")
    assert rows_of(again) == ["0"]
    recorded = Entry.objects.filter(action__startswith="sql.table.").values_list("action", flat=True)
    assert sorted(recorded) == ["sql.table.create", "sql.table.insert"]


@pytest.mark.usefixtures("handed_over", "spark", "kicked")
def test_a_rule_of_the_bucket_hears_of_the_files_that_statements_write_and_replace(
    cast: Cast, lake: str, django_capture_on_commit_callbacks: Any
) -> None:
    bucket = Bucket.objects.get(name=lake)
    events = ["ObjectCreated:*", "ObjectRemoved:*"]
    BucketRule.objects.create(bucket=bucket, name="all", events=events, prefix="demo/", queue="q")

    def told(text: str) -> list[tuple[str, str, int]]:
        Notification.objects.all().delete()
        with django_capture_on_commit_callbacks(execute=True):
            task = ended(cast.alice, text)
        assert task.status == TaskStatus.SUCCESS, task.message
        found = [json.loads(body)["events"][0] for body in Notification.objects.values_list("body", flat=True)]
        assert all(event["responseElements"]["requestId"] == task.pk for event in found)
        assert not BucketChange.objects.exists()
        return sorted((e["eventName"], e["oss"]["object"]["key"], e["oss"]["object"]["size"]) for e in found)

    def there(table: str) -> list[tuple[str, str, int]]:
        found = files(f"oss://{lake}/demo/{table}/")
        return [("ObjectCreated:PutObject", f.location.removeprefix(f"oss://{lake}/"), f.size) for f in found]

    assert told(f"insert into flights {BOTH}") == there("flights") != []
    old = there("flights")
    replaced = told(f"insert overwrite flights {BOTH}")
    removed = [("ObjectRemoved:DeleteObjects", key, 0) for _, key, _ in old]
    assert replaced == sorted(there("flights") + removed)
    assert told(f"create table heard as {BOTH}") == there("heard") != []
    assert told("select * from heard") == []


@pytest.mark.usefixtures("handed_over", "spark")
def test_a_table_made_by_somebody_else_meanwhile_fails_the_task_and_leaves_no_file(
    cast: Cast, lake: str, django_capture_on_commit_callbacks: Any
) -> None:
    task = lifecycle.claim(submitted(cast.alice, f"create table late as {BOTH}").pk, "worker-1")
    assert task is not None
    outcome = worker.outcome_of(task)
    schema = Schema.objects.get(tenant=cast.alice.tenant, name="demo")
    ExternalTable.objects.create(schema=schema, name="late", location=f"oss://{lake}/else/", columns=[])
    assert files(f"oss://{lake}/demo/late/")
    with django_capture_on_commit_callbacks(execute=True):
        lifecycle.end(task, outcome)
    task.refresh_from_db()
    assert files(f"oss://{lake}/demo/late/") == []
    assert (task.status, task.message) == ("FAILURE", "The table demo.late was made by somebody else meanwhile.")


@pytest.mark.usefixtures("handed_over", "spark")
def test_a_worker_that_has_lost_the_task_writes_nothing(cast: Cast, lake: str) -> None:
    task = lifecycle.claim(submitted(cast.alice, f"insert into flights {BOTH}").pk, "worker-1")
    assert task is not None
    lifecycle.release(task)
    assert lifecycle.claim(task.pk, "worker-2") is not None
    with pytest.raises(QueryCancelled, match="given to another worker"):
        worker.outcome_of(task)
    assert files(f"oss://{lake}/demo/flights/") == []


#: Conditions under which the guard refuses: what may not be named is what is not there.
OF_THE_GUARD = {"QUERY_REFUSED", "SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"}


@pytest.mark.usefixtures("handed_over", "spark")
@pytest.mark.parametrize(
    "text",
    [
        "select * from text.`/etc/passwd`",
        "select reflect('java.lang.System', 'exit', '1')",
        "insert into flights select value, 1 from text.`/etc/passwd`",
        "create table t as select reflect('java.lang.System', 'getenv', 'HOME') as a",
        "insert into flights select * from secret.salaries",
        "with x as (select 1) insert into flights select * from x",
        "select transform(carrier) using 'touch /tmp/x' from flights",
        "add jar '/tmp/a.jar'",
        "set spark.sql.runSQLOnFiles = true",
        "select 1; drop table flights",
        "explain select * from csv.`/etc/passwd`",
        "merge into flights using airlines on true when matched then delete",
    ],
)
def test_hostile_statements_are_refused_on_every_way_in(cast: Cast, lake: str, text: str) -> None:
    """The MySQL endpoint, the editor and the JSON API all call `services.submit`, and every worker `execution`."""
    try:
        task = ended(cast.alice, text)
    except Refused as refused:
        assert len(refused.message) > 10
        return
    assert task.status == "FAILURE", task.message
    assert task.error_condition in {*OF_THE_GUARD, "PARSE_SYNTAX_ERROR"}
    assert task.result_file == ""
    if task.error_condition in OF_THE_GUARD:
        assert Entry.objects.filter(action="sql.query.run", result="refused").exists()
