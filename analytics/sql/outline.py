"""Looks at the text of a statement before any parser does: what would keep a parser or an analyser busy is refused.

Each limit is where Spark needs a few seconds (docs/develop/analytics.md has the figures); people write a tenth of it.
The walk is one pass over the tokens, so refusing takes milliseconds whatever the text.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from analytics.errors import QueryRefused

#: Characters of a text, elements of an array.
MOST_ELEMENTS = 1_000_000
#: Partitions of range(), rows of stack(): each costs the driver.
_MOST_PARTS = 10_000
#: Overlapping windows: Spark writes an expression for each.
_MOST_WINDOWS = 1000

#: Function (upper case) → number of the argument (from 0) → smallest and greatest value.
_NUMBERS: dict[str, tuple[int, float, float]] = {
    "REPEAT": (1, -math.inf, MOST_ELEMENTS),
    "SPACE": (0, -math.inf, MOST_ELEMENTS),
    "LPAD": (1, -math.inf, MOST_ELEMENTS),
    "RPAD": (1, -math.inf, MOST_ELEMENTS),
    "RANDSTR": (0, -math.inf, MOST_ELEMENTS),
    "ARRAY_REPEAT": (1, -math.inf, MOST_ELEMENTS),
    "ARRAY_INSERT": (1, -MOST_ELEMENTS, MOST_ELEMENTS),
    "HISTOGRAM_NUMERIC": (1, -math.inf, _MOST_PARTS),
    "STACK": (0, -math.inf, _MOST_PARTS),
    "RANGE": (3, -math.inf, _MOST_PARTS),
    "FORMAT_NUMBER": (1, -math.inf, 1000),
    "ROUND": (1, -1000, 1000),
    "BROUND": (1, -1000, 1000),
    "CEIL": (1, -1000, 1000),
    "CEILING": (1, -1000, 1000),
    "FLOOR": (1, -1000, 1000),
    "APPROX_COUNT_DISTINCT": (1, 0.005, math.inf),
    "REPARTITION": (0, -math.inf, _MOST_PARTS),
    "REPARTITION_BY_RANGE": (0, -math.inf, _MOST_PARTS),
    "REBALANCE": (0, -math.inf, _MOST_PARTS),
    "COUNT_MIN_SKETCH": (1, 0.00001, math.inf),
}
_DIGITS = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_WIDTH = re.compile(r"\d{7,}")
_SPAN = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(microsecond|millisecond|second|minute|hour|day|week)", re.IGNORECASE)
_SECONDS = {
    **{"microsecond": 1e-6, "millisecond": 1e-3, "second": 1, "minute": 60},
    **{"hour": 3600, "day": 86_400, "week": 604_800},
}

#: A quote that is never closed matches as a sign and ends the walk, so no text is looked at twice.
_TOKEN = re.compile(
    r"""
    (?P<space>\s++)
  | (?P<line>--(?:\\\n|[^\r\n])*+)
  | (?P<comment>/\*(?!\+))
  | (?P<text>[rR]'[^']*+' | [rR]"[^"]*+" | '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+")
  | (?P<quoted>`[^`]*+`)
  | (?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?:BD|[LSYDFlsydf])?+(?![\w]))
  | (?P<word>\w++)
  | (?P<dollar>\$[A-Za-z]*+\$)
  | (?P<sign>\|> | \|\| | :: | <=> | >>> | [<>!=]=? | << | -> | => | .)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Comments in comments; each level is one of Spark's lexer.
_MOST_COMMENTS = 8
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")

MAX_BYTES = 256 * 1024
MAX_TOKENS = 50_000
#: Nested parentheses, brackets and CASEs: at a few thousand the parser is busy for seconds and then out of stack.
MAX_DEPTH = 64
#: Nested types, as array<array<…>>: 300 keep the parser busy for 12 s.
MAX_TYPE_DEPTH = 24
#: Operators in a row: each one is a level of the plan.
MAX_CHAIN = 1000
#: UNION, EXCEPT, INTERSECT · JOIN, LATERAL · |> in a statement.
MAX_COUNTS = {"set operations": 500, "joins": 200, "steps (|>)": 300}
#: Times that WITH names are read when each is replaced by its query, which is what Spark does.
MAX_EXPANSION = 1000
#: Grouping sets of all CUBEs, ROLLUPs and GROUPING SETS; columns multiplied by `select *, *`.
MAX_GROUPING_SETS = 4096
MAX_STARS = 100

_OPENING, _CLOSING = frozenset("(["), frozenset(")]")
_OPERATORS = frozenset([*"+-*/%|&^~!=<>.:", "||", "==", "!=", "<>", "<=", ">=", "<=>", "<<", ">>>", "::", "->", "=>"])
_OPERATOR_WORDS = frozenset({"NOT", "DIV", "LIKE", "ILIKE", "RLIKE", "REGEXP", "COLLATE", "IS", "BETWEEN"})
_RESETS = frozenset({"AND", "OR", "SELECT", "FROM", "WHERE", "WHEN", "THEN", "ELSE", "ON", "BY", "VALUES"})
_COUNTED = {
    **dict.fromkeys(("UNION", "EXCEPT", "INTERSECT", "MINUS"), "set operations"),
    **dict.fromkeys(("JOIN", "LATERAL"), "joins"),
    "|>": "steps (|>)",
}
_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})
_BEFORE_RELATION = frozenset({"FROM", "JOIN", ",", "TABLE", "("})


def check_bounds(name: str, arguments: list[str | None]) -> None:
    """Raise QueryRefused when a literal argument of the function `name` (upper case) is beyond its bound."""
    if name in _NUMBERS:
        number, least, most = _NUMBERS[name]
        value = _number(arguments[number]) if len(arguments) > number else None
        if value is not None and not least <= value <= most:
            limits = f"at most {most:,}" if value > most else f"at least {least:,}"
            raise QueryRefused(f"{name.lower()}: argument {number + 1} is {arguments[number]}; {limits} is allowed.")
    elif name == "SEQUENCE":
        _sequence(arguments)
    elif name in {"FORMAT_STRING", "PRINTF"} and arguments and _WIDTH.search(arguments[0] or ""):
        raise QueryRefused(f"{name.lower()}: a width of more than 6 digits is not allowed.")
    elif name in {"WINDOW", "SESSION_WINDOW"}:
        _window(arguments)


def _sequence(arguments: list[str | None]) -> None:
    numbers = [_number(argument) for argument in arguments]
    if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
        return
    step = abs((numbers[2] if len(numbers) > 2 else 1) or 1)
    elements = abs(numbers[1] - numbers[0]) / step
    if elements > MOST_ELEMENTS:
        raise QueryRefused(f"sequence: {elements:,.0f} elements; at most {MOST_ELEMENTS:,} are allowed.")


def _window(arguments: list[str | None]) -> None:
    if len(arguments) < 3:
        return
    length, slide = _seconds(arguments[1]), _seconds(arguments[2])
    if length and slide and length / slide > _MOST_WINDOWS:
        raise QueryRefused(
            f"window: {length / slide:,.0f} windows overlap at each moment; at most {_MOST_WINDOWS:,} are allowed."
        )


def _number(literal: str | None) -> float | None:
    found = _DIGITS.match(literal) if literal else None
    return float(found.group()) if found and len(found.group()) < 400 else None


def _seconds(literal: str | None) -> float:
    """The length of an interval in a text; a number counts microseconds, as in Spark."""
    if literal is None:
        return 0
    if literal[0].isdigit():
        return (_number(literal) or 0) * 1e-6
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in _SPAN.findall(literal))


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is text, quoted (a name in backticks), number, word or sign; words are in upper case."""

    kind: str
    text: str
    start: int


def tokens(sql: str) -> Iterator[Token]:
    """The tokens in order, without blanks and comments. Raises QueryRefused for what cannot be split."""
    position, end = 0, len(sql)
    while position < end:
        found = _TOKEN.match(sql, position)
        if found is None or found.lastgroup is None:
            raise QueryRefused(f"The statement cannot be read near character {position + 1}.")
        kind, text = found.lastgroup, found.group()
        start, position = position, found.end()
        match kind:
            case "comment":
                position = _end_of_comment(sql, start)
            case "dollar":
                raise QueryRefused(f"Texts between {text} and {text} are not allowed; write '…'.")
            case "word":
                yield Token(kind, text.upper(), start)
            case "sign":
                _require_readable(text, start)
                yield Token(kind, text, start)
            case "text" | "quoted" | "number":
                yield Token(kind, text, start)


def _end_of_comment(sql: str, start: int) -> int:
    """Where a comment ends; comments stand in each other."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() != "*/" else -1
        if depth == 0:
            return edge.end()
        if depth > _MOST_COMMENTS:
            raise QueryRefused(f"Comments are nested more than {_MOST_COMMENTS} levels deep, the most that is allowed.")
    raise QueryRefused(f"The comment at character {start + 1} is not closed: end it with */.")


def _require_readable(sign: str, start: int) -> None:
    if sign in {"'", '"', "`"}:
        raise QueryRefused(f"The quote {sign} at character {start + 1} is not closed.")
    if unicodedata.category(sign[0]) in {"Cc", "Cf", "Cn", "Co", "Cs"}:
        raise QueryRefused(
            f"There is an invisible character (U+{ord(sign[0]):04X}) at character {start + 1}, outside of quotes;"
            " remove it."
        )


