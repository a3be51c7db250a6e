"""Texts that keep a parser busy: they are refused by one look, or cost a process that does nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from console import statements
from console.accounts.models import TenantLimits
from console.catalog.information_schema import runner
from console.catalog.information_schema.runner import SmallTable
from console.rights import limits
from console.statements import lexer, select
from console.statements import parsers as parsing
from console.statements.ddl.words import LONGEST_DEFINITION, Reader
from console.statements.parsers import Parsers
from console.web.errors import Refused
from tests.support.broker import eventually
from tests.support.redis_server import RedisServer
from tests.support.sql_cast import Cast, cast, no_acl  # noqa: F401  fixtures

pytestmark = pytest.mark.process

#: Each JOIN that waits for its ON doubles what the parser tries: half a minute and more.
#: Each further join doubles what a parser takes: these are years.
BARE_JOINS = "select 1 from a" + " join b" * 40
#: Refused before any parser sees them.
BOMBS = {
    "bare joins": BARE_JOINS,
    "joins in brackets": "select 1 from " + "(" * 20 + "a" + " join b)" * 20,
    "brackets": "select " + "(" * 4000 + "1" + ")" * 4000,
    "open brackets": "select " + "(" * 16000,
    "cases": "select " + "case when a then " * 500 + "1" + " end" * 500,
    "queries": "select * from " + "(select * from " * 200 + "a" + ") x" * 200,
    "operators": "select 1" + "+1" * 8000,
    "tables": "select 1 from a" + ",b" * 8000,
    "names": "select a" + ".a" * 8000,
    "long": "select '" + "x" * parsing.LONGEST + "'",
}


#: 56,000 signs that a short statement makes.
_LONG = f"replace('{'a' * 4000}', 'a', '{'a' * 14}')"
_OTHER = f"replace('{'b' * 4000}', 'b', '{'b' * 14}')"
_THREE = "columns a, columns b, columns c"
#: Queries on `information_schema` of which single steps of SQLite take long, or whose steps never end.
SLOW_QUERIES = {
    "like": f"select count(*) from columns where {_LONG} || name like '%' || '{'a' * 8000}' || 'b' escape '\\'",
    "like within its bound": f"select count(*) from columns where {_LONG} || name like '%{'a' * 500}b' escape '\\'",
    "trim": f"select sum(length(rtrim(name || {_LONG}, {_OTHER} || 'a'))) from columns",
    "window": f"select row_number() over (order by a.name || b.name collate utf8mb4_bin) from {_THREE}",
    "find": f"select sum(find_in_set(a.name, {_LONG})) from {_THREE}",
}
#: Repeated without an end, in texts that are looked at before anything reads them.
UNENDING = ("\\'", '\\"', "/*", "'", "'\\", "--", ", (", " ", "(", ",")


@pytest.fixture
def parsers() -> Iterator[Parsers]:
    """A pool of its own, ended with the test."""
    own = Parsers()
    yield own
    for parser in own._idle:
        parser.end()


@pytest.fixture
def a_minute() -> Iterator[None]:
    """End what goes on for longer: before, these took many minutes."""

    def ended(*_: object) -> None:
        raise AssertionError("it did not end within a minute")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("a_minute")
@pytest.mark.parametrize("piece", [*UNENDING, "`", "`a``", "''", "*/", "a-", "1", "1.", "#", "\n", ";"])
def test_to_take_a_text_apart_goes_over_it_once(piece: str) -> None:
    """A million characters, in the lexer itself and behind the heads of all grammars."""
    text = piece * (1_000_000 // len(piece))
    assert sum(1 for _ in lexer.tokens(text, decimals=True)) <= len(text) + 1
    for head in ("", "/*+ a=", "insert into t ", "insert into t (a, ", "create table t comment '", "explain ", "show "):
        with suppress(Refused):
            statements.read(head + text)
    for head in ("create table t (a int ", "alter table t "):
        with suppress(Refused):
            Reader((head + text)[:LONGEST_DEFINITION])


@pytest.mark.usefixtures("a_minute")
@pytest.mark.parametrize("piece", UNENDING)
def test_to_look_for_the_form_of_a_statement_goes_over_its_text_once(piece: str) -> None:
    """Longer than any that is looked at, so that going over it again and again shows."""
    for head in ("select ", "select a from t, ", "with t as "):
        text = head + piece * (1_000_000 // len(piece))
        assert not select.asks_information_schema(text)
        statements.parse(text[: statements.LONGEST_FORM - 1])


@pytest.mark.parametrize("sql", SLOW_QUERIES.values(), ids=SLOW_QUERIES)
def test_a_query_on_information_schema_ends_also_within_long_steps(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    monkeypatch.setattr(runner, "LONGEST_S", 0.5)
    rows = [(f"c{number:05}",) for number in range(2000)]
    told: list[BaseException] = []

    def ask() -> None:
        try:
            runner.run(sql, {"columns": SmallTable(("NAME",), rows)})
        except Refused as refused:
            told.append(refused)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert told


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_text_that_is_too_much_for_the_parser_is_refused_before_it(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("the parser was asked")

    monkeypatch.setattr(parsing.parsers, "ask", asked)
    with pytest.raises(Refused) as refused:
        parsing.query(text, "mallory")
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        "select 'join join join join join join join join join join' from a",
        "select 1 from a " + " ".join(f"join b{n} on a.x = b{n}.x left join c{n} using (y)" for n in range(15)),
        "select 1 from a" + " cross join b" * 30,
        "select 1 from a where b in (" + ", ".join(map(str, range(1000))) + ")",
        "select " + "(" * 30 + "1" + ")" * 30,
    ],
)
def test_what_tools_write_is_read(text: str) -> None:
    assert parsing.query(text) is not None


def test_a_parser_that_does_not_end_costs_its_process_and_nobody_elses_statement(parsers: Parsers) -> None:
    """As if a text had been found that the look does not see."""
    outcomes: list[str] = []

    def bomb() -> None:
        try:
            parsers.ask(BARE_JOINS, "mallory")
        except Refused as refused:
            outcomes.append(refused.symbol)

    attackers = [threading.Thread(target=bomb) for _ in range(4)]
    for thread in attackers:
        thread.start()
    for _ in range(20):
        kind, trees = parsers.ask("select 1", "bob")
        assert (kind, len(trees)) == ("trees", 1)
    for thread in attackers:
        thread.join(60)
    assert len(outcomes) == 4
    assert set(outcomes) <= {"STATEMENT_TIME_LIMIT", "TOO_MANY_WAITING"}
    assert parsers.ask("select 1", "mallory")[0] == "trees", "the next one has a new process"


def test_an_account_that_keeps_the_parsers_busy_has_had_its_time(
    sql_cast: Cast, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if there were slow texts that the look does not see, one after the other; the minute is held for the test."""
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"parsing_seconds": 3}
    monkeypatch.setattr(parsing, "_minute", lambda: 1)
    TenantLimits.objects.create(tenant=sql_cast.charlie.tenant, parsing_seconds=0)
    mallory, bob = sql_cast.alice.tenant.uid, sql_cast.charlie.tenant.uid
    busy = Parsers(parsing.Budget())
    try:
        outcomes = []
        for _ in range(4):
            with pytest.raises(Refused) as refused:
                busy.ask(BARE_JOINS, mallory)
            outcomes.append(refused.value.symbol)
            assert busy.ask("select 1", bob)[0] == "trees"
        with pytest.raises(Refused, match=r"took 3 s within the minute, which is its limit"):
            busy.ask("select 1", mallory)
        assert outcomes == ["STATEMENT_TIME_LIMIT"] * 2 + ["PARSING_TIME_LIMIT"] * 2
        monkeypatch.setattr(parsing, "_minute", lambda: 2)
        assert busy.ask("select 1", mallory)[0] == "trees", "the next minute is another one"
    finally:
        for parser in busy._idle:
            parser.end()


