"""Laws of the code that a machine can hold."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
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
    # It brings PySpark, which its importer does without until it is asked.
    "analytics.pipelines.query_trial",
    # A table of handlers, or what goes into one.
    "brokercore.server.handlers",
    # A boundary that is to be read alone: who may pass it, and what is kept when something fails.
    "console.audit.record.unwritten",
    "console.audit.record.masking",
    "console.audit.record.triggers",
    "console.audit.retention",
    "console.openapi.rpc.middleware",
    "console.feeds.leases",
    "brokercore.client.reading",
    # A format: of a file, a header, a chart, a statement.
    "console.audit.pages.export",
    "brokercore.smq.server.figures",
    "console.jobs.figures",
    "console.pipelines.changes",
    "console.inflow.figures",
    "console.alarms.figures",
    # What scripts say, beside which their translation is found.
    "console.web.script_texts",
    # Texts that users begin with.
    "console.jobs.beginnings",
    # This side of a class in Java.
    "analytics.pipelines.batch_gate",
    # Given to accounts, which stand below instances.
    "console.instances.places",
    # A subject of its own beside others like it.
    "console.overview.first_steps",
    "console.cluster.plain",
    "console.demo.team",
    # What every connection is given, by the app.
    "console.web.postgresql",
}
#: Imports in functions of the console. `apps.py` has them too: what it gives is fetched when it is asked for first.
IN_FUNCTIONS = {
    # PySpark, which processes that run no job do without.
    "console.inflow.trials": {"analytics.pipelines.query_trial"},
    "console.pipelines.starts": {"analytics.pipelines.runner"},
    "console.pipelines.worker": {"analytics.pipelines"},
    # The lake, for where a log is: models are loaded by every process.
    "console.tracking.models": {"analytics", "console.catalog.storage"},
    # The library of a database, which a console on SQLite does without.
    "console.web.postgresql": {"psycopg.types.json", "psycopg.types.string"},
}
#: The schedule and the routes of all tasks.
CELERY = ROOT / "console/celery.py"
TASK_NAME = re.compile(r"console(\.\w+)+\.tasks\.\w+")


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


def test_the_console_imports_in_functions_only_what_is_heavy_or_given() -> None:
    """Else an arrow can hide there. The list stands in docs/develop/architecture.md too."""
    found: dict[str, set[str]] = {}
    for path in console_modules():
        functions = [
            node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for node in [inner for function in functions for inner in ast.walk(function) if path.name != "apps.py"]:
            if isinstance(node, ast.Import):
                found.setdefault(name_of(path), set()).update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.setdefault(name_of(path), set()).add(node.module or ".")
    assert found == IN_FUNCTIONS


def test_who_asks_for_a_task_asks_for_one_of_the_same_layer_or_a_lower_one() -> None:
    """A task's name is an arrow that no import shows."""
    makers = {task: maker for path in console_modules() for maker, task in tasks_of(path)}
    asked = [
        (name_of(path), node.value)
        for path in console_modules()
        if path != CELERY
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TASK_NAME.fullmatch(node.value)
    ]
    assert [(asker, task) for asker, task in asked if floor_of(asker) < floor_of(makers[task])] == []


def test_what_is_sent_to_a_worker_is_named_whole() -> None:
    """So that the law above sees it: by a text, or by a constant that holds one."""
    names = [
        (name_of(path), node.args[0])
        for path in console_modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("send_task")
    ]
    made = (ast.JoinedStr, ast.BinOp, ast.Call)
    assert [(asker, name) for asker, name in names if any(isinstance(part, made) for part in ast.walk(name))] == []


def test_the_table_of_floors_is_the_one_that_is_held() -> None:
    """docs/develop/architecture.md names each app of the console once, the lower ones first."""
    page = (ROOT / "docs/develop/architecture.md").read_text()
    table = page[page.index("| floor | apps |") :].split("\n\n", 1)[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w.]+)`", row.split("|")[2])]
    heights = [floor_of(f"console.{name}") for name in named]
    assert heights == sorted(heights)
    apps = {path.parent.name for path in (ROOT / "console").glob("*/__init__.py")} - {"audit"}
    assert sorted(named) == sorted({*apps, "audit.record", "audit.pages"})


def test_each_page_of_the_docs_is_listed() -> None:
    listed = set(re.findall(r"\]\((\w+/[\w-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("*/*.md")}
    assert listed == pages


def console_modules() -> Iterator[Path]:
    yield from (path for path in modules() if path.is_relative_to(ROOT / "console"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def tasks_of(path: Path) -> Iterator[tuple[str, str]]:
    """The module and the names on the wire of the tasks that it makes."""
    for node in parsed(path).body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            written = ast.unparse(decorator)
            if written.startswith("app.task(name="):
                yield name_of(path), written.removeprefix("app.task(name=").strip("'()")
            elif written == "shared_task":
                yield name_of(path), f"{name_of(path)}.{node.name}"  # type: ignore[attr-defined]


@cache
def floors() -> dict[str, int]:
    """How high the layers of the console stand; the lowest is 0."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return {name.strip(): n for n, layer in enumerate(reversed(layers)) for name in re.split(r"[|:]", layer)}


def floor_of(module: str) -> int:
    inside = module.removeprefix("console.").split(".")
    return next(floors()[name] for n in range(len(inside), 0, -1) if (name := ".".join(inside[:n])) in floors())


def lines_of(name: str) -> int:
    path = ROOT.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(file.read_text().splitlines())
