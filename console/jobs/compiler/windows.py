"""Windows of time as the vendor writes them, and as Spark wants them. Pure.

`TUMBLE(TABLE t, DESCRIPTOR(ts), size)`, HOP and SESSION stand where a table does and give `window_start`, `window_end`
and `window_time`. Spark groups by `window(ts, …)`, and only that keeps the watermark; so in a query that groups by
`window_start, window_end` the function becomes its table and the two columns become the group, and in one that does not
group they become columns. The older `GROUP BY TUMBLE(ts, size)` with `TUMBLE_START(ts, size)` is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from console.jobs.compiler.functions import call, text
from console.statements.lexer import Token

#: Makes the refusal of what stands at a node.
Refusal = Callable[[exp.Expr, str], Exception]

_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
#: Function → its intervals in their order, and how many must be given.
_KINDS = {
    "TUMBLE": (("SIZE", "OFFSET"), 1),
    "HOP": (("SLIDE", "SIZE", "OFFSET"), 2),
    "SESSION": (("GAP",), 1),
}
FUNCTIONS = frozenset({*_KINDS, "CUMULATE"})
_START, _END, _TIME = "window_start", "window_end", "window_time"
COLUMNS = (_START, _END, _TIME)
#: What the functions that tell about an older window end with → its column.
_ABOUT = {"START": _START, "END": _END, "ROWTIME": _TIME, "PROCTIME": _TIME}
#: The blank that a word of the grammar is overwritten with, which keeps the places of all others.
_BLANK = " "


@dataclass(slots=True)
class Partitioned:
    """`SESSION(TABLE t PARTITION BY key, …)`: the keys, which the query must group by, and the place."""

    keys: tuple[str, ...]
    at: Token


def plain(written: str, tokens: list[Token], base: int) -> tuple[str, list[Partitioned]]:
    """The query's text with the functions as ordinary ones, every character that is left in its place.

    `TABLE(` … `)` around a function goes, and `TABLE` and `PARTITION BY …` within it.
    """
    characters = list(written)
    partitioned = []
    open_wrappers: list[int] = []
    depth = 0
    for at, token in enumerate(tokens):
        before, after = tokens[at - 1] if at else None, tokens[at + 1] if at + 1 < len(tokens) else None
        if token.key == "(":
            depth += 1
        elif token.key == ")":
            if open_wrappers and open_wrappers[-1] == depth:
                open_wrappers.pop()
                _erase(characters, token, base)
            depth -= 1
        if token.key != "table" or before is None or after is None:
            continue
        if after.key == "(" and before.key in ("from", "join", ","):
            _erase(characters, token, base)
            _erase(characters, after, base)
            open_wrappers.append(depth + 1)
        elif before.key in ("(", ">"):
            _erase(characters, token, base)
            if (found := _partition(characters, tokens, at, base)) is not None:
                partitioned.append(found)
    return "".join(characters), partitioned


def _erase(characters: list[str], token: Token, base: int) -> None:
    start = token.start - base
    characters[start : start + len(token.written)] = _BLANK * len(token.written)


def _partition(characters: list[str], tokens: list[Token], at: int, base: int) -> Partitioned | None:
    """Take `PARTITION BY a, b` away, up to the comma in front of the next argument."""
    first = at + 2
    while first < len(tokens) and tokens[first].key == ".":
        first += 2
    if [one.key for one in tokens[first : first + 2]] != ["partition", "by"]:
        return None
    end = first
    while end < len(tokens) and tokens[end].key != "descriptor" and not _is_named(tokens, end):
        end += 1
    part = tokens[first : max(first, end - 1)]  # the comma stays
    for token in part:
        _erase(characters, token, base)
    keys = tuple(one.value for one in part[2:] if one.kind in ("word", "name"))
    return Partitioned(keys, tokens[first])


def _is_named(tokens: list[Token], at: int) -> bool:
    return [one.key for one in tokens[at + 1 : at + 3]] == ["=", ">"]


@dataclass(frozen=True, slots=True)
class Window:
    """A window over a column of time: what Spark calls it with, and where the query's rows come from."""

    kind: str
    column: exp.Column
    #: For `window` or `session_window`, behind the column, such as `5 minutes`.
    intervals: tuple[str, ...]
    #: None for an older one, which stands in GROUP BY.
    table: exp.Table | None = None

    @property
    def struct(self) -> str:
        """What Spark calls the pair of start and end."""
        return "session_window" if self.kind == "SESSION" else "window"

    def expression(self) -> exp.Expr:
        """As a group of Spark's."""
        return call(self.struct, self.column.copy(), *(text(one) for one in self.intervals))

    def part(self, name: str, of: exp.Expr | None = None) -> exp.Expr:
        """`window_start`, `window_end` or `window_time` of `of`, which is the group unless it is given."""
        pair = of if of is not None else exp.Column(this=exp.to_identifier(self.struct))
        field = exp.Dot(this=pair, expression=exp.to_identifier("start" if name == _START else "end"))
        if name != _TIME:
            return field
        step = exp.Interval(this=text("1"), unit=exp.Var(this="MILLISECOND"))
        return exp.Paren(this=exp.Sub(this=field, expression=step))


