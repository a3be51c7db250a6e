"""Laws of the code that a machine can hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("console", "brokercore", "analytics", "launcher", "cli")


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (p for p in (ROOT / package).rglob("*.py") if "migrations" not in p.parts)


def test_no_view_reaches_past_queries_and_services_into_the_tables() -> None:
    """Views get rows from access and queries, and change them by services."""
    found = {}
    for path in modules():
        if path.name == "views.py" or path.parent.name == "views":
            names = [n for n in ("objects.filter", "objects.get", "objects.create", ".save(") if n in path.read_text()]
            if names:
                found[str(path.relative_to(ROOT))] = names
    assert found == {}


def test_what_follows_a_commit_is_given_to_the_one_helper_whose_errors_do_not_escape() -> None:
    """Else a change that was committed is answered as a failure, and made twice by whoever tries again."""
    helper = ROOT / "console/web/after_commit.py"
    users = [str(p.relative_to(ROOT)) for p in modules() if p != helper and re.search(r"\bon_commit\b", p.read_text())]
    assert users == []


def test_sql_is_parsed_in_a_process_that_does_nothing_else() -> None:
    """sqlglot takes minutes for some texts of a few hundred characters, and a thread cannot be ended."""
    parsing = re.compile(r"\bsqlglot\.(?:parse|transpile|tokenize)|from sqlglot import [^\n]*\bparse|exp\.maybe_parse")
    users = [str(p.relative_to(ROOT)) for p in (ROOT / "console").rglob("*.py") if parsing.search(p.read_text())]
    assert users == ["console/sql/parser_process.py"]
