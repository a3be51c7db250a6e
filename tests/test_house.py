"""Laws of the code that a machine can hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("console", "brokercore", "mysqlwire", "analytics", "launcher", "gantry_cli")
#: A module of fewer lines is a part of its only importer, unless it has a name that every app has, or a reason.
SMALL = 80
USUAL_NAMES = frozenset(
    {"access", "apps", "checks", "forms", "models", "queries", "services", "tables", "tasks", "urls", "views"}
)
ALONE = {
    # Read before anything else is there, or run as a program of its own.
    "console.web.logs",
    # A table of handlers, or what goes into one.
    "brokercore.server.handlers",
    # A boundary that is to be read alone: who may pass it, and what is kept when something fails.
    "console.audit.record.unwritten",
    "console.audit.record.masking",
    "console.audit.record.triggers",
    "console.audit.retention",
    "console.openapi.rpc.middleware",
    # A format: of a file, a header, a chart, a statement.
    "console.audit.pages.export",
    "brokercore.smq.server.figures",
    "console.jobs.figures",
    "console.pipelines.changes",
    "console.inflow.figures",
    # What stands in for others that give nothing yet.
    "console.inflow.sources",
    # Texts that users begin with.
    "console.jobs.beginnings",
    # A subject of its own beside others like it.
    "brokercore.client.admin",
    "console.accounts.security",
}


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
    assert users == ["console/statements/parser_process.py"]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What each module imports of ours, in functions and for typing too."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    names = [name for name in graph.modules if ".migrations" not in name and not name.endswith(("_pb2", "_pb2_grpc"))]
    return {name: graph.find_modules_directly_imported_by(name) for name in names}


def test_no_modules_import_each_other_in_a_circle(imports: dict[str, set[str]]) -> None:
    """What two need of each other stands below both, or is given by who stands above (console/web/provided.py)."""
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_a_small_module_with_one_importer_has_a_reason(imports: dict[str, set[str]]) -> None:
    """Else a reader opens two files for one idea: it is merged into its importer, or ALONE has it, and nothing else."""
    importers = Counter(other for imported in imports.values() for other in imported)
    found = {
        name
        for name, number in importers.items()
        if number == 1 and not USUAL_NAMES & {*name.split(".")[1:]} and 1 < lines_of(name) < SMALL
    }
    assert sorted(found) == sorted(ALONE)


def lines_of(name: str) -> int:
    path = ROOT.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(file.read_text().splitlines())