def test_the_time_is_one_over_all_processes_and_on_the_page(
    sql_cast: Cast, settings: Settings, redis: RedisServer
) -> None:
    settings.REDIS_URL = redis.url
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"parsing_seconds": 10}
    uid = sql_cast.alice.tenant.uid
    one, other = parsing.Budget(), parsing.Budget()
    for _ in range(60):  # a minute may begin in between
        one.charge(uid, 6.0)
        other.charge(uid, 4.0)
        used = next(li.used for li in limits.lines(sql_cast.alice.tenant)[0] if li.kind.name == "parsing_seconds")
        if used is not None and used >= 10:
            break
    assert used is not None
    assert used >= 10
    with pytest.raises(Refused) as refused:
        for _ in range(3):
            other.require(uid)
            other.charge(uid, 10.0)
    assert refused.value.symbol == "PARSING_TIME_LIMIT"
    one.require(sql_cast.charlie.tenant.uid)


def test_small_texts_cost_no_question_to_redis_or_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> float:
        raise AssertionError("Redis was asked")

    monkeypatch.setattr(limits, "add_parsing_seconds", asked)
    budget = parsing.Budget()
    for _ in range(9):
        budget.require("1")
        budget.charge("1", 0.005)


def test_threads_that_wait_for_a_parser_are_few(parsers: Parsers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or those of one account would be all that the web server has."""
    monkeypatch.setattr(parsing, "MOST_WAITING", 2)
    parsers.forget()
    for _ in range(parsing.MOST - 1):
        assert parsers._places.acquire("mallory", time.monotonic())
    refused: list[str] = []

    def ask() -> None:
        try:
            parsers.ask("select 1", "mallory")
        except Refused as error:
            refused.append(error.symbol)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(refused) == 6)  # all but two, at once
    assert parsers.ask("select 1", "bob")[0] == "trees"
    for _ in range(parsing.MOST - 1):
        parsers._release("mallory", None)
    for thread in threads:
        thread.join(60)
    assert refused == ["TOO_MANY_WAITING"] * 6
    assert parsers._places.are_free


def test_a_parser_that_was_killed_is_replaced(parsers: Parsers) -> None:
    parsers.warm()
    os.kill(parsers._idle[0].pid, signal.SIGKILL)
    os.waitid(os.P_PID, parsers._idle[0].pid, os.WEXITED | os.WNOWAIT)
    assert parsers.ask("select 1", "bob")[0] == "trees"


def test_the_process_that_reads_texts_has_no_setting_no_secret_and_a_limit_of_memory(
    parsers: Parsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANTRY_MASTER_KEY", "sesame")
    parsers.ask("select 1", "bob")
    process = Path(f"/proc/{parsers._idle[0].pid}")
    assert process.joinpath("environ").read_bytes() == b"LANG=C.UTF-8\0"
    (address_space,) = [line for line in process.joinpath("limits").read_text().splitlines() if "address space" in line]
    assert "unlimited" not in address_space
    assert process.joinpath("cwd").readlink() == Path("/")
    names = {os.path.realpath(file) for file in process.joinpath("fd").iterdir()}
    assert not any("sqlite" in name or "socket" in name for name in names)


@pytest.mark.django_db
def test_the_console_answers_while_and_after_somebody_sends_one(cast: Cast, client: Client) -> None:  # noqa: F811
    """The whole way of a statement, from the editor; it took the web process a minute."""
    client.force_login(cast.alice.person)
    text = "select 1 from information_schema.tables" + " join information_schema.columns" * 18
    began = time.process_time()
    answer = client.post("/sql/", {"text": text, "schema": "demo"}, headers={"HX-Request": "true"})
    assert time.process_time() - began < 10, "this process did not parse it"
    assert "joins wait for their ON or USING" in answer.content.decode()
