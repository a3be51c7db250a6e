"""INSERT and CREATE TABLE … AS on real Spark: what is in the table afterwards, also when it went wrong on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics import engine, lake
from analytics.errors import QueryCancelled, QueryFailed, QueryRefused
from analytics.lake import Place
from analytics.specs import Column, QueryResult, TableSpec, Target
from analytics.sql import moves, running
from tests.analytics.conftest import result_text, specification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = (Column("a", "int"), Column("b", "string"))
BY_DAY = (Column("a", "int"), Column("b", "string"), Column("day", "date"))
_numbers = iter(range(10_000))


def table(format: str = "parquet", columns: tuple[Column, ...] = COLUMNS, **fields: Any) -> TableSpec:
    """A table of alice with a folder of its own, which is not there yet."""
    name = f"t{next(_numbers)}"
    return TableSpec(name, f"oss://alice-lake/insert/{name}/", format, columns, **fields)


def target(into: TableSpec, **fields: Any) -> Target:
    return Target("demo", into, **fields)


def insert(into: TableSpec, sql: str, tables: tuple[TableSpec, ...] = (), **fields: Any) -> QueryResult:
    spec = specification(sql, {"demo": [into, *tables]}, target=target(into, **fields))
    result = engine.run_query(spec)
    assert result_text(spec) == f"rows\n{result.row_count}\n"
    finished(into, spec.task_id)
    return result


def rows_of(of: TableSpec, what: str = "*") -> list[str]:
    spec = specification(f"select {what} from {of.name} order by 1, 2", {"demo": [of]})
    engine.run_query(spec)
    return result_text(spec).splitlines()[1:]


def files_of(of: TableSpec) -> list[str]:
    """Everything in the table's folder, hidden files too."""
    top = Path(lake.lake_path(of.location))
    return sorted(str(p.relative_to(top)) for p in top.rglob("*") if p.is_file() and not p.name.endswith(".crc"))


def finished(of: TableSpec, task_id: str) -> None:
    """What the console does when a task has ended."""
    engine.forget_write(of.location, task_id)


@pytest.mark.parametrize("format", ["parquet", "orc", "json", "csv"])
def test_rows_are_added_in_every_format(format: str) -> None:
    into = table(format)
    assert insert(into, "values (1, 'x, \"y\"'), (2, null)").row_count == 2
    result = insert(into, "select 3, ''")
    assert (result.row_count, result.columns) == (1, [Column("rows", "bigint")])
    empty = "3," if format == "csv" else '3,""'  # Spark's reader takes an empty text in CSV for a null
    assert rows_of(into) == ['1,"x, ""y"""', "2,", empty]


def test_rows_are_added_to_the_text_files_of_hive() -> None:
    options = {"header": "false", "delimiter": "\x01", "quote": "", "escape": "\\", "nullValue": "\\N"}
    into = table("csv", options=tuple({**options, "multiLine": "false"}.items()))
    insert(into, "values (1, 'x, \"y\"'), (2, null)")
    insert(into, "select 3, 'it''s'")
    assert rows_of(into) == ['1,"x, ""y"""', "2,", "3,it's"]
    assert b'1\x01x, "y"' in b"".join(Path(lake.lake_path(f.location)).read_bytes() for f in lake.files(into.location))


def test_overwriting_leaves_the_new_rows_only() -> None:
    into = table()
    insert(into, "values (1, 'a'), (2, 'b')")
    insert(into, "values (3, 'c')", overwrite=True)
    assert rows_of(into) == ["3,c"]


def test_what_an_overwrite_put_in_place_and_removed_is_known_until_the_task_has_ended() -> None:
    into = table("csv")
    insert(into, "values (1, 'a'), (2, 'b')")
    old = {file.location: file.size for file in lake.files(into.location)}
    spec = specification("values (3, 'c')", {"demo": [into]}, target=target(into, overwrite=True))
    engine.run_query(spec)
    written, removed = engine.files_of_write(into.location, spec.task_id)
    assert {file.location: file.size for file in removed} == old and min(old.values()) > 0
    assert written == lake.files(into.location)
    finished(into, spec.task_id)
    assert engine.files_of_write(into.location, spec.task_id) == ([], [])


