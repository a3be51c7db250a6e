"""A second account, and a RAM user without rights, at the MySQL endpoint: what is not theirs is not there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest
from pymysql.constants import CLIENT

from console.accounts import services as accounts
from console.accounts.models import User
from console.catalog.models import ExternalTable, Schema
from console.sql.models import QueryTask
from console.sql.mysql.server import MySqlEndpoint
from tests.support.mysql_endpoint import PASSWORD, RawClient, running_endpoint
from tests.support.sql_cast import Cast

COM_INIT_DB, COM_QUERY, COM_FIELD_LIST, COM_PROCESS_KILL, COM_RESET_CONNECTION = 0x02, 0x03, 0x04, 0x0C, 0x1F
COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_FETCH = 0x16, 0x17, 0x1C
#: Each with the name of a schema that is another's, and with one that nobody has.
QUESTIONS = [
    "use {s}", "show tables from {s}", "show full tables from {s} like '%'", "show columns from {s}.flights",
    "describe {s}.flights", "show create table {s}.flights", "show create schema {s}", "show table status from {s}",
    "show partitions {s}.flights", "show index from {s}.flights", "show databases like '{s}'", "show grants",
    "select count(*) from information_schema.tables where table_schema = '{s}'",
    "select * from information_schema.columns where table_schema = '{s}'",
    "select * from information_schema.schemata", "show open tables from {s}", "show triggers from {s}",
    "drop table {s}.flights", "drop table if exists {s}.flights", "truncate table {s}.flights", "drop schema {s}",
    "drop schema if exists {s} cascade", "alter table {s}.flights rename to x", "msck repair table {s}.flights",
    "alter table {s}.flights set tblproperties ('comment' = 'x')", "create table {s}.x (a int)",
    "create table x like {s}.flights", "insert into {s}.flights values ('a', 1)",
    "insert overwrite {s}.flights select 1, 2", "create table {s}.y as select 1 a",
    "create external table z (a int) location 'oss://{s}/flights/'", "show processlist", "show full processlist",
]  # fmt: skip


@pytest.fixture
def endpoint(transactional_db: None, sql_cast: Cast) -> Iterator[int]:
    """`demo` has the schema `demo`; `other` the schema `secret`; bob of `demo` may do nothing."""
    for name, actor in (("demo", sql_cast.alice), ("bob", sql_cast.bob), ("other", sql_cast.charlie)):
        accounts.set_database_password(user=actor.person, name=name, password=PASSWORD)
    with running_endpoint(lambda: MySqlEndpoint(None)) as port:
        yield port


def everything() -> tuple[Any, ...]:
    """All tables and schemas as they are."""
    return tuple(list(model.objects.order_by("pk").values()) for model in (ExternalTable, Schema))


def connect(port: int, user: str, **options: Any) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=port, user=user, password=PASSWORD, ssl_disabled=True, read_timeout=20, **options
    )


def told(connection: pymysql.Connection, text: str) -> str:
    """The answer, or the error, as a text."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(text)
            return repr(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            return repr(error.args)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_schema_of_another_account_is_answered_like_none(endpoint: int, question: str) -> None:
    before = everything()
    with connect(endpoint, "demo", database="demo"), connect(endpoint, "other") as stranger:
        about_it = told(stranger, question.format(s="demo"))
        about_nothing = told(stranger, question.format(s="dem0"))
    assert about_it.replace("demo", "dem0") == about_nothing
    assert before == everything()


@pytest.mark.parametrize("question", [question for question in QUESTIONS if ".flights" in question])
def test_a_table_that_one_may_do_nothing_with_is_answered_like_none(endpoint: int, question: str) -> None:
    before = everything()
    with connect(endpoint, "bob") as weak:
        about_it = told(weak, question.format(s="demo"))
        about_nothing = told(weak, question.format(s="demo").replace("flights", "fl1ghts"))
    assert about_it.replace("flights", "fl1ghts") == about_nothing
    assert before == everything()


def test_who_may_make_no_table_is_not_told_where_they_lie(endpoint: int) -> None:
    with connect(endpoint, "bob") as weak:
        assert "location" not in told(weak, "create table demo.y as select 1 a")


@pytest.mark.parametrize("code", [COM_INIT_DB, COM_FIELD_LIST])
def test_commands_about_a_schema_are_answered_alike_too(endpoint: int, code: int) -> None:
    answers = []
    for name in (b"demo", b"dem0"):
        with RawClient(endpoint) as stranger:
            stranger.sign_in("other", PASSWORD)
            stranger.command(code, name if code == COM_INIT_DB else name + b".flights\0%")
            answers.append(stranger.read().replace(b"demo", b"dem0"))
    assert answers[0] == answers[1]
    assert answers[0][:1] == b"\xff"


@pytest.mark.parametrize("user", ["other", "bob"])
def test_nobodys_connection_or_statement_is_killed_or_found_by_its_number(endpoint: int, user: str) -> None:
    with closing(connect(endpoint, "demo")) as alice, RawClient(endpoint) as stranger:
        stranger.sign_in(user, PASSWORD)
        for number in (alice.thread_id(), alice.thread_id() + 7000):
            stranger.command(COM_PROCESS_KILL, struct.pack("<I", number))
            assert stranger.read().replace(str(number).encode(), b"N").endswith(b"You have no connection N.")
        for form in ("kill {}", "kill connection {}", "kill query {}"):
            stranger.command(COM_QUERY, form.format(alice.thread_id()).encode())
            assert stranger.read()[:1] == b"\xff"
        alice.ping(reconnect=False)


def test_a_statement_of_another_connection_is_not_there(endpoint: int) -> None:
    with RawClient(endpoint) as alice, RawClient(endpoint) as stranger:
        alice.sign_in("demo", PASSWORD)
        stranger.sign_in("other", PASSWORD)
        alice.command(COM_STMT_PREPARE, b"show databases")
        number = alice.read()[1:5]
        for code, rest in ((COM_STMT_EXECUTE, b"\0\1\0\0\0"), (COM_STMT_FETCH, b"\xff\xff\0\0")):
            stranger.command(code, number + rest)
            assert stranger.read().startswith(struct.pack("<BH", 0xFF, 1243))


@pytest.mark.parametrize("form", ["show query_task where id = '{}'", "cancel query_task where id = '{}'"])
def test_a_task_of_another_account_is_answered_like_none(endpoint: int, sql_cast: Cast, form: str) -> None:
    person = sql_cast.alice.person
    QueryTask.objects.create(
        id="q202601151030hz7f30b1c2d4e5a6b", tenant=sql_cast.alice.tenant, creator=person, table_schema="demo",
        statement="select 'secret'", command="select 'secret'", submitter="a", task_name="SELECT",
    )  # fmt: skip
    with connect(endpoint, "other") as stranger:
        about_it = told(stranger, form.format("q202601151030hz7f30b1c2d4e5a6b"))
        about_nothing = told(stranger, form.format("q202601151030hz7f30b1c2d4e5a60"))
    assert about_it.replace("a6b", "a60") == about_nothing
    assert not QueryTask.objects.get().cancel_requested


def test_a_reset_connection_has_the_rights_of_now(endpoint: int, sql_cast: Cast) -> None:
    with RawClient(endpoint) as client:
        client.sign_in("demo", PASSWORD)
        User.objects.filter(pk=sql_cast.alice.person.pk).update(is_active=False)
        client.command(COM_RESET_CONNECTION)
        assert client.read()[:1] == b"\0"
        client.command(COM_QUERY, b"show databases")
        assert client.read().startswith(struct.pack("<BH", 0xFF, 1045))


@pytest.mark.parametrize(
    "text",
    ["load data local infile '/etc/passwd' into table demo.flights", "load data infile '/etc/passwd' into table t",
     "select 1 into outfile '/tmp/x'", "select load_file('/etc/passwd')", "show binary logs", "show master status",
     "show replica status", "show engine innodb status", "set global max_connections = 1", "set @@global.x = 1",
     "install plugin x soname 'x.so'", "create user x", "grant all on *.* to other", "flush privileges", "shutdown",
     "select 1; drop table demo.flights", "begin; drop table demo.flights", "handler demo.flights open",
     "lock tables demo.flights read", "do sleep(100)"],
)  # fmt: skip
def test_nothing_of_mysqls_own_opens_a_file_or_a_server(
    endpoint: int, text: str, monkeypatch: pytest.MonkeyPatch, sql_cast: Cast
) -> None:
    monkeypatch.setattr("console.sql.lifecycle.hand_over", lambda _: None)
    flags = CLIENT.LOCAL_FILES | CLIENT.MULTI_STATEMENTS | CLIENT.COMPRESS
    with connect(endpoint, "other", local_infile=True, client_flag=flags) as stranger:
        told(stranger, "set max_execution_time = 300")
        answer = told(stranger, text)
    assert "root:" not in answer
    assert ExternalTable.objects.filter(name="flights").exists()
