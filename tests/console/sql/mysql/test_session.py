"""What statements are answered with, over a real socket, for real accounts."""

from __future__ import annotations

from collections.abc import Callable

import pymysql
import pytest
from pytest_django import Settings

from analytics import errors
from console.accounts import services as accounts
from console.accounts.models import AccessKey
from console.sql import queries
from console.sql.models import QueryTask, TaskStatus
from tests.console.sql.mysql.conftest import PASSWORD, Engine, connect, rows
from tests.support.broker import eventually
from tests.support.roles import role_key
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)


def code(call: Callable[[], object]) -> int:
    with pytest.raises(pymysql.err.MySQLError) as error:
        call()
    return int(error.value.args[0])


# --- Who


def test_a_database_account_signs_in(endpoint: int) -> None:
    with connect(endpoint) as connection:
        assert rows(connection, "select database()") == [("demo",)]


def test_an_access_key_pair_signs_in(endpoint: int, cast: Cast) -> None:
    with connect(endpoint, cast.key.access_key_id, cast.key.access_key_secret) as connection:
        assert rows(connection, "show tables") == [("airlines",), ("flights",)]


def test_wrong_disabled_and_foreign_credentials_are_refused(endpoint: int, cast: Cast) -> None:
    key = cast.key
    assert code(lambda: connect(endpoint, password="wrong")) == 1045
    assert code(lambda: connect(endpoint, key.access_key_id, PASSWORD)) == 1045
    assert code(lambda: connect(endpoint, "nobody")) == 1045
    assert code(lambda: connect(endpoint, database="secret")) == 1049
    AccessKey.objects.update(enabled=False)
    assert code(lambda: connect(endpoint, key.access_key_id, key.access_key_secret)) == 1045


def test_a_key_that_is_disabled_later_answers_nothing_more(endpoint: int, cast: Cast) -> None:
    with connect(endpoint, cast.key.access_key_id, cast.key.access_key_secret) as connection:
        AccessKey.objects.update(enabled=False)
        assert code(lambda: rows(connection, "show tables")) == 1045


def test_a_temporary_key_of_a_role_is_no_account(endpoint: int, cast: Cast) -> None:
    drawn = role_key(cast.alice)
    assert code(lambda: connect(endpoint, drawn.access_key_id, drawn.access_key_secret)) == 1045


# --- What


def test_an_asynchronous_statement_answers_with_its_id(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as connection, connection.cursor() as cursor:
        cursor.execute("/*+ run_async=true */ select * from flights")
        task_id = cursor.fetchone()[0]
        assert [column[0] for column in cursor.description] == ["ASYNC_TASK_ID"]
        task = QueryTask.objects.get()
        assert (task.pk, task.command) == (task_id, "/*+ run_async=true */ select * from flights")
        assert len(str(task.connection_id)) == 14
        cursor.execute(f"show query_task where id='{task_id}'")
        assert tuple(column[0] for column in cursor.description) == queries.COLUMNS
        row = dict(zip(queries.COLUMNS, cursor.fetchone(), strict=True))
        assert (row["status"], row["row_count"], row["mq_status"]) == ("RUNNING", 0, None)


def test_an_unknown_or_foreign_task_is_an_empty_result(endpoint: int, cast: Cast, handed_over: list[str]) -> None:
    with connect(endpoint) as connection:
        assert rows(connection, "show query_task where id='q1'") == []
        rows(connection, "/*+ run_async=true */ select 1")
    accounts.set_database_password(user=allow(cast.bob.person).person, name="bob", password=PASSWORD)
    with connect(endpoint, "bob") as connection:
        task_id = QueryTask.objects.get().pk
        assert rows(connection, f"show query_task where id='{task_id}'") == []
        assert code(lambda: rows(connection, f"cancel query_task where id='{task_id}'")) == 1105


def test_a_task_is_cancelled(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as connection:
        ((task_id,),) = rows(connection, "/*+ run_async=true */ select 1")
        rows(connection, f"cancel query_task where id='{task_id}'")
        assert QueryTask.objects.get().status == TaskStatus.CANCELLED
        assert len(rows(connection, "show query_task")) == 1


def test_a_synchronous_statement_answers_with_its_rows(endpoint: int, spark: Engine) -> None:
    import datetime

    with connect(endpoint) as connection:
        assert rows(connection, "select carrier, n, day from flights") == [
            ("UA", 58665, datetime.date(2013, 1, 1)),
            (None, None, None),
        ]
    assert QueryTask.objects.get().synchronous
    assert (spark.specs[0].max_result_rows, spark.specs[0].time_limit_s) == (100_000, 60.0)


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (errors.QueryFailed("No table x.", "TABLE_OR_VIEW_NOT_FOUND"), 1146, "No table x."),
        (errors.QueryFailed("No column x.", "UNRESOLVED_COLUMN.WITH_SUGGESTION"), 1054, "No column x."),
        (errors.QueryFailed("Syntax.", "PARSE_SYNTAX_ERROR"), 1064, "Syntax."),
        (errors.QueryRefused("Not allowed."), 1142, "Not allowed."),
        (errors.QueryTimedOut("Too long."), 3024, "--comments"),
        (errors.QueryFailed("More than 10,000 rows; run it asynchronously."), 1105, "--comments"),
        (errors.QueryCancelled("x"), 1317, "Cancelled"),
    ],
)
def test_failures_have_mysqls_codes(endpoint: int, spark: Engine, error: Exception, expected: int, text: str) -> None:
    spark.error = error
    with connect(endpoint) as connection, pytest.raises(pymysql.err.MySQLError, match=text) as raised:
        rows(connection, "select x from flights")
    assert raised.value.args[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/*+ run_async=true * / select 1", 1064),
        ("/*+ run_async=true */", 1065),
        ("/*+ run_async=true */ show tables", 1235),
        ("use secret", 1049),
        ("describe nothing", 1146),
        ("show tables from secret", 1049),
        ("select @@nothing", 1193),
        ("set nothing = 1", 1193),
        ("select $$", 1054),
        ("kill 1", 1094),
    ],
)
def test_what_cannot_be_answered_has_a_code(endpoint: int, handed_over: list[str], text: str, expected: int) -> None:
    with connect(endpoint) as connection:
        assert code(lambda: rows(connection, text)) == expected
        assert rows(connection, "select 1") == [(1,)]
    assert handed_over == []


