"""The second opinion on a statement for Spark Connect: what the server's own parser made of it.

A Connect client has no parser of Spark, so the guard there works on a parse of ours (`second_guard`), and two parsers
may differ. Before a statement runs, the server is asked to explain it, which executes nothing: its parsed plan must be
made of the nodes that are allowed, and name views of this statement only.
"""

import re
from collections.abc import Collection

from analytics.errors import QueryRefused
from analytics.sql import allowed

_SECTIONS = ("== Parsed Logical Plan ==\n", "== Analyzed Logical Plan ==\n", "== Optimized Logical Plan ==\n")
#: A node is on the first line or behind a branch of the tree; every other line belongs to a text with line ends.
_BRANCH = re.compile(r"[: ]*[+:]- ")
_NODE = re.compile(r"'?(\w+)")
_RELATION = re.compile(r"'?UnresolvedRelation \[([^\[\]]+)\], \[\], false")
_COMMON = re.compile(r"'?CTE \[(.*)\]")
#: How nodes are written that have another name as a class; PipeOperator is one of the expressions' package.
_WRITTEN = {"UnresolvedWith": "CTE"}
_NODES = frozenset(
    ["PipeOperator", *(_WRITTEN.get(name, name) for name in (name.rpartition(".")[2] for name in allowed.PLAN_NODES))]
)
_REACHING = re.compile(r"\b(?:reflect|java_method|try_reflect)\(", re.IGNORECASE)
_LIMIT = re.compile(r"GlobalLimit (\d+)")


def check(explained: str, views: Collection[str], first_word: str) -> None:
    """Raise QueryRefused unless the plan, as `explain extended` tells it, is a query on the views alone."""
    if any(explained.count(title.strip()) != 1 for title in _SECTIONS):
        raise QueryRefused("The statement has a text in it that looks like a plan of Spark; leave it out.")
    plan = explained.partition(_SECTIONS[0])[2].partition(_SECTIONS[1])[0].rstrip()
    nodes = [line for line in _node_lines(plan) if line]
    common = {name.strip().lower() for node in nodes if (found := _COMMON.match(node)) for name in found[1].split(",")}
    known = {view.lower() for view in views} | common
    for node in nodes:
        _see(node, known, first_word)
    if _REACHING.search(plan):
        raise QueryRefused("A function that calls Java is not allowed: it reaches beyond the tables of the statement.")


def most_rows(explained: str) -> int | None:
    """The LIMIT of the optimised plan, if it ends with one."""
    found = _LIMIT.match(explained.partition(_SECTIONS[2])[2])
    return int(found[1]) if found else None


def _node_lines(plan: str) -> list[str]:
    lines = plan.splitlines()
    return lines[:1] + [line[found.end() :] for line in lines[1:] if (found := _BRANCH.match(line))]


def _see(node: str, known: Collection[str], first_word: str) -> None:
    found = _NODE.match(node)
    name = found[1] if found else node
    if name not in _NODES:
        what = allowed.NODE_WORDS.get(name, first_word)
        raise QueryRefused(f"{what}: not allowed here; only queries are (SELECT, WITH, VALUES, FROM, TABLE).")
    if name == "UnresolvedRelation":
        relation = _RELATION.match(node)
        if relation is None or relation[1].lower() not in known:
            raise QueryRefused("The statement names a table that is not one of its own.")