def check(sql: str) -> str:
    """Return the first word of the statement in upper case, such as SELECT.

    Raises QueryRefused for a statement that is empty, too large, too deeply nested, or larger than it looks.
    """
    size = len(sql) if len(sql) > MAX_BYTES else len(sql.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise QueryRefused(f"The statement has {size:,} bytes; at most {MAX_BYTES:,} are allowed.")
    outline = _Outline()
    for token in tokens(sql):
        outline.see(token)
    outline.finish()
    if not outline.first:
        raise QueryRefused("There is no statement.")
    return outline.first


@dataclass(slots=True)
class _Frame:
    """What is known of one level of nesting: of the text between two brackets."""

    #: The function, or what else the name before the bracket is; empty for none.
    name: str = ""
    #: The WITH name whose query this is.
    common: str = ""
    chain: int = 0
    stars: int = 0
    #: Items of GROUP BY so far.
    items: int = 0
    #: How often WITH names are read in it.
    expansion: int = 0
    arguments: list[str | None] = field(default_factory=list)
    #: The current argument while it is one literal.
    literal: str | None = None
    size: int = 0
    #: What stood before the bracket, to see `name (columns) as (`.
    before: str = ""

    def note(self, token: Token) -> None:
        """Remember the argument while it is one literal; a sign in front of a number belongs to it."""
        if self.size == 0 and token.text in {"-", "+"}:
            self.literal = token.text
            return
        sign = self.literal or "" if self.size == 0 and token.kind == "number" else ""
        self.size += 1
        self.literal = sign + token.text if token.kind in {"number", "text"} and self.size == 1 else None

    def end_argument(self) -> None:
        """The argument is whole."""
        self.arguments.append(self.literal if self.size == 1 else None)
        self.literal, self.size = None, 0


class _Outline:
    def __init__(self) -> None:
        self.first = ""
        self._count = 0
        self._frames = [_Frame()]
        self._types = 0
        self._counts = dict.fromkeys(MAX_COUNTS, 0)
        self._common: dict[str, int] = {}
        self._pending_reference = ""
        self._sets = 1
        self._stars = 1
        #: The last tokens, latest last.
        self._last = ["", "", "", ""]
        self._closed_before = ""

    def see(self, token: Token) -> None:
        """Take notice of the next token; raises QueryRefused at the first limit that it breaks."""
        self._count += 1
        if self._count > MAX_TOKENS:
            raise QueryRefused(f"The statement has more than {MAX_TOKENS:,} words and signs, the most that is allowed.")
        text = _name_of(token)
        if not self.first and token.kind == "word":
            self.first = text
        self._reference(token, text)
        frame = self._frames[-1]
        if token.kind in {"sign", "word"}:
            self._structure(frame, token, text)
        if self._frames[-1] is frame and text != ",":
            frame.note(token)
        self._last = [*self._last[1:], text]

    def finish(self) -> None:
        """The text has ended; what is still open is closed."""
        self._reference(Token("sign", ";", 0), ";")
        while len(self._frames) > 1:
            self._close()
        self._end_of_select(self._frames[0])
        self._limit(self._frames[0].expansion, MAX_EXPANSION, "WITH names are read more than {} times")

    def _structure(self, frame: _Frame, token: Token, text: str) -> None:
        if self._type(text):
            return
        if text in _OPENING or text == "CASE":
            if text == "[":
                self._chain(frame)
            self._open(text)
        elif text in _CLOSING or text == "END":
            if len(self._frames) > 1:
                self._close()
        elif text in _OPERATORS or text in _OPERATOR_WORDS:
            if text == "*" and self._last[-1] in {"SELECT", ",", "DISTINCT", "ALL"}:
                frame.stars += 1
            self._chain(frame)
        elif text in _COUNTED:
            self._number_of(_COUNTED[text])
        else:
            self._separator(frame, text)

    def _separator(self, frame: _Frame, text: str) -> None:
        if text == ",":
            frame.chain = 0
            frame.items += 1
            frame.end_argument()
        elif text in _RESETS:
            frame.chain = 0
            if text == "SELECT":
                self._end_of_select(frame)
            elif text == "BY":
                frame.items = 1
        elif text == "CUBE" and self._last[-1] == "WITH":
            self._group(2 ** min(frame.items, 30))

    def _type(self, text: str) -> bool:
        """Whether the sign is of a type such as array<int>."""
        if text == "<" and self._last[-1] in _TYPES:
            self._types += 1
            self._limit(self._types, MAX_TYPE_DEPTH, "Types are nested more than {} levels deep")
            return True
        if self._types and text in {">", ">>>"}:
            self._types = max(0, self._types - len(text))
            return True
        return False

    def _open(self, text: str) -> None:
        name = self._last[-1] if text == "(" else ""
        frame = _Frame(name=name, before=name)
        if text == "(" and name == "AS":
            # `name as (` and `name (columns) as (`
            frame.common = self._closed_before if self._last[-2] == ")" else self._last[-2]
        self._frames.append(frame)
        self._limit(len(self._frames) - 1, MAX_DEPTH, "The statement is nested more than {} levels deep")

    def _close(self) -> None:
        frame = self._frames.pop()
        self._end_of_select(frame)
        self._closed_before = frame.before
        if frame.size or frame.arguments:
            frame.end_argument()
        if frame.name in {"CUBE", "ROLLUP", "SETS"}:
            count = len(frame.arguments)
            self._group({"CUBE": 2 ** min(count, 30), "ROLLUP": count + 1, "SETS": max(count, 1)}[frame.name])
        check_bounds(frame.name, frame.arguments)
        self._limit(frame.expansion, MAX_EXPANSION, "WITH names are read more than {} times")
        if frame.common:
            self._common[frame.common] = frame.expansion + 1
        else:
            self._frames[-1].expansion += frame.expansion

    def _reference(self, token: Token, text: str) -> None:
        """Count a WITH name that is read: one behind FROM, JOIN or a comma that no dot or parenthesis follows."""
        if self._pending_reference and text not in {".", "("}:
            self._frames[-1].expansion += self._common.get(self._pending_reference, 0)
        is_name = token.kind in {"word", "quoted"} and text in self._common
        self._pending_reference = text if is_name and self._last[-1] in _BEFORE_RELATION else ""

    def _end_of_select(self, frame: _Frame) -> None:
        if frame.stars > 1:
            self._stars *= frame.stars
            self._limit(self._stars, MAX_STARS, "All columns (*) are selected more than {} times over")
        frame.stars = 0

    def _chain(self, frame: _Frame) -> None:
        frame.chain += 1
        self._limit(frame.chain, MAX_CHAIN, "There are more than {} operators in a row")

    def _number_of(self, what: str) -> None:
        self._counts[what] += 1
        self._limit(self._counts[what], MAX_COUNTS[what], "There are more than {} " + what)

    def _group(self, sets: int) -> None:
        self._sets *= sets
        self._limit(self._sets, MAX_GROUPING_SETS, "CUBE, ROLLUP and GROUPING SETS make more than {} groupings")

    def _limit(self, value: int, most: int, sentence: str) -> None:
        if value > most:
            raise QueryRefused(sentence.format(f"{most:,}") + ", the most that is allowed.")


def _name_of(token: Token) -> str:
    """What a token is compared by: names in backticks without them, in upper case as words are."""
    return token.text.strip("`").upper() if token.kind == "quoted" else token.text
