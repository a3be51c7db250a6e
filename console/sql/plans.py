"""The plan of a statement, as Spark's `explain formatted` writes it, taken apart into a tree of operators.

== Physical Plan ==
* Project (2)
+- * Filter (1)
   +- Scan parquet  (0)

(1) Filter [codegen id : 1]
Input [2]: [a#1, b#2]
Condition : isnotnull(a#1)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from console.sql.models import QueryTask

#: Deeper operators are shown at this depth.
DEEPEST = 16
_BRANCH = re.compile(r"^(?P<indent>(?:[ :]{3})*)(?P<joint>[+:]- )?(?P<rest>\S.*)$")
_OPERATOR = re.compile(r"^(?P<fused>\* ?)?(?P<name>.+?)\s*\((?P<number>\d+)\)$")
_DETAIL_HEAD = re.compile(r"^\((?P<number>\d+)\) (?P<title>.+)$")
_INDENT = 3

#: `position` is Spark's and counts from 0, `column` is the guard's and counts from 1.
_PLACE = re.compile(r"\(line (?P<line>\d{1,7}), (?P<unit>position|column) (?P<number>\d{1,7})\)")


@dataclass(slots=True)
class Operator:
    """One operator of the plan; `depth` is 0 at the top, `fused` tells code generated for several at once."""

    depth: int
    name: str
    number: int = 0
    fused: bool = False
    facts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def level(self) -> int:
        """The depth as far as it is drawn."""
        return min(self.depth, DEEPEST)

    @property
    def summary(self) -> str:
        """The one fact that tells most: what is read, on what is joined, by what it is grouped."""
        named = dict(self.facts)
        for label in ("Condition", "Join condition", "Left keys", "Keys", "Location", "Arguments", "Output"):
            for known, value in named.items():
                if known.startswith(label) and value not in ("[]", "None", ""):
                    return value
        return ""


def parse(lines: Sequence[str]) -> list[Operator]:
    """The operators from the top down; empty for a plan of another form, which then is shown as it stands."""
    operators: list[Operator] = []
    details: dict[int, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    in_tree = False
    for line in _lines(lines):
        if line.startswith("== "):
            in_tree, current = line.startswith("== Physical Plan") and not operators, None
        elif head := _DETAIL_HEAD.match(line):
            in_tree, current = False, details.setdefault(int(head["number"]), [])
        elif not line.strip():
            in_tree, current = in_tree and not operators, None
        elif in_tree:
            operators += _operator(line)
        elif current is not None:
            label, separator, value = line.partition(":")
            current.append((label.strip(), value.strip()) if separator else ("", line.strip()))
    for operator in operators:
        operator.facts = details.get(operator.number, [])
    return operators


def _lines(lines: Iterable[str]) -> Iterable[str]:
    for cell in lines:
        yield from cell.split("\n")


def _operator(line: str) -> list[Operator]:
    branch = _BRANCH.match(line)
    if branch is None:
        return []
    depth = len(branch["indent"]) // _INDENT + (1 if branch["joint"] else 0)
    found = _OPERATOR.match(branch["rest"])
    if found is None:
        return [Operator(depth, branch["rest"])]
    return [Operator(depth, found["name"].strip(), int(found["number"]), bool(found["fused"]))]


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column of the text as it was submitted, both from 1."""

    line: int
    column: int


def place_of(task: QueryTask) -> Place | None:
    """The place that the message of a failed task names, in its `command`; None when it names none."""
    return placed(task.message, task.command, task.statement)


def placed(message: str, command: str, statement: str) -> Place | None:
    """Messages count in the statement, which stands in the command behind the hint."""
    found = _PLACE.search(message)
    if found is None:
        return None
    line, column = int(found["line"]), int(found["number"]) + (found["unit"] == "position")
    before = command[: max(command.find(statement), 0)]
    if line == 1:
        column += len(before) - (before.rfind("\n") + 1)
    return Place(line + before.count("\n"), column)