def of_table(table: exp.Table, refusal: Refusal) -> Window | None:
    """The window that stands where a table does, or None for another table."""
    function = table.this
    if not isinstance(function, exp.Anonymous) or function.name.upper() not in FUNCTIONS:
        return None
    kind = _kind(function, refusal)
    arguments = _named(function, ("DATA", "TIMECOL", *_KINDS[kind][0]), refusal)
    data, descriptor = arguments.get("DATA"), arguments.get("TIMECOL")
    if not isinstance(data, exp.Column):
        raise refusal(function, f"{kind} is written {_usage(kind)}.")
    if not isinstance(descriptor, exp.Anonymous) or descriptor.name.upper() != "DESCRIPTOR":
        raise refusal(function, f"{kind} needs the column of time as DESCRIPTOR(column): {_usage(kind)}.")
    column = descriptor.expressions[0] if len(descriptor.expressions) == 1 else None
    if not isinstance(column, exp.Column):
        raise refusal(descriptor, "DESCRIPTOR has one column of time.")
    parts = [part.copy() for part in data.parts]
    names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
    return Window(kind, column, _intervals(kind, arguments, function, refusal), exp.Table(**names))


def of_group(function: exp.Expr, refusal: Refusal) -> Window | None:
    """The older window that stands in GROUP BY or is told about in SELECT, or None for another expression."""
    if not isinstance(function, exp.Anonymous) or function.name.upper() not in FUNCTIONS:
        return None
    kind = _kind(function, refusal)
    arguments = _named(function, ("TIMECOL", *_KINDS[kind][0]), refusal)
    column = arguments.get("TIMECOL")
    if not isinstance(column, exp.Column):
        raise refusal(function, f"{kind} in GROUP BY is written {kind}(column, INTERVAL '5' MINUTE).")
    return Window(kind, column, _intervals(kind, arguments, function, refusal))


def told_by(function: exp.Expr) -> str:
    """Which of the three columns `TUMBLE_START(…)` and the like tell; empty for another expression."""
    if not isinstance(function, exp.Anonymous):
        return ""
    kind, _, what = function.name.upper().partition("_")
    return _ABOUT.get(what, "") if kind in _KINDS else ""


def _kind(function: exp.Anonymous, refusal: Refusal) -> str:
    kind = function.name.upper()
    if kind not in _KINDS:
        raise refusal(function, "Spark has no cumulating windows; allowed are TUMBLE, HOP and SESSION.")
    return str(kind)


def _usage(kind: str) -> str:
    intervals = ", ".join(f"INTERVAL '5' MINUTE /* {name.lower()} */" for name in _KINDS[kind][0] if name != "OFFSET")
    return f"{kind}(TABLE t, DESCRIPTOR(ts), {intervals})"


def _named(function: exp.Anonymous, names: tuple[str, ...], refusal: Refusal) -> dict[str, exp.Expr]:
    """The arguments by name, which may be given by place or as `NAME => value`."""
    found = {}
    for at, argument in enumerate(function.expressions):
        name, value = names[at] if at < len(names) else "", argument
        if isinstance(argument, exp.Kwarg):
            name, value = argument.this.name.upper(), argument.expression
        if name not in names:
            raise refusal(function, f"{function.name.upper()} has the arguments {', '.join(names)}, and no others.")
        found[name] = value
    return found


def _intervals(kind: str, arguments: dict[str, exp.Expr], function: exp.Expr, refusal: Refusal) -> tuple[str, ...]:
    names, needed = _KINDS[kind]
    seconds = {}
    for at, name in enumerate(names):
        if name in arguments:
            seconds[name] = _seconds(arguments[name], function, refusal)
        elif at < needed:
            raise refusal(function, f"{kind} needs {needed} interval{'s' if needed > 1 else ''}: {_usage(kind)}.")
    if kind == "SESSION":
        return (_spelled(seconds["GAP"]),)
    if any(seconds[name] == 0 for name in seconds if name != "OFFSET"):
        raise refusal(function, f"an interval of {kind} is 0; allowed are positive ones.")
    size = seconds["SIZE"]
    slide = seconds.get("SLIDE", size)
    if slide > size:
        raise refusal(function, "HOP has a slide above its size, which would leave rows out; the slide comes first.")
    offset = seconds.get("OFFSET", 0)
    if kind == "TUMBLE" and not offset:
        return (_spelled(size),)
    return (_spelled(size), _spelled(slide), *([_spelled(offset)] if offset else []))


def _seconds(interval: exp.Expr, function: exp.Expr, refusal: Refusal) -> int:
    if isinstance(interval, exp.Interval) and interval.this is not None and isinstance(interval.unit, exp.Var):
        unit = interval.unit.name.upper().removesuffix("S")
        if unit in _UNITS and interval.this.name.strip().isdecimal():
            return int(interval.this.name) * _UNITS[unit]
    raise refusal(
        function, "an interval of a window is written INTERVAL '5' MINUTE; its unit is SECOND, MINUTE, HOUR or DAY."
    )


def _spelled(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length} {unit}{'s' if seconds // length > 1 else ''}"
    return f"{seconds} seconds"
