"""A statement is read once, whichever way it comes in; what was read is handed on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from analytics import engine
from console import statements
from console.accounts.actor import Actor
from console.sql import answers, runs
from console.statements import hint, lexer, parsers
from console.statements import read as read_statement
from tests.console.sql.mysql.conftest import Engine, connect, endpoint, rows, spark, tls_context  # noqa: F401  fixtures
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)
READ_ONCE = Counter({"split": 1, "parse": 1, "statement_kind": 1})


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often which reader was asked."""
    counted: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        reader = getattr(module, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[name] += 1
            return reader(*args, **options)

        monkeypatch.setattr(module, name, counting)

    read = ((hint, "split"), (statements, "parse"), (engine, "statement_kind"), (lexer, "tokens"), (parsers, "query"))
    for module, name in read:
        count(module, name)
    return counted


@pytest.mark.usefixtures("spark")
def test_mysqls_protocol_reads_a_statement_without_hint_once(endpoint: int, readings: Counter[str]) -> None:  # noqa: F811
    with connect(endpoint) as connection:
        readings.clear()
        rows(connection, "select carrier, n, day from flights")
        assert readings == READ_ONCE
        readings.clear()
        rows(connection, "show tables")
        assert readings == Counter(split=1, parse=1)


def test_mysqls_protocol_reads_a_statement_with_a_hint_once(
    endpoint: int,  # noqa: F811
    readings: Counter[str],
    handed_over: list[str],
) -> None:
    with connect(endpoint) as connection:
        readings.clear()
        rows(connection, "/*+ run_async=true */ select * from flights")
        assert readings == READ_ONCE


def test_the_editor_and_the_api_read_it_once(cast: Cast, readings: Counter[str], handed_over: list[str]) -> None:
    runs.start(cast.alice, "select * from flights", "demo")
    assert readings == READ_ONCE
    client = client_of(cast.alice)
    readings.clear()
    client.post(reverse("sql.run"), {"text": "select * from flights", "schema": "demo"}, headers={"HX-Request": "true"})
    assert readings == READ_ONCE


def client_of(actor: Actor) -> Client:
    client = Client()
    client.force_login(actor.person)
    return client


def test_a_definition_is_taken_apart_once(cast: Cast, readings: Counter[str]) -> None:
    runs.start(cast.alice, "drop table if exists nothing", "demo")
    assert readings == Counter(split=1, parse=1, tokens=1)


@pytest.mark.parametrize(
    ("text", "schema"),
    [("select table_name from tables", "information_schema"), ("select * from information_schema.tables", "demo")],
)
def test_a_question_for_information_schema_is_taken_apart_once(
    cast: Cast, readings: Counter[str], text: str, schema: str
) -> None:
    assert answers.answer(cast.alice, read_statement(text).form, schema) is not None
    assert readings == Counter(split=1, parse=1, query=1)


def test_it_is_read_again_only_when_another_statement_takes_its_place() -> None:
    parsed = read_statement("/*+ run_async=true */ select 1 from t;")
    assert (parsed.statement, parsed.kind, parsed.hint.run_async) == ("select 1 from t", "query", True)
    assert parsed.of("select 1 from t") is parsed
    assert parsed.of("show tables").kind == "show_tables"