def test_a_table_is_overwritten_from_itself() -> None:
    into = table()
    insert(into, "values (1, 'a'), (2, 'b')")
    insert(into, f"select a + 10, b from {into.name} where a > 1", overwrite=True)
    assert rows_of(into) == ["12,b"]


def test_files_that_may_not_be_written_are_not_overwritten() -> None:
    into = table()
    insert(into, "values (1, 'a')")
    kept = {file.location for file in lake.files(into.location)}

    def decide(places: Iterable[Place]) -> None:
        if any(place.location in kept for place in places):
            raise QueryRefused("Denied.")

    with pytest.raises(QueryRefused, match="Denied"):
        insert(into, "values (2, 'b')", overwrite=True, decide=decide)
    assert rows_of(into) == ["1,a"]
    insert(into, "values (2, 'b')", decide=decide)  # which removes nothing
    assert rows_of(into) == ["1,a", "2,b"]


def test_overwriting_with_no_rows_leaves_an_empty_table() -> None:
    into = table()
    insert(into, "values (1, 'a')")
    assert insert(into, "select 1, 'a' where false", overwrite=True).row_count == 0
    assert rows_of(into) == []


def test_rows_find_their_partitions() -> None:
    into = table(columns=BY_DAY, partitions=("day",))
    insert(into, "values (1, 'a', date '2026-01-15'), (2, 'b', date '2026-01-16'), (3, 'c', null)")
    assert {name.partition("/")[0] for name in files_of(into) if not name.startswith("_")} == {
        "day=2026-01-15",
        "day=2026-01-16",
        "day=__HIVE_DEFAULT_PARTITION__",
    }
    insert(into, "select 4, 'd'", partition=(("day", "2026-01-15"),))
    assert rows_of(into) == ["1,a,2026-01-15", "2,b,2026-01-16", "3,c,", "4,d,2026-01-15"]


def test_overwriting_replaces_the_partitions_of_the_rows_only() -> None:
    into = table(columns=BY_DAY, partitions=("day",))
    insert(into, "values (1, 'a', date '2026-01-15'), (2, 'b', date '2026-01-16')")
    insert(into, "values (5, 'e', date '2026-01-16')", overwrite=True)
    assert rows_of(into) == ["1,a,2026-01-15", "5,e,2026-01-16"]
    insert(into, "select 1, 'a' where false", overwrite=True, partition=(("day", "2026-01-15"),))
    assert rows_of(into) == ["5,e,2026-01-16"]


def test_listed_columns_take_the_values_and_others_are_null() -> None:
    into = table(columns=(*COLUMNS, Column("c", "double")))
    insert(into, "values (1.5, 7)", columns=("c", "a"))
    assert rows_of(into) == ["7,,1.5"]


@pytest.mark.parametrize(
    ("columns", "sql", "message"),
    [
        (COLUMNS, "values (1)", "The query gives 1 columns; demo.{table} takes 2: a, b."),
        (COLUMNS, "values ('x', 'y')", "The column a is of the type int, and a string cannot be stored there"),
        (COLUMNS, "values (true, 'y')", "The column a is of the type int, and a boolean cannot be stored there"),
        (COLUMNS, "values (3000000000, 'y')", "A value does not fit into the column `a` of the type int: 3000000000"),
        (
            (Column("a", "decimal(3,1)"), Column("b", "varchar(2)")),
            "values (123.4, 'y')",
            "A value does not fit into the column `a` of the type decimal(3,1): 123.4",
        ),
        (
            (Column("a", "decimal(3,1)"), Column("b", "varchar(2)")),
            "values (1, 'xyz')",
            "A value does not fit into the column `b` of the type varchar(2): xyz",
        ),
    ],
)
def test_what_does_not_fit_fails_and_names_the_column(columns: tuple[Column, ...], sql: str, message: str) -> None:
    into = table(columns=columns)
    with pytest.raises(QueryFailed) as failure:
        insert(into, sql)
    assert message.format(table=into.name) in failure.value.user_message
    assert files_of(into) == []


