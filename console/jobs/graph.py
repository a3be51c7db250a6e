"""The graph of a job's operators: which reads which, where each stands on the drawing, and the rows that went by. Pure.

Columns of the drawing go with the rows: what is read, then views, then INSERTs, then what is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from django.utils.translation import gettext as _

from analytics.pipelines.plan import Plan
from analytics.pipelines.reports import Report
from console.web.languages import gettext_lazy

WIDTH, HEIGHT = 172, 54
_GAP_X, _GAP_Y, _MARGIN = 92, 22, 8
#: Characters of a name that fit into a node.
_SHOWN = 20
_KINDS = {
    "source": gettext_lazy("source"),
    "table": gettext_lazy("table"),
    "view": gettext_lazy("view"),
    "insert": gettext_lazy("insert"),
    "sink": gettext_lazy("sink"),
}
_WORDS = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)+`|\w+|\S", re.DOTALL)
#: Words that follow a table and are no alias of it.
_NOT_ALIAS = re.compile(
    r"where|group|order|having|join|left|right|full|inner|cross|semi|anti|union|on|using|limit|lateral|window|select"
    r"|intersect|except|natural|sort|cluster|distribute|tablesample"
)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with its place on the drawing."""

    key: str
    kind: str
    """`source`, `table`, `view`, `insert` or `sink`."""
    name: str
    detail: str
    x: int
    y: int
    rows_in: int | None
    rows_out: int | None
    reads: tuple[str, ...]
    """Names of what it reads."""
    line: int | None = None

    @property
    def word(self) -> str:
        """Its kind in the visitor's language."""
        return _KINDS[self.kind]

    @property
    def shown(self) -> str:
        """The name as far as it fits."""
        return self.name if len(self.name) <= _SHOWN else f"{self.name[: _SHOWN - 1]}…"

    @property
    def middle(self) -> int:
        """Where its texts stand, from the left."""
        return self.x + WIDTH // 2

    @property
    def name_y(self) -> int:
        """Where the name stands, from the top."""
        return self.y + 23

    @property
    def detail_y(self) -> int:
        """Where the detail stands, from the top."""
        return self.y + 40


@dataclass(frozen=True, slots=True)
class Edge:
    """A way of rows, from the right side of a node to the left one of another."""

    path: str
    label_x: int
    label_y: int
    rows: int | None
    """None: not known, or not running yet."""

    @property
    def exact(self) -> str:
        """The rows as they are told on hover; nothing where they are not known."""
        return "" if self.rows is None else f"{self.rows:,}"


