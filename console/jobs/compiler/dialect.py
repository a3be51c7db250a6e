"""Queries of jobs as Spark runs them: functions, casts, indexes and windows rewritten; what Spark cannot do is refused.

The parser's process reads the query (`console.statements.parsers`), what it makes of it is judged and changed here, and
written out again. Each refusal has line and column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from console.jobs.compiler import functions, windows
from console.jobs.compiler.definition import Span
from console.jobs.compiler.functions import AGGREGATES, call, text
from console.jobs.compiler.rows import Catalog, Relation, Rewritten, Rows
from console.jobs.compiler.types import MOST_FRACTION
from console.jobs.compiler.values import Values
from console.jobs.compiler.words import Text, TextRefused, near
from console.statements import lexer, parsers
from console.statements.ddl.types import written
from console.statements.lexer import Token
from console.web.errors import Refused

_T = exp.DataType.Type
_TYPES = {
    **{_T.BOOLEAN: "boolean", _T.TINYINT: "tinyint", _T.SMALLINT: "smallint", _T.INT: "int", _T.BIGINT: "bigint"},
    **{_T.FLOAT: "float", _T.DOUBLE: "double", _T.DATE: "date", _T.BINARY: "binary", _T.VARBINARY: "binary"},
    **dict.fromkeys((_T.TEXT, _T.VARCHAR, _T.CHAR, _T.NCHAR, _T.NVARCHAR), "string"),
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ, _T.DATETIME), "timestamp"),
}
#: Nodes that no query has → why.
_NEVER: dict[type[exp.Expr], str] = {
    exp.Lateral: "table functions are not possible; write CROSS JOIN UNNEST(array) AS t(x) for an array's elements.",
    exp.MatchRecognize: "Spark has no MATCH_RECOGNIZE.",
    exp.Parameter: "a job has no session variables; write '${name}' for a variable.",
    exp.Placeholder: "a job has no parameters; write '${name}' for a variable.",
    exp.SessionParameter: "a job has no session variables; write '${name}' for a variable.",
    exp.SimilarTo: "Spark has no SIMILAR TO; write REGEXP(text, pattern).",
    exp.Into: "SELECT INTO is not possible; write INSERT INTO … SELECT.",
    exp.TableSample: "a sample is not possible; write WHERE RAND() < 0.1.",
    exp.Pivot: "PIVOT is not possible; write CASE in aggregates.",
    exp.Any: "ANY and SOME of a query are not possible; write IN (SELECT …), or compare with its MAX or MIN.",
    exp.All: "ALL of a query is not possible; write NOT IN (SELECT …), or compare with its MAX or MIN.",
    exp.JSON: "Spark has no IS JSON; write JSON_EXISTS(text, '$').",
    exp.Overlaps: "Spark has no OVERLAPS; compare starts and ends.",
    exp.Slice: "an index is one number or one key: a[1], m['key'].",
}
#: Nodes that Spark reads as they are written out; any other one is refused, and so is never met at the start alone.
_KNOWN = (
    *(exp.Select, exp.Subquery, exp.SetOperation, exp.Values, exp.With, exp.CTE, exp.From, exp.Join, exp.Table),
    *(exp.TableAlias, exp.Unnest, exp.Version, exp.Where, exp.Group, exp.Having, exp.Distinct, exp.Order, exp.Ordered),
    *(exp.Limit, exp.Offset, exp.Fetch, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Window, exp.WindowSpec),
    *(exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Dot, exp.Var),
    *(exp.Literal, exp.Boolean, exp.Null, exp.HexString, exp.Interval, exp.IntervalSpan, exp.Array, exp.Tuple),
    *(exp.Paren, exp.Kwarg, exp.Anonymous, exp.Cast, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.Bracket),
    *(exp.Case, exp.If, exp.In, exp.Between, exp.Exists, exp.Like, exp.ILike, exp.Escape, exp.RegexpLike, exp.Is),
    *(exp.Not, exp.Neg, exp.Connector, exp.Predicate, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv),
    *(exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift),
    *(exp.BitwiseRightShift, exp.AtTimeZone, exp.CurrentDate, exp.CurrentTimestamp, exp.Extract, exp.Floor, exp.Ceil),
    *(exp.Substring, exp.Trim, exp.StrPosition, exp.Overlay),
)
#: What a time may be asked for, as both sides know it.
_PARTS = frozenset({"year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute", "second"})
_SPECIAL_NAMES = frozenset({"localtimestamp", "localtime", "current_time"})
#: What the parser refuses since the text is as it is.
_OF_TEXT = frozenset({"SYNTAX_ERROR", "STATEMENT_TOO_LONG", "STATEMENT_TIME_LIMIT"})
_MOST_SENTENCE = 300
_MOST_SHOWN = 60


@dataclass(slots=True)
class Context:
    """What all queries of a text have in common."""

    text: Text
    values: Values
    relations: dict[str, Relation]
    catalog: Catalog
    #: The account that asks.
    holder: str = ""
    batch: bool = False


def query(context: Context, span: Span) -> Rewritten:
    """The query that stands at `span`. Raises TextRefused, and Refused for what the parser's process refuses."""
    return _Query(context, span, "").result()


