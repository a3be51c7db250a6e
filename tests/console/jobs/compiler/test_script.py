"""How a job's text is split into statements."""

from __future__ import annotations

import pytest

from console.jobs.compiler.script import Kind, Script, split
from console.jobs.compiler.words import LONGEST_TEXT, Text, TextRefused, tokens_of
from tests.console.jobs.compiler.texts import plan, process, refusal


def script(written: str) -> Script:
    text = Text(written)
    return split(text, tokens_of(text))


def kinds(written: str) -> list[Kind]:
    found = script(written)
    assert found.refusals == ()
    return [one.kind for one in found.statements]


def refused(written: str) -> str:
    with pytest.raises(TextRefused) as error:
        script(written)
    return error.value.message


def test_it_tells_the_statements_of_a_job_apart_in_any_case() -> None:
    written = """
    set 'a' = 'b';
    create table t (a INT) with ('connector' = 'print');
    CREATE TEMPORARY TABLE u (a INT) WITH ('connector' = 'print');
    Create Temporary View v as select 1;
    insert into t select 1;
    select * from t; with x as (select 1) select * from x; values (1)
    """
    assert kinds(written) == ["set", "table", "table", "view", "insert", "query", "query", "query"]


def test_a_semicolon_within_a_text_a_name_or_a_comment_ends_nothing() -> None:
    written = "INSERT INTO t SELECT ';', `a;b` -- ; here\n/* ; */ FROM s;;\n; -- nothing more"
    assert kinds(written) == ["insert"]


def test_a_backslash_is_an_ordinary_character_and_a_quote_is_doubled() -> None:
    (first, second) = script(r"INSERT INTO t SELECT 'a\'; INSERT INTO t SELECT 'it''s'").statements
    assert [one.value for one in first.tokens if one.kind == "text"] == ["a\\"]
    assert [one.value for one in second.tokens if one.kind == "text"] == ["it's"]


def test_a_hyphen_is_a_sign_and_no_part_of_a_name() -> None:
    (statement,) = script("SELECT a-b").statements
    assert [one.value for one in statement.tokens[:-1]] == ["SELECT", "a", "-", "b"]


@pytest.mark.parametrize(
    "opening",
    ["BEGIN STATEMENT SET;", "begin statement set ;", "EXECUTE STATEMENT SET BEGIN", "execute statement set\nbegin"],
)
def test_a_statement_set_is_its_inserts(opening: str) -> None:
    assert kinds(f"{opening} INSERT INTO t SELECT 1; INSERT INTO u SELECT 2; END;") == ["insert", "insert"]


def test_a_set_may_be_followed_by_another() -> None:
    one = "BEGIN STATEMENT SET; INSERT INTO t SELECT 1; END;"
    assert kinds(one + one) == ["insert", "insert"]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (
            "BEGIN STATEMENT SET;\nINSERT INTO t SELECT 1;",
            "Line 1, column 1: the statement set is not closed; it ends with END;",
        ),
        ("SELECT 1;\nEND;", "Line 2, column 1: END closes no statement set; one begins with BEGIN STATEMENT SET;"),
        (
            "BEGIN STATEMENT SET; BEGIN STATEMENT SET; END;",
            "Line 1, column 22: a statement set cannot hold another one; close the first with END;",
        ),
        ("SELECT\n 'a from t", "Line 2, column 2: this text in quotes is not closed."),
        ("SELECT `a from t", "Line 1, column 8: this name in back quotes is not closed."),
        ("SELECT 1 /* x", "Line 1, column 10: this comment is not closed."),
        (
            "x" * (LONGEST_TEXT + 1),
            f"Line 1, column 1: the text has {LONGEST_TEXT + 1} characters; {LONGEST_TEXT} are allowed.",
        ),
        ("SELECT 1;" * 201, "Line 1, column 1809: there are more than 200 statements; make several jobs of them."),
    ],
)
def test_it_refuses_what_cannot_be_split(written: str, sentence: str) -> None:
    assert refused(written) == sentence


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("DROP TABLE t", "DROP"),
        ("CREATE FUNCTION f AS 'x'", "CREATE"),
        ("CREATE CATALOG c", "CREATE"),
        ("USE CATALOG c", "USE"),
        ("DELETE FROM t", "DELETE"),
        ("UPDATE t SET a = 1", "UPDATE"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("ADD JAR 'x'", "ADD"),
    ],
)
def test_it_names_what_is_allowed_for_another_statement(statement: str, word: str) -> None:
    (refused_one,) = script(f"SELECT 1;\n  {statement};").refusals
    assert refused_one.message.startswith(
        f"Line 2, column 3: `{word}` begins no statement of a job; allowed are SET, CREATE"
    )


def test_only_inserts_stand_in_a_statement_set() -> None:
    (refused_one,) = script("BEGIN STATEMENT SET; SELECT 1; END;").refusals
    assert (
        refused_one.message
        == "Line 1, column 22: a statement set holds INSERT INTO statements alone; write this one before it."
    )


def test_a_text_without_an_insert_is_no_job() -> None:
    assert refusal("-- nothing") == (
        "Line 1, column 1: the text has no INSERT INTO … SELECT, so the job would write nothing."
    )


@process
def test_the_line_of_each_insert_is_in_the_plan() -> None:
    text = "CREATE TABLE o (a INT) WITH ('connector' = 'print');\n\nINSERT INTO o SELECT 1;\nINSERT INTO o\nSELECT 2;"
    assert [one.line for one in plan(text).inserts] == [3, 4]
