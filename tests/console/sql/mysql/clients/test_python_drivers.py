"""PyMySQL and mysql-connector-python, in Python and with its C extension."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import mysql.connector
import pymysql
import pytest

from console.sql.models import QueryTask
from tests.console.sql.mysql.clients.conftest import HOSTILE, VALUES, Login, kill_what_runs
from tests.console.sql.mysql.conftest import Engine

pytestmark = pytest.mark.django_db(transaction=True)
Driver = Callable[..., Any]


def by_pymysql(login: Login, **options: Any) -> Any:
    tls = {"ssl": {"check_hostname": False}} if login.tls else {"ssl_disabled": True}
    return pymysql.connect(
        host="127.0.0.1", port=login.port, user=login.user, password=login.password, database="demo", **tls, **options
    )


def by_connector(login: Login, *, pure: bool, **options: Any) -> Any:
    return mysql.connector.connect(
        host="127.0.0.1", port=login.port, user=login.user, password=login.password, database="demo",
        ssl_disabled=not login.tls, use_pure=pure, **options,
    )  # fmt: skip


DRIVERS: dict[str, Driver] = {
    "pymysql": by_pymysql,
    "connector": lambda login, **options: by_connector(login, pure=True, **options),
    "connector-c": lambda login, **options: by_connector(login, pure=False, **options),
}


#: Set in the process that tests the C extension: its wheel brings an OpenSSL of its own, which cannot be loaded beside
#: the system's once Arrow or Spark have brought that in, as they have in a run of all tests.
OF_ITS_OWN = "GANTRY_TEST_C_EXTENSION"


def need_the_c_extension() -> None:
    if OF_ITS_OWN not in os.environ:
        pytest.skip("runs in a process of its own, started by another test")
    assert mysql.connector.HAVE_CEXT, "the wheel of mysql-connector-python has no C extension"


@pytest.fixture(params=list(DRIVERS))
def driver(request: pytest.FixtureRequest) -> Driver:
    if request.param == "connector-c":
        need_the_c_extension()
    return DRIVERS[request.param]


@pytest.fixture(params=[True, False], ids=["pure", "connector-c"])
def pure(request: pytest.FixtureRequest) -> bool:
    """Whether the connector is the one in Python."""
    if not request.param:
        need_the_c_extension()
    return bool(request.param)


def test_the_c_extension_does_all_of_it_in_a_process_of_its_own() -> None:
    if OF_ITS_OWN in os.environ:
        pytest.skip("this is that process")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "connector-c", __file__],
        env=os.environ | {OF_ITS_OWN: "true"}, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\b[1-9]\d* passed", done.stdout)
    assert "skipped" not in done.stdout


def ask(connection: Any, text: str, parameters: tuple[object, ...] | None = None, **options: Any) -> list[Any]:
    cursor = connection.cursor(**options)
    cursor.execute(text, parameters) if parameters is not None else cursor.execute(text)
    found = list(cursor.fetchall()) if cursor.description else []
    cursor.close()
    return found


def test_it_signs_in_and_looks_around(driver: Driver, logins: list[Login]) -> None:
    for login in logins:
        connection = driver(login)
        ((_, cipher),) = ask(connection, "show session status like 'Ssl_cipher'")
        assert bool(cipher) == login.tls
        assert ("demo",) in ask(connection, "show databases")
        assert ask(connection, "show tables") == [("airlines",), ("flights",)]
        connection.ping()
        connection.close()


def test_a_hint_is_answered_with_the_id(driver: Driver, account: Login, handed_over: list[str]) -> None:
    connection = driver(account)
    text = "/*+ run_async=true, mq-notify-by=ons, mq-topic =t */ select * from flights"
    ((task_id,),) = ask(connection, text)
    assert (QueryTask.objects.get().pk, QueryTask.objects.get().command) == (task_id, text)
    connection.close()


def test_values_that_the_driver_quotes_arrive_as_they_are(driver: Driver, account: Login) -> None:
    connection = driver(account)
    assert ask(connection, "select %s, %s, %s, %s, %s", (*HOSTILE, None)) == [(*HOSTILE, None)]
    connection.close()


def test_bound_values_reach_spark_as_values(account: Login, pure: bool, handed_over: list[str]) -> None:
    connection = by_connector(account, pure=pure)
    text = "/*+ run_async=true */ select * from flights where a in (?, ?, ?, ?) and n = ? and x = ? and y = ?"
    ask(connection, text, (*HOSTILE, -9007199254740993, None, 1.5), prepared=True)
    task = QueryTask.objects.get()
    assert task.parameters == [*HOSTILE, -9007199254740993, None, 1.5]
    assert task.command == text
    assert ask(connection, "show query_task where id = ?", (task.pk,), prepared=True)[0][0] == task.pk
    connection.close()


def test_all_types_arrive(driver: Driver, account: Login, typed: Engine) -> None:
    connection = driver(account)
    first, second = ask(connection, "select * from flights")
    assert tuple(first) == VALUES
    assert tuple(second) == (None,) * len(VALUES)
    connection.close()


def test_all_types_arrive_in_the_binary_protocol(account: Login, typed: Engine, pure: bool) -> None:
    connection = by_connector(account, pure=pure)
    first, second = ask(connection, "select * from flights", (), prepared=True)
    assert tuple(first) == VALUES
    assert tuple(second) == (None,) * len(VALUES)
    connection.close()


def test_errors_have_code_and_state(driver: Driver, account: Login) -> None:
    connection = driver(account)
    with pytest.raises((pymysql.err.Error, mysql.connector.Error)) as error:
        ask(connection, "describe nothing")
    assert error.value.args[0] == 1146
    assert getattr(error.value, "sqlstate", "42S02") == "42S02"
    connection.close()
    with pytest.raises((pymysql.err.Error, mysql.connector.Error)) as refused:
        driver(account._replace(password="wrong"))
    assert refused.value.args[0] == 1045


def test_a_killed_statement_ends_with_an_error(driver: Driver, account: Login, stuck: Engine) -> None:
    connection, ended = driver(account), []

    def wait() -> None:
        try:
            ask(connection, "select * from flights")
        except (pymysql.err.Error, mysql.connector.Error) as error:
            ended.append(error.args[0])

    waiting = threading.Thread(target=wait)
    waiting.start()
    kill_what_runs(account.port)
    waiting.join(30)
    assert ended == [1317]
    assert ask(connection, "select 1") == [(1,)]
    connection.close()


def test_a_connection_is_reset(driver: Driver, account: Login) -> None:
    connection = driver(account)
    ask(connection, "set @mark = 'here', sql_mode = 'ANSI'")
    assert ask(connection, "select @mark, @@sql_mode") == [("here", "ANSI")]
    if hasattr(connection, "cmd_reset_connection"):
        connection.cmd_reset_connection()
        assert ask(connection, "select @mark, @@sql_mode")[0][0] is None
    connection.close()


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1", "gbk"])
def test_other_character_sets_are_spoken(account: Login, charset: str) -> None:
    connection = by_pymysql(account, charset=charset)
    assert ask(connection, "select 'ä' as `ä`" if charset != "gbk" else "select '中'")[0][0] in ("ä", "中")
    connection.close()