@dataclass(frozen=True, slots=True)
class Graph:
    """All of it; sizes are units of the drawing."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    node_width: int = WIDTH
    node_height: int = HEIGHT


@dataclass(slots=True)
class _Operator:
    kind: str
    name: str
    detail: str
    reads: list[str]
    rows_in: int | None = None
    rows_out: int | None = None
    line: int | None = None
    column: int = 0


def of_plan(plan: Plan, report: Report | None = None) -> Graph:
    """The graph of a plan, with the rows that a report tells of."""
    operators = _operators(plan, report)
    views = [one for one in operators.values() if one.kind == "view"]
    for view in views:  # a view stands behind those that it reads, so one walk finds all columns
        view.column = 1 + max((operators[key].column for key in view.reads), default=0)
    last = 1 + max((one.column for one in operators.values()), default=0)
    for one in operators.values():
        if one.kind in ("insert", "sink"):
            one.column = last + (one.kind == "sink")
    return _drawn(operators)


def _operators(plan: Plan, report: Report | None) -> dict[str, _Operator]:
    counted: Mapping[str, int] = report.operators if report is not None else {}
    found: dict[str, _Operator] = {}
    places: dict[str, str] = {}
    for source in plan.sources:
        key = places[source.name.lower()] = f"source:{source.name}"
        detail = f"{source.connector}, {source.format}" if source.format else source.connector
        found[key] = _Operator("source", source.name, detail, [], rows_out=counted.get(key))
    for schema, table in plan.tables:
        key = places[f"{schema}.{table}".lower()] = f"table:{schema}.{table}"
        found[key] = _Operator("table", f"{schema}.{table}", _("table of the catalog"), [])
    for view in plan.views:
        key = f"view:{view.name}"
        reads = _reads(view.sql, places)
        rows_in = _sum(found[one].rows_out for one in reads)
        found[key] = _Operator("view", view.name, _("view"), reads, rows_in, counted.get(key))
        places[view.name.lower()] = key
    sinks = {sink.name.lower(): sink for sink in plan.sinks}
    for number, insert in enumerate(plan.inserts):
        told = report.inserts[number] if report is not None and number < len(report.inserts) else None
        key, sink = f"insert:{number}", sinks.get(insert.sink.lower())
        reads = _reads(insert.sql, places)
        rows_in, rows_out = (None, counted.get(key))
        if told is not None and told.batch is not None:
            rows_in, rows_out = told.rows_in, told.rows_out
        # What the ways to it tell, for what is read by way of a view is less than what Spark read for the INSERT.
        passed = _sum(found[one].rows_out for one in reads)
        rows_in = rows_in if passed is None else passed
        found[key] = _Operator(
            "insert",
            _("INSERT, line %(line)s") % {"line": insert.line},
            insert.output,
            reads,
            rows_in,
            rows_out,
            insert.line,
        )
        written = found.setdefault(
            f"sink:{insert.sink.lower()}",
            _Operator("sink", sink.name if sink else insert.sink, sink.connector if sink else "", []),
        )
        written.reads.append(key)
    for one in found.values():
        if one.kind == "sink":
            one.rows_in = _sum(found[key].rows_out for key in one.reads)
    return found


def _reads(sql: str, places: Mapping[str, str]) -> list[str]:
    """Keys of what a query reads, each once, in the order in which it names them."""
    return list(dict.fromkeys(places[name] for name in named_tables(sql) if name in places))


def named_tables(sql: str) -> Iterator[str]:
    """Names behind FROM and JOIN in small letters, `schema.table` where there are two parts; of a list all."""
    words = [one for one in _WORDS.findall(sql) if not one.startswith("'")]
    expected = False
    place = 0
    while place < len(words):
        word = words[place]
        if word.lower() in ("from", "join"):
            expected = True
        elif expected and (word.startswith("`") or word.isidentifier()) and word.lower() != "lateral":
            parts = [_plain(word)]
            while words[place + 1 : place + 2] == ["."] and place + 2 < len(words):
                parts.append(_plain(words[place + 2]))
                place += 2
            yield ".".join(parts).lower()
            place = _behind_alias(words, place)
            # `FROM a AS x, b` goes on with another table.
            expected = words[place + 1 : place + 2] == [","]
            place += expected
        else:
            expected = False
        place += 1


def _behind_alias(words: list[str], place: int) -> int:
    """The place of the last word of the alias behind a table; the table's own without one."""
    following = [one.lower() for one in words[place + 1 : place + 3]]
    if following[:1] == ["as"] and len(following) == 2:
        return place + 2
    is_name = bool(following) and (following[0].startswith("`") or following[0].isidentifier())
    return place + (is_name and not _NOT_ALIAS.fullmatch(following[0]))


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _drawn(operators: dict[str, _Operator]) -> Graph:
    ways = {(read, key): _between(operators, read, key) for key, one in operators.items() for read in one.reads}
    columns: dict[int, list[str]] = {}
    for key, one in operators.items():
        columns.setdefault(one.column, []).append(key)
    for places in ways.values():
        for column, place in places:
            columns.setdefault(column, []).append(place)
    tops, height = _placed(columns, ways, operators)
    nodes = {
        key: Node(
            key, one.kind, one.name, one.detail, _MARGIN + one.column * (WIDTH + _GAP_X), tops[key],
            one.rows_in, one.rows_out, tuple(operators[read].name for read in one.reads), one.line,
        )
        for key, one in operators.items()
    }  # fmt: skip
    edges = tuple(
        _edge(nodes[read], nodes[key], [tops[place] for _unused, place in places])
        for (read, key), places in ways.items()
    )
    width = (max(columns, default=0) + 1) * (WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    return Graph(tuple(nodes.values()), edges, width, height + 2 * _MARGIN)


def _between(operators: dict[str, _Operator], read: str, key: str) -> list[tuple[int, str]]:
    """Where a way goes by other nodes: a place of its own in each column between its ends."""
    return [(c, f"{read} {c} {key}") for c in range(operators[read].column + 1, operators[key].column)]


def _placed(
    columns: dict[int, list[str]],
    ways: Mapping[tuple[str, str], list[tuple[int, str]]],
    operators: Mapping[str, _Operator],
) -> tuple[dict[str, int], int]:
    """The top of each node, and the height of each place of a way, from the top; and how high it all is.

    Each column stands in the order of what it reads, so that few ways cross.
    """
    before: dict[str, list[str]] = {}
    for (read, key), places in ways.items():
        through = [read, *(place for _unused, place in places), key]
        for start, end in pairwise(through):
            before.setdefault(end, []).append(start)
    sizes = {key: HEIGHT if key in operators else 0 for keys in columns.values() for key in keys}
    heights = {c: sum(sizes[key] for key in keys) + _GAP_Y * (len(keys) - 1) for c, keys in columns.items()}
    height = max(heights.values(), default=HEIGHT)
    tops: dict[str, int] = {}
    for column in sorted(columns):
        place = {key: number for number, key in enumerate(columns[column])}
        middles = {
            key: fmean(tops[one] + sizes[one] / 2 for one in before[key]) if key in before else place[key]
            for key in columns[column]
        }
        y = _MARGIN + (height - heights[column]) // 2
        for key in sorted(columns[column], key=lambda key: (middles[key], place[key])):
            tops[key] = y
            y += sizes[key] + _GAP_Y
    return tops, height


def _edge(start: Node, end: Node, places: list[int]) -> Edge:
    bend = _GAP_X // 2
    x, y = start.x + WIDTH, start.y + HEIGHT // 2
    path = f"M {x} {y}"
    for passed in places:
        path += f" C {x + bend} {y}, {x + bend} {passed}, {x + _GAP_X} {passed} h {WIDTH}"
        x, y = x + _GAP_X + WIDTH, passed
    end_y = end.y + HEIGHT // 2
    path += f" C {x + bend} {y}, {end.x - bend} {end_y}, {end.x - 5} {end_y}"
    rows = start.rows_out if start.rows_out is not None else (end.rows_in if len(end.reads) == 1 else None)
    # The label stands in the gap before the end, where ways to several nodes are apart already.
    return Edge(path, end.x - bend, (y + end_y) // 2 - 6, rows)


def _sum(counts: Iterator[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