def test_store_assignment_allows_what_spark_allows(spark: SparkSession) -> None:
    from analytics.sql.insert import can_assign, parsed_type

    jvm: Any = spark._jvm
    rule = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    of = getattr(getattr(jvm.org.apache.spark.sql.types, "DataType$"), "MODULE$")
    plain = "boolean tinyint smallint int bigint float double decimal(10,2) string binary date timestamp timestamp_ntz"
    nested = "array<int> array<string> map<string,int> struct<a:int> struct<a:string,b:int> void"
    names = [*plain.split(), *nested.split()]
    for one in names:
        for other in names:
            if other == "void":
                continue
            expected = rule.canANSIStoreAssign(of.fromDDL(one), of.fromDDL(other))
            assert can_assign(parsed_type(one), parsed_type(other)) == expected, (one, other)


def test_a_new_table_has_the_columns_of_its_query(spark: SparkSession) -> None:
    into = table(columns=())
    result = insert(into, "select 1L as id, array(named_struct('x y', 1)) as s, 'k' as `a b`", create=True)
    assert result.table_columns == (
        Column("id", "bigint"),
        Column("s", "array<struct<`x y`:int>>"),
        Column("a b", "string"),
    )
    made = TableSpec(into.name, into.location, "parquet", result.table_columns)
    assert rows_of(made) == ['1,"[{""x y"":1}]",k']


def test_the_partition_columns_of_a_new_table_are_its_last() -> None:
    into = table("csv", columns=(), partitions=("d",), options=(("delimiter", ";"),))
    result = insert(into, "select 'x' as d, 1 as a union all select 'y:/', 2", create=True)
    assert [column.name for column in result.table_columns] == ["a", "d"]
    made = TableSpec(into.name, into.location, "csv", result.table_columns, ("d",), into.options)
    assert rows_of(made) == ["1,x", "2,y:/"]


@pytest.mark.parametrize(
    ("sql", "partitions", "message"),
    [
        ("select 1 as a, 2 as A", (), "Two columns of the query are named a"),
        ("select null as a", (), "The column a has no type"),
        ("select 1 as a", ("b",), "PARTITIONED BY names b; the query has the columns a."),
        ("select 1 as a", ("a",), "A table needs a column that it is not partitioned by."),
    ],
)
def test_a_table_that_cannot_be_is_not_made(sql: str, partitions: tuple[str, ...], message: str) -> None:
    into = table(columns=(), partitions=partitions)
    with pytest.raises(QueryFailed, match=message.replace("(", r"\(")):
        insert(into, sql, create=True)


def test_a_new_table_needs_an_empty_folder() -> None:
    into = table()
    insert(into, "values (1, 'a')")
    with pytest.raises(QueryFailed, match="There are files at oss://alice-lake/insert/"):
        insert(into, "select 1 as a", create=True)


def test_a_failed_statement_leaves_nothing_behind() -> None:
    into = table()
    with pytest.raises(QueryFailed, match=r"Division by zero"):
        insert(into, "select cast(1 / (id - 5) as int), 'x' from range(10)")
    assert files_of(into) == []


def test_a_cancelled_statement_leaves_nothing_behind() -> None:
    into = table()
    # A task looks whether it is to end after a thousand rows of the one side times all of the other.
    sql = "select cast(max(a.id * b.id % 7) as int), 'x' from range(1000000000) a cross join range(10000) b"
    spec = specification(sql, {"demo": [into]}, target=target(into))
    threading.Timer(1.5, lambda: engine.cancel(spec.task_id)).start()
    with pytest.raises(QueryCancelled):
        engine.run_query(spec)
    assert files_of(into) == []