def expression(context: Context, span: Span, columns: Mapping[str, str]) -> str:
    """A computed column's expression for Spark; `columns` are name and type of those that it may name."""
    reading = _Query(context, span, "SELECT ")
    tree = reading.parsed()
    if len(tree.expressions) != 1 or tree.args.get("from_") is not None:
        raise context.text.refusal(span.start, "a computed column is one expression.")
    reading.rewrite(tree)
    value = tree.expressions[0]
    if found := next(value.find_all(exp.Query, exp.Window), None):
        raise reading.refusal(found, "a computed column has no queries and windows in it.")
    for column in value.find_all(exp.Column):
        if column.parts[0].name.lower() not in columns and not isinstance(column.parent, exp.Dot):
            known = ", ".join(columns)
            raise reading.refusal(column, f"there is no column {column.parts[0].name} here; there are {known}.")
    for function in value.find_all(exp.Anonymous):
        if function.name.lower() in AGGREGATES | {"collect_list"}:
            raise reading.refusal(function, "a computed column has no aggregates in it.")
    return _sql(value)


def _sql(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark", identify=True, comments=False)


def _shown(node: exp.Expr) -> str:
    """The beginning of what is written."""
    written = node.sql(comments=False)
    return written if len(written) <= _MOST_SHOWN else f"{written[:_MOST_SHOWN]} …"


class _Query:
    """One query, from its text to Spark's."""

    def __init__(self, context: Context, span: Span, prefix: str) -> None:
        self._context, self._text, self._span = context, context.text, span
        self._prefix = prefix
        self._partitioned: list[windows.Partitioned] = []
        self._texts: dict[str, Token] = {}
        #: Line and column of a syntax error.
        self._place: tuple[int, int] | None = None

    def result(self) -> Rewritten:
        tree = self.parsed()
        for select in tree.find_all(exp.Select):
            if not select.expressions:  # which the parser takes for a query
                raise self.refusal(select, "SELECT names no column; write SELECT * for all of them.")
        self.rewrite(tree)
        rows = Rows(self._context.relations, self._context.catalog, self._partitioned, self.refusal, self._text.refusal)
        found, updates_at = rows.look(tree)
        found.sql = _sql(tree)
        found.updates_at = self._offset(updates_at) if updates_at is not None else None
        return found

    # --- reading

    def parsed(self) -> exp.Query:
        piece = self._text.written[self._span.start : self._span.end]
        tokens = self._tokens()
        self._texts = {token.value: token for token in reversed(tokens) if token.kind == "text"}
        plain, self._partitioned = windows.plain(piece, tokens, self._span.start)
        if tokens and tokens[0].key == "values":
            self._prefix = "SELECT * FROM "
        try:
            return parsers.job_query(self._prefix + plain, self._context.holder, self._syntax_error)
        except Refused as refused:
            if refused.symbol not in _OF_TEXT:
                raise
            line, column = self._place or self._text.place(self._span.start)
            sentence = refused.message[:1].lower() + refused.message[1:]
            raise TextRefused(line, column, sentence) from refused

    def _tokens(self) -> list[Token]:
        written = self._text.written[: self._span.end]
        tokens = list(lexer.tokens(" " * self._span.start + written[self._span.start :], job=True))
        position = self._span.start
        for token, following in pairwise([*tokens, tokens[-1]]):
            if (at := written.find("/*+", position, token.start)) >= 0:
                raise self._text.refusal(at, "hints are not possible; set options in WITH (…).")
            position = token.start + len(token.written)
            if token.key == "match_recognize":
                raise self._text.refusal(token, "Spark has no MATCH_RECOGNIZE.")
            if token.key == "$" and following.key == "{":
                raise self._text.refusal(token, "a variable stands within quotes: '${name}'.")
        return tokens[:-1]

    def _syntax_error(self, line: int | None, column: int | None, word: str) -> str:
        base_line, base_column = self._text.place(self._span.start)
        start = max(1, (column or 1) - len(word) + 1)
        if line == 1:
            start = max(base_column, base_column + start - 1 - len(self._prefix))
        if line:
            self._place = base_line + line - 1, start
        return f"The query cannot be read near `{word}`." if word else "The query cannot be read."

    def _offset(self, node: exp.Expr) -> int:
        """Characters of the job's text in front of a node, or of what stands next to it."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        at: exp.Expr | None = node
        while not starts and at is not None:
            at = at.parent
            starts = [part.meta["start"] for part in at.walk() if "start" in part.meta] if at is not None else []
        inside = max(0, min(starts, default=0) - len(self._prefix))
        return min(self._span.start + inside, max(self._span.start, self._span.end - 1))

    def refusal(self, node: exp.Expr, sentence: str) -> TextRefused:
        return self._text.refusal(self._offset(node), sentence[:_MOST_SENTENCE])

    # --- expressions

    def rewrite(self, tree: exp.Expr) -> None:
        """Functions, casts, indexes and texts; children first, since an expression may be used twice."""
        nodes = list(tree.walk())
        for node in nodes:
            self._require_known(node)
        for node in reversed(nodes):
            match node:
                case exp.Anonymous():
                    self._function(node)
                case exp.Cast():
                    node.set("to", self._type(node, node.to))
                case exp.Bracket():
                    self._index(node)
                case exp.Literal() if node.is_string and "${" in node.name:
                    self._fill(node)
                case exp.Floor() | exp.Ceil() if node.args.get("to"):
                    self._rounded(node)
                case exp.Column() if not node.table and node.name.lower() in _SPECIAL_NAMES and not node.this.quoted:
                    self._replace_by_function(node, node.name, [])
                case exp.With() if node.args.get("recursive"):
                    raise self.refusal(node, "WITH RECURSIVE is not possible.")

    def _require_known(self, node: exp.Expr) -> None:
        for kind, sentence in _NEVER.items():
            if isinstance(node, kind):
                raise self.refusal(node, sentence)
        if not isinstance(node, _KNOWN) or (isinstance(node, exp.Cast) and node.args.get("format")):
            raise self.refusal(node, f"{_shown(node)} is not possible here.")
        if isinstance(node, exp.Extract) and node.name.lower() not in _PARTS:
            parts = ", ".join(sorted(_PARTS)).upper()
            raise self.refusal(node, f"a time has no {node.name.upper()} to extract; allowed are {parts}.")

    def _function(self, node: exp.Anonymous) -> None:
        name = node.name
        if isinstance(node.parent, exp.Dot) and node.parent.expression is node:
            raise self.refusal(node, f"there is no function {node.parent.sql()}; a job has the built-in ones.")
        if name.upper() in windows.FUNCTIONS or name.upper() == "DESCRIPTOR" or windows.told_by(node):
            return
        if name.upper().partition("_")[0] in windows.FUNCTIONS:
            raise self.refusal(node, f"there is no {name.upper()}; of a window there are its START and END.")
        self._replace_by_function(node, name, node.expressions)

    def _replace_by_function(self, node: exp.Expr, name: str, arguments: list[exp.Expr]) -> None:
        try:
            new = functions.rewritten(name, arguments)
        except functions.Unknown as unknown:
            if unknown.sentence:
                raise self.refusal(node, f"{name.upper()} is not possible: {unknown.sentence}.") from None
            raise self.refusal(node, f"there is no function {name}.{near(name, functions.NAMES)}") from None
        except ValueError as error:
            raise self.refusal(node, f"{name.upper()} has {error}.") from None
        new.meta.update(node.meta)
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions" and name.lower() != new.name.lower():
            new = exp.Alias(this=new, alias=exp.to_identifier(name.lower())) if isinstance(node, exp.Column) else new
        node.replace(new)

    def _type(self, at: exp.Expr, kind: exp.Expr) -> exp.Expr:
        spelled = self._spelled(at, kind)
        return exp.DataType(this=_T.USERDEFINED, kind=spelled)

    def _spelled(self, at: exp.Expr, kind: exp.Expr) -> str:
        which = kind.this if isinstance(kind, exp.DataType) else None
        if which == _T.USERDEFINED and kind.args.get("kind"):  # written by a function's rewriting
            return str(kind.args["kind"])
        if which in _TYPES:
            digits = kind.expressions[0].name if kind.expressions else "0"
            if _TYPES[which] == "timestamp" and digits.isdecimal() and int(digits) > MOST_FRACTION:
                raise self.refusal(at, f"TIMESTAMP({digits}) is not possible; allowed are 0 to {MOST_FRACTION} digits.")
            return _TYPES[which]
        inner = kind.expressions
        if which == _T.DECIMAL:
            precision, scale = [one.name for one in inner] + ["10", "0"][len(inner) :]
            return f"decimal({precision},{scale})"
        if which in (_T.ARRAY, _T.MAP):
            return f"{'array' if which == _T.ARRAY else 'map'}<{','.join(self._spelled(at, one) for one in inner)}>"
        if which == _T.STRUCT and all(isinstance(one, exp.ColumnDef) and one.kind for one in inner):
            fields = (f"{written(one.name)}:{self._spelled(at, one.kind)}" for one in inner)
            return f"struct<{','.join(fields)}>"
        raise self.refusal(at, f"a value cannot be cast to {kind.sql().upper()} here.")

    def _index(self, node: exp.Bracket) -> None:
        """An array's first element is 1 there, and 0 in Spark; a map's key is the same for both."""
        value, keys = node.this, node.expressions
        is_map = isinstance(value, exp.Column) and not value.table and value.name.lower() == "map" and len(keys) > 1
        if is_map and len(keys) % 2 == 0:
            node.replace(call("map", *keys))
            return
        if len(keys) != 1:
            raise self.refusal(node, "an index is one number or one key: a[1], m['key'].")
        new = call("try_element_at", value, keys[0])
        if isinstance(node.parent, exp.Select):
            new = exp.Alias(this=new, alias=exp.to_identifier(_sql(node).replace("`", "")))
        node.replace(new)

    def _fill(self, node: exp.Literal) -> None:
        filled = self._context.values.filled(self._text, self._texts[node.name], secrets_allowed=False)
        node.replace(text(filled))

    def _rounded(self, node: exp.Expr) -> None:
        unit = node.args["to"].name.lower()
        if isinstance(node, exp.Ceil):
            raise self.refusal(node, f"CEIL(… TO {unit.upper()}) is not possible; write FLOOR(… TO …) and add one.")
        node.replace(call("date_trunc", text(unit), node.this))
