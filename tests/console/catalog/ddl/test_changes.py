"""Definitions carried out: rows, files, rights, and the trail."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied

from console import statements
from console.accounts.actor import Actor
from console.audit.models import Entry
from console.catalog.describe import Answer
from console.catalog.models import ExternalTable, Schema
from console.outbox.models import Notification
from console.sql import answers, services
from console.sql.models import TaskStatus
from console.statements import read
from console.web.errors import Refused
from tests.console.catalog.ddl.conftest import put
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db


def run(actor: Actor, text: str, schema: str = "demo") -> Answer:
    """Carry a statement out."""
    answer = answers.answer(actor, statements.parse(text), schema)
    assert answer is not None
    return answer


def refused(actor: Actor, text: str, schema: str = "demo") -> tuple[str, str]:
    """Symbol and sentence of a refusal."""
    with pytest.raises(Refused) as found:
        run(actor, text, schema)
    return found.value.symbol, found.value.message


def test_a_schema_is_made_filled_and_dropped(cast: Cast, lake: Path) -> None:
    alice = cast.alice
    assert run(alice, "create schema Sales comment 'all' location 'oss://demo-lake/sales'").affected == 1
    sales = Schema.objects.get(name="Sales")
    assert (sales.tenant, sales.location, sales.comment) == (alice.tenant, "oss://demo-lake/sales/", "all")
    assert refused(alice, "create database sales")[0] == "SCHEMA_EXISTS"
    assert run(alice, "create schema if not exists sales").affected == 0
    run(alice, "create table sales.orders (id bigint, day date) partitioned by (day)")
    assert refused(alice, "drop schema sales") == (
        "SCHEMA_NOT_EMPTY",
        "The schema Sales has 1 table: drop them first, or add `cascade`.",
    )
    assert run(alice, "drop schema sales cascade").affected == 2
    assert not Schema.objects.filter(name="Sales").exists()
    assert run(alice, "drop schema if exists sales").affected == 0
    assert refused(alice, "drop schema sales")[0] == "SCHEMA_NOT_FOUND"
    actions = list(Entry.objects.filter(action__startswith="sql.").order_by("pk").values_list("action", flat=True))
    assert actions == ["sql.schema.create", "sql.table.create", "sql.table.drop", "sql.schema.drop"]


@pytest.mark.parametrize("name", ["mq", "gantry", "information_schema", "Default"])
def test_reserved_names_are_refused(cast: Cast, lake: Path, name: str) -> None:
    assert refused(cast.alice, f"create schema {name}")[0] == "NAME_RESERVED"
    assert refused(cast.alice, f"create table {name}.t (a int)")[0] == "SCHEMA_READ_ONLY"
    assert refused(cast.alice, f"drop table if exists {name}.t")[0] == "SCHEMA_READ_ONLY"


def test_an_external_table_leaves_its_files_and_a_managed_one_takes_them(
    cast: Cast, lake: Path, django_capture_on_commit_callbacks: object
) -> None:
    put(lake, "demo-lake/in/a.csv")
    run(cast.alice, "create external table t (id int, day date) stored as csv location 'oss://demo-lake/in/'")
    table = ExternalTable.objects.get(name="t")
    assert (table.managed, table.location, table.format) == (False, "oss://demo-lake/in/", "csv")
    run(cast.alice, "drop table t")
    assert (lake / "demo-lake/in/a.csv").exists()

    run(cast.alice, "create table m (id int)")
    assert ExternalTable.objects.get(name="m").location == "oss://demo-lake/demo/m/"
    put(lake, "demo-lake/demo/m/part-0.parquet")
    put(lake, "demo-lake/demo/m2/part-0.parquet")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        run(cast.alice, "drop table demo.m")
    assert not (lake / "demo-lake/demo/m").exists()
    assert (lake / "demo-lake/demo/m2/part-0.parquet").exists()
    assert refused(cast.alice, "create table m2 (id int)")[0] == "LOCATION_NOT_EMPTY"


def test_no_table_takes_the_files_of_another_along(cast: Cast, lake: Path) -> None:
    run(cast.alice, "create table m (id int)")
    run(cast.alice, "create external table over (id int) location 'oss://demo-lake/demo/m/deep/'")
    assert refused(cast.alice, "drop table m") == (
        "LOCATION_IN_USE",
        "The table demo.over uses the files of m, which would be deleted with it: drop demo.over first.",
    )
    run(cast.alice, "create schema inner location 'oss://demo-lake/demo/m/'")
    assert refused(cast.alice, "create table inner.n (id int)")[0] == "LOCATION_IN_USE"
    run(cast.alice, "drop table over")
    run(cast.alice, "drop table m")


def test_a_table_without_columns_takes_those_of_the_files(cast: Cast, lake: Path) -> None:
    put(lake, "demo-lake/logs/day=2026-01-15/a.json", '{"id": 1, "tags": ["x"], "who": {"name": "y"}}\n')
    run(cast.alice, "create external table logs using json location 'oss://demo-lake/logs'")
    table = ExternalTable.objects.get(name="logs")
    assert [(c["name"], c["type"]) for c in table.columns] == [
        ("id", "bigint"),
        ("tags", "array<string>"),
        ("who", "struct<name:string>"),
        ("day", "date"),
    ]
    assert table.partitions == ["day"]
    assert run(cast.alice, "msck repair table logs").affected == 1
    assert run(cast.alice, "show partitions logs").rows == [("day=2026-01-15",)]
    assert run(cast.alice, "select partition_name, partition_description from information_schema.partitions"
               " where table_name = 'logs'").rows == [("day=2026-01-15", "2026-01-15")]  # fmt: skip
    assert refused(cast.alice, "create external table e using json location 'oss://demo-lake/none/'")[0] == (
        "COLUMNS_UNKNOWN"
    )


@pytest.mark.parametrize(
    ("location", "symbol"),
    [
        ("oss://other-lake/secret/", "BUCKET_NOT_FOUND"),
        ("oss://no-such-bucket/x/", "BUCKET_NOT_FOUND"),
        ("oss://demo-lake/", "LOCATION_INVALID"),
        ("oss://demo-lake/../other-lake/x/", "LOCATION_INVALID"),
        ("file:///etc/", "LOCATION_INVALID"),
        ("s3a://demo-lake/x/", "LOCATION_INVALID"),
        ("/etc/passwd", "LOCATION_INVALID"),
        ("oss://demo-lake/" + "x" * 600, "LOCATION_INVALID"),
    ],
)
def test_tables_lie_in_buckets_of_the_tenant_only(cast: Cast, lake: Path, location: str, symbol: str) -> None:
    for text in (
        f"create external table t (a int) location '{location}'",
        f"create table t (a int) using csv options (path '{location}')",
        f"create schema s location '{location}'",
        f"alter table flights set location '{location}'",
    ):
        assert refused(cast.alice, text)[0] == symbol, text
    assert not ExternalTable.objects.filter(name="t").exists()


def test_tables_are_altered(cast: Cast, lake: Path) -> None:
    alice = cast.alice
    run(alice, "create external table t (id int, day date) stored as csv partitioned by (day) location 'oss://demo-lake/t'"
        .replace("stored as csv partitioned by (day)", "using csv partitioned by (day)"))  # fmt: skip
    run(alice, "alter table t add columns (note string comment 'why')")
    table = ExternalTable.objects.get(name="t")
    assert [c["name"] for c in table.columns] == ["id", "note", "day"]
    assert refused(alice, "alter table t add columns (ID int)")[0] == "COLUMN_TWICE"
    assert refused(alice, "alter table t add columns (a array<int>)")[0] == "TYPE_NOT_OFFERED"
    run(alice, "alter table t add if not exists partition (day = '2026-01-15')")
    assert refused(alice, "alter table t add partition (id = 1)")[0] == "COLUMN_NOT_FOUND"
    assert refused(alice, "alter table t add partition (day = 'x') location 'oss://demo-lake/u/'")[0] == (
        "LOCATION_INVALID"
    )
    run(alice, "alter table t set tblproperties ('skip.header.line.count' = '0', 'comment' = 'new', delimiter = '|')")
    run(alice, "alter table t set location 'oss://demo-lake/u/'")
    run(alice, "alter table t rename to u")
    table.refresh_from_db()
    assert (table.name, table.location, table.comment) == ("u", "oss://demo-lake/u/", "new")
    assert table.options == {"header": "false", "delimiter": "|"}
    assert refused(alice, "alter table u rename to flights")[0] == "TABLE_EXISTS"
    assert refused(alice, "truncate table u")[0] == "STATEMENT_NOT_OFFERED"
    run(alice, "create table copy like u")
    copy = ExternalTable.objects.get(name="copy")
    assert (copy.managed, copy.location, copy.columns) == (True, "oss://demo-lake/demo/copy/", table.columns)
    put(lake, "demo-lake/demo/copy/part-0.csv")
    run(alice, "truncate table copy")
    assert not list((lake / "demo-lake/demo").glob("copy/*"))


def test_every_definition_asks_for_its_right(cast: Cast, lake: Path) -> None:
    run(cast.alice, "create external table t (a int) location 'oss://demo-lake/t/'")
    run(cast.alice, "create table m (a int)")
    needs = {
        "create schema s": {"dla:CreateSchema"},
        "create schema s location 'oss://demo-lake/s/'": {"dla:CreateSchema", "dla:ReadBucket"},
        "create external table n (a int) location 'oss://demo-lake/n/'": {"dla:CreateTable", "dla:ReadBucket"},
        "create table n (a int)": {"dla:CreateTable", "dla:WriteBucket"},
        "create table n like t": {"dla:CreateTable", "dla:WriteBucket", "dla:SubmitQuery"},
        "alter table t rename to n": {"dla:AlterTable", "dla:CreateTable"},
        "alter table t set location 'oss://demo-lake/u/'": {"dla:AlterTable", "dla:ReadBucket"},
        "msck repair table t": {"dla:AlterTable", "dla:ReadBucket"},
        "truncate table m": {"dla:AlterTable", "dla:WriteBucket"},
        "drop table m": {"dla:DropTable", "dla:WriteBucket"},
        "drop schema demo cascade": {"dla:DropSchema", "dla:DropTable", "dla:WriteBucket"},
    }
    for text, actions in needs.items():
        for missing in actions:
            cast.bob.person.policies.clear()
            given = [action for action in actions if action != missing]
            bob = allow(cast.bob.person, _allowing(given)) if given else cast.bob
            with pytest.raises(PermissionDenied, match=missing):
                run(bob, text)
    cast.bob.person.policies.clear()
    bob = allow(cast.bob.person, _allowing(sorted(needs["create table n (a int)"])))
    assert run(bob, "create table n (a int)").affected == 1
    with pytest.raises(Refused, match="There is no schema 'secret'"):
        run(cast.alice, "drop schema secret")


def _allowing(actions: list[str]) -> dict[str, object]:
    return {"Version": "1", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}


def test_a_definition_with_the_hint_is_a_task_that_has_ended(
    cast: Cast, lake: Path, handed_over: list[str], kicked: list[int]
) -> None:
    hint = "/*+ run_async=true, mq-notify-by=ons, mq-topic=t, mq-producer-id=GID_p, mq-endpoint=http://MQ_INST_1 */"
    task = services.submit(cast.alice, read(f"{hint} create schema sales"), "")
    task.refresh_from_db()
    assert (task.status, task.task_name, task.row_count) == (TaskStatus.SUCCESS, "CREATE_SCHEMA", 1)
    again = services.submit(cast.alice, read(f"{hint} create schema sales"), "demo")
    again.refresh_from_db()
    assert (again.status, again.message) == (TaskStatus.FAILURE, "The schema sales already exists.")
    assert {n.tag for n in Notification.objects.all()} == {"SUCCESS", "FAILURE"}
    assert handed_over == []
    with pytest.raises(PermissionDenied):
        services.submit(cast.bob, read(f"{hint} create schema sales"), "demo")