def test_the_query_of_a_write_is_guarded_like_any_other() -> None:
    into = table()
    with pytest.raises(QueryRefused, match="no schema secret"):
        insert(into, "select salary, 'x' from secret.salaries")
    assert files_of(into) == []


def test_two_statements_at_once_lose_nothing() -> None:
    into = table()
    failures: list[BaseException] = []

    def add(number: int) -> None:
        try:
            insert(into, f"select cast(id as int), 'w{number}' from range(100)", turn=_one_at_a_time)
        except BaseException as error:  # noqa: BLE001  the test shows it
            failures.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert rows_of(into, "count(*), count(distinct b)") == ["400,4"]


_turn = threading.Lock()


@contextmanager
def _one_at_a_time() -> Iterator[Mapping[str, bool]]:
    with _turn:
        yield {}


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


@pytest.fixture
def dies_between_moves(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the process die at the move of that number, once."""

    def arrange(at: int) -> None:
        def move_all(pairs: Iterable[tuple[str, str]]) -> None:
            for number, (source, destination) in enumerate(pairs):
                if number == at and not died:
                    died.append(True)
                    raise Killed
                lake.move(source, destination)

        died: list[bool] = []
        monkeypatch.setattr(lake, "move_all", move_all)

    return arrange


def test_a_statement_run_again_after_it_died_between_the_moves_writes_once(
    dies_between_moves: Callable[[int], None],
) -> None:
    into = table(columns=BY_DAY, partitions=("day",))
    insert(into, "values (9, 'old', date '2026-01-01')")
    sql = "select cast(id as int), 'x', date_add(date '2026-01-01', cast(id as int)) from range(5)"
    spec = specification(sql, {"demo": [into]}, target=target(into, overwrite=True))
    dies_between_moves(2)
    with pytest.raises(Killed):
        engine.run_query(spec)
    running._running.pop(spec.task_id, None)
    assert "9,old,2026-01-01" in rows_of(into)
    assert engine.run_query(spec).row_count == 5
    assert engine.run_query(spec).row_count == 5
    finished(into, spec.task_id)
    assert rows_of(into, "count(*), max(b)") == ["5,x"]
    assert len(files_of(into)) == 5
    assert all(Path(name).name.startswith(spec.task_id) for name in files_of(into))


def test_the_next_statement_finishes_what_a_dead_one_began(dies_between_moves: Callable[[int], None]) -> None:
    into = table(columns=BY_DAY, partitions=("day",))
    sql = "select cast(id as int), 'x', date_add(date '2026-01-01', cast(id as int)) from range(5)"
    spec = specification(sql, {"demo": [into]}, target=target(into))
    dies_between_moves(2)
    with pytest.raises(Killed):
        engine.run_query(spec)

    @contextmanager
    def turn() -> Iterator[Mapping[str, bool]]:
        yield {spec.task_id: True}

    insert(into, "values (7, 'y', date '2026-01-15')", overwrite=True, turn=turn)
    assert rows_of(into, "count(*), count(distinct b)") == ["6,2"]
    assert not [name for name in files_of(into) if spec.task_id in name and name.startswith("_")]


def test_what_a_dead_statement_left_before_its_moves_is_swept_by_the_next() -> None:
    into = table()
    left = moves.staging(into.location, "q-dead") + "x/part-0.parquet"
    Path(lake.lake_path(left)).parent.mkdir(parents=True)
    Path(lake.lake_path(left)).write_bytes(b"half a file")

    @contextmanager
    def turn() -> Iterator[Mapping[str, bool]]:
        yield {"q-dead": True}

    insert(into, "values (1, 'a')", turn=turn)
    assert rows_of(into) == ["1,a"]
    assert not [name for name in files_of(into) if "q-dead" in name]


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOST_FILES", 3)
    into = table(columns=BY_DAY, partitions=("day",))
    with pytest.raises(QueryFailed, match="would write 5 files"):
        insert(into, "select 1, 'x', date_add(date '2026-01-01', cast(id as int)) from range(5)")
    assert files_of(into) == []
