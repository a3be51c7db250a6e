"""Which statements are answered here, and that everything else is left to Spark."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import statements as s
from console.statements.select import Constant, Fact, Variable

FORMS = [
    ("show query_task where id='q1'", s.ShowTask("q1")),
    ('SHOW  QUERY_TASK\nWHERE id = "q1"', s.ShowTask("q1")),
    ("show query_task", s.SearchTasks()),
    ("show query_task limit 3", s.SearchTasks("limit 3")),
    (
        "show query_task like 'q%' where status = 'RUNNING' order by id",
        s.SearchTasks("where status = 'RUNNING' order by id", "q%"),
    ),
    ("cancel query_task where id = 'q1'", s.CancelTask(("q1",))),
    ("cancel query_task where id in ('q1', 'q2')", s.CancelTask(("q1", "q2"))),
    ("show databases", s.ShowDatabases()),
    ("show schemas like 'de%'", s.ShowDatabases("de%")),
    ("SHOW TABLES", s.ShowTables()),
    ("show full tables from `demo` like 'f%'", s.ShowTables("demo", "f%", full=True)),
    ("show columns from flights", s.ShowColumns("flights")),
    ("SHOW FULL FIELDS FROM `flights` FROM `demo` LIKE '%'", s.ShowColumns("flights", "demo", "%", full=True)),
    ("describe demo.flights", s.ShowColumns("flights", "demo")),
    ("desc `my``table`", s.ShowColumns("my`table")),
    ("show create table demo.flights", s.ShowCreateTable("flights", "demo")),
    ("show create database if not exists demo", s.ShowCreateSchema("demo")),
    ("show table status from demo like 'f%'", s.ShowTableStatus("demo", "f%")),
    ("show full tables where Table_type <> 'VIEW'", s.ShowTables(full=True, where="Table_type <> 'VIEW'")),
    ("show partitions demo.flights", s.ShowPartitions("flights", "demo")),
    ("describe formatted demo.flights", s.DescribeTable("flights", "demo")),
    ("explain flights", s.ShowColumns("flights")),
    ("explain select 1", s.Explain("simple", "select 1")),
    ("EXPLAIN Formatted\n(select 1)", s.Explain("formatted", "(select 1)")),
    ("drop table flights", s.Ddl("drop table flights")),
    ("show variables like 'version%'", s.ShowVariables("version%")),
    (
        "SHOW VARIABLES WHERE Variable_name = 'a' OR Variable_name='b'",
        s.ShowVariables(names=("a", "b")),
    ),
    ("show warnings", s.ShowConnection(s.Subject.WARNINGS)),
    ("show errors limit 1, 5", s.ShowConnection(s.Subject.ERRORS)),
    ("SHOW COUNT( * ) Warnings", s.ShowConnection(s.Subject.WARNING_COUNT)),
    ("show warnings like 'x'", s.ShowNothing(("Level", "Code", "Message"))),
    ("show local status like 'Ssl%'", s.ShowConnection(s.Subject.STATUS, "Ssl%")),
    ("show status where Variable_name = 'Uptime'", s.ShowConnection(s.Subject.STATUS, "Uptime")),
    ("show status where value > 1", s.ShowNothing(("Variable_name", "Value"))),
    ("show full processlist", s.ShowConnection(s.Subject.PROCESSES, full=True)),
    ("show grants for current_user()", s.ShowConnection(s.Subject.GRANTS)),
    ("show privileges", s.ShowConnection(s.Subject.PRIVILEGES)),
    ("show open tables from demo", s.ShowNothing(("Database", "Table", "In_use", "Name_locked"))),
    ("use demo", s.Use("demo")),
    ("set names utf8mb4", s.SetVariables("set names utf8mb4")),
    ("START TRANSACTION READ ONLY", s.Transaction()),
    ("commit", s.Transaction()),
    ("kill query 17", s.Kill(17, query_only=True)),
    ("KILL 17", s.Kill(17, query_only=False)),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_it_recognises_its_own_forms(text: str, expected: s.Statement) -> None:
    assert s.parse(text) == expected


CONSTANTS = [
    ("select 1", [(1, "1")]),
    ("SELECT @@version_comment LIMIT 1", [(Variable("version_comment"), "@@version_comment")]),
    (
        "SELECT @@session.auto_increment_increment AS inc, @@character_set_client",
        [(Variable("auto_increment_increment"), "inc"), (Variable("character_set_client"), "@@character_set_client")],
    ),
    ("select database(), Version( ) v", [(Fact.SCHEMA, "database()"), (Fact.VERSION, "v")]),
    ("select connection_id()", [(Fact.CONNECTION_ID, "connection_id()")]),
    ("select current_user", [(Fact.USER, "current_user")]),
    ("select 'it''s', null as n, TRUE", [("it's", "it's"), (None, "n"), (1, "TRUE")]),
    ("select -5", [(-5, "-5")]),
]


@pytest.mark.parametrize(("text", "expected"), CONSTANTS)
def test_it_answers_what_clients_ask_at_sign_in(text: str, expected: list[tuple[object, str]]) -> None:
    assert s.parse(text) == s.SelectConstants(tuple(Constant(v, c) for v, c in expected))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "select * from flights",
        "select 1 from flights",
        "select 1 + 1",
        "select 1.5",
        "select 1 union select 2",
        "select now()",
        "select 1 where true",
        "select __import__('os')",
        "cancel query_task",
        "use demo; select 1",
        "explain insert into t select 1",
        "",
        "select",
    ],
)
def test_everything_else_is_a_query(text: str) -> None:
    assert s.parse(text) == s.Query(text)


@pytest.mark.parametrize(
    ("text", "statement", "several"),
    [
        ("/*+ run_async=true */ select 1 from t ; # mine", "select 1 from t", False),
        ("select ';', \"a;b\", `c;d` -- ;\n;;/* that; is all */ ; ", "select ';', \"a;b\", `c;d` -- ;", False),
        ("show tables; -- all", "show tables", False),
        ("; -- nothing", "", False),
        ("select 1 from t # mine", "select 1 from t # mine", False),
        ("select 1 from t; select 2 from t;", "select 1 from t; select 2 from t", True),
    ],
)
def test_a_closing_semicolon_and_comments_behind_it_belong_to_no_statement(
    text: str, statement: str, several: bool
) -> None:
    parsed = s.read(text)
    assert (parsed.text, parsed.statement, parsed.several) == (text, statement, several)
    assert parsed.form == s.parse(statement)


@given(st.text())
def test_any_text_is_recognised_or_a_query(text: str) -> None:
    for prefix in ("", "select ", "show ", "set ", "kill "):
        assert s.parse(prefix + text) is not None


def test_hostile_text_is_recognised_fast() -> None:
    started = time.process_time()
    for text in ("select " + "'" * 16_000, "select " + "1," * 7_000 + "x", "show tables like '" + "\\" * 16_000):
        s.parse(text)
    s.parse("select " + "(" * 10_000_000)
    assert time.process_time() - started < 2
