"""The size budget: a module has one subject, a function one thought. What grows past it is split by noun."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("console", "brokercore", "analytics", "launcher", "cli")
MODULE_LINES = 300
FUNCTION_LINES = 45
TEMPLATE_LINES = 150
SCRIPT_LINES = 300


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (p for p in (ROOT / package).rglob("*.py") if "migrations" not in p.parts)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_no_module_is_larger_than_its_budget() -> None:
    assert {str(p.relative_to(ROOT)): lines(p) for p in modules() if lines(p) > MODULE_LINES} == {}


def test_no_function_is_larger_than_its_budget() -> None:
    large = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                own = node.end_lineno - node.body[0].lineno + 1
                documented = isinstance(node.body[0], ast.Expr) and ast.get_docstring(node) is not None
                docstring = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1 if documented else 0
                if own - docstring > FUNCTION_LINES:
                    large[f"{path.relative_to(ROOT)}:{node.name}"] = own - docstring
    assert large == {}


def test_templates_and_scripts_stay_small() -> None:
    templates = {str(p.relative_to(ROOT)): lines(p) for p in (ROOT / "templates").rglob("*.html")}
    assert {name: count for name, count in templates.items() if count > TEMPLATE_LINES} == {}
    scripts = {p.name: lines(p) for p in (ROOT / "static" / "js").glob("*.js")}
    assert {name: count for name, count in scripts.items() if count > SCRIPT_LINES} == {}


def test_no_view_reaches_past_queries_and_services_into_the_tables() -> None:
    """Views get rows from access and queries, and change them by services."""
    found = {}
    for path in modules():
        if path.name == "views.py" or path.parent.name == "views":
            names = [n for n in ("objects.filter", "objects.get", "objects.create", ".save(") if n in path.read_text()]
            if names:
                found[str(path.relative_to(ROOT))] = names
    assert found == {}