def test_without_a_schema_a_statement_asks_for_one(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint, database=None) as connection:
        assert code(lambda: rows(connection, "show tables")) == 1046
        assert code(lambda: rows(connection, "select * from flights")) == 1046
        rows(connection, "use demo")
        assert len(rows(connection, "show tables")) == 2


def test_clients_questions_are_answered_without_spark(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as connection:
        assert ("demo",) in rows(connection, "show databases")
        assert rows(connection, "show full tables like 'fl%'") == [("flights", "BASE TABLE")]
        assert rows(connection, "describe flights")[0][:2] == ("carrier", "string")
        assert rows(connection, "show variables like 'version_comment'") == [("version_comment", "Gantry async SQL")]
        assert rows(connection, "select @@autocommit, @@session.sql_mode x, version()")[0][:2] == (0, "")
        assert rows(connection, "show warnings") == []
        for text in ("set names utf8mb4", "set session sql_mode = 'ANSI'", "begin", "commit"):
            rows(connection, text)
        assert rows(connection, "select @@sql_mode") == [("ANSI",)]
    assert handed_over == []


def test_a_ram_user_needs_a_right(endpoint: int, cast: Cast, handed_over: list[str]) -> None:
    accounts.set_database_password(user=cast.bob.person, name="bob", password=PASSWORD)
    assert code(lambda: connect(endpoint, "bob")) == 1049
    with connect(endpoint, "bob", database=None) as connection:
        assert ("demo",) not in rows(connection, "show databases")
        assert code(lambda: rows(connection, "show query_task")) == 1142


# --- Leaving


def test_a_client_that_leaves_stops_its_statement(endpoint: int, spark: Engine) -> None:
    spark.gate.clear()
    connection = connect(endpoint)
    connection._execute_command(3, "select * from flights")
    eventually(lambda: QueryTask.objects.filter(status=TaskStatus.RUNNING).exists())
    connection._force_close()
    eventually(lambda: QueryTask.objects.get().cancel_requested)


def test_the_same_user_may_kill_a_statement_others_not(endpoint: int, cast: Cast, spark: Engine) -> None:
    spark.gate.clear()
    accounts.set_database_password(user=allow(cast.bob.person).person, name="bob", password=PASSWORD)
    victim = connect(endpoint)
    ((number,),) = rows(victim, "select connection_id()")
    victim._execute_command(3, "select * from flights")
    eventually(lambda: QueryTask.objects.filter(status=TaskStatus.RUNNING).exists())
    with connect(endpoint, "bob") as other:
        assert code(lambda: rows(other, f"kill {number}")) == 1094
    with connect(endpoint) as own:
        rows(own, f"kill query {number}")
    assert code(victim._read_query_result) == 1317
    assert QueryTask.objects.get().cancel_requested
    assert rows(victim, "select 1") == [(1,)]


def test_a_statement_that_takes_too_long_is_stopped(endpoint: int, spark: Engine, settings: Settings) -> None:
    settings.SQL_SYNC_SECONDS = 0.2
    spark.gate.clear()
    with connect(endpoint) as connection, pytest.raises(pymysql.err.MySQLError, match="run_async=true") as raised:
        rows(connection, "select * from flights")
    assert raised.value.args[0] == 3024
    assert QueryTask.objects.get().cancel_requested
