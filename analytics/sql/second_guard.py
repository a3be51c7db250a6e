"""The guard where Spark's own parser cannot be asked (`sc://`): the same rules over the parse of sqlglot.

Two parsers may read one text differently. So nothing is let through that sqlglot does not take apart completely, names
of functions are judged in the text itself, whatever sqlglot makes of them, and the server is asked for its own parse
before anything runs (`connect.parsed`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analytics.errors import QueryRefused
from analytics.specs import TableSpec
from analytics.sql import allowed, functions, guard, outline, tokens
from analytics.sql.guard import Lookup, Tables

if TYPE_CHECKING:
    from sqlglot import exp

#: Expressions that are neither functions nor operators between two values, by their names in sqlglot.
_NODES = frozenset(
    [
        *("Alias", "Aliases", "All", "Any", "Between", "BitwiseNot", "Boolean", "Column", "CTE", "Cube", "DataType"),
        *("DataTypeParam", "Distinct", "Except", "Exists", "Filter", "From", "Group", "GroupingSets", "Having"),
        *("HexString", "Hint", "Identifier", "IgnoreNulls", "In", "Intersect", "Interval", "IntervalSpan", "JoinHint"),
        *(
            "Join",
            "JSONPath",
            "JSONPathKey",
            "JSONPathRoot",
            "JSONPathSubscript",
            "JSONPathWildcard",
            "Kwarg",
            "Lambda",
        ),
        *("Lateral", "Limit", "Literal", "Neg", "Not", "Null", "Offset", "Order", "Ordered", "Paren", "Pivot"),
        *("PivotAlias", "PivotAny", "Placeholder", "PropertyEQ", "Qualify", "RawString", "RespectNulls", "Rollup"),
        *("Select", "Slice", "Sort", "Star", "Subquery", "Table", "TableAlias", "TableSample", "Tuple", "Union"),
        *("UnpivotColumns", "Values", "Var", "Where", "Window", "WindowSpec", "With", "WithinGroup"),
    ]
)
_MOST_BARE_JOINS = 8
_ROOTS = ("Select", "Union", "Except", "Intersect", "Subquery", "Values", "Paren")
#: What may stand with a table; WITH (…), versions and whatever else there is are refused.
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "sample", "pivots", "joins", "laterals"})
#: What a node that is not allowed is in the words of SQL.
_WORDS = {
    "Command": "a command",
    "QueryTransform": "TRANSFORM … USING, which runs a program",
    "Parameter": "a variable",
    "SessionParameter": "a variable",
    "Into": "INTO",
}
#: Words other than functions that a parenthesis may follow: of the grammar, of types and of hints.
_GRAMMAR = """
    all and any anti as between by case cast char character cross cube dec decimal distinct else except exclude exists
    extract filter for from full group having ilike in include inner intersect interval is join lateral left like limit
    minus natural not nulls numeric offset on or order outer over partition pivot qualify recursive replace right rlike
    rollup select semi sets some struct tablesample then union unpivot using values varchar when where window with
    within map array sort distribute cluster regexp try_cast timestampadd timestampdiff
    broadcast broadcastjoin mapjoin merge shuffle_merge mergejoin shuffle_hash shuffle_replicate_nl coalesce repartition
    repartition_by_range rebalance
"""
_BEFORE_PARENTHESIS = frozenset(_GRAMMAR.split())
# It warns of what it cannot parse, which is refused here.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a table is named: `sql[start:end]` is the name as written."""

    start: int
    end: int
    relation: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Guarded2:
    """A statement that was let through, the (schema, table) it reads, and where it names them."""

    relations: frozenset[tuple[str, str]]
    positions: tuple[Position, ...]
    looked_up: Mapping[tuple[str, str], TableSpec] = field(default_factory=dict)


def check(sql: str, *, schema: str, tables: Tables, lookup: Lookup | None = None) -> Guarded2:
    """Judge a statement by its text alone; the case of names does not matter, as in Spark.

    Raises QueryRefused with what is refused and what is allowed, QueryFailed for a function that there is not.
    """
    first_word = outline.check(sql)
    _require_conditions(sql)
    tree = _parsed(sql, first_word)
    from sqlglot import exp

    nodes = list(tree.walk())
    aliases = {node.alias.lower() for node in nodes if isinstance(node, exp.CTE | exp.DerivedTable | exp.Table)}
    _judge_words(sql, aliases | {node.alias.lower() for node in nodes if isinstance(node, exp.Lateral)})
    common = {node.alias.lower() for node in nodes if isinstance(node, exp.CTE)}
    known = {name.lower(): {table.lower() for table in names} for name, names in tables.items()}
    judge = guard.Judge(schema, known, common, lookup)
    positions: list[Position] = []
    for node in nodes:
        _see(node, judge, first_word, positions)
    return Guarded2(frozenset(judge.relations), tuple(positions), judge.looked_up)


def _require_conditions(sql: str) -> None:
    """Refuse many joins without ON or USING: sqlglot tries two readings of each, and of each pair, and so on."""
    words = [token.text for token in tokens.tokens(sql) if token.kind == "word"]
    waiting = 0
    for before, word in zip(["", *words], words, strict=False):
        if word == "JOIN" and before not in {"CROSS", "NATURAL"}:
            waiting += 1
        elif word in {"ON", "USING"}:
            waiting = max(0, waiting - 1)
        if waiting > _MOST_BARE_JOINS:
            raise QueryRefused(
                f"More than {_MOST_BARE_JOINS} joins wait for their ON or USING; write CROSS JOIN where there is none."
            )


def _judge_words(sql: str, aliases: set[str]) -> None:
    """Judge what the words alone tell: each name in front of a parenthesis, and words that sqlglot takes for columns.

    `aliases` are the names of tables, in front of whose columns a parenthesis stands.
    """
    known = functions.ALLOWED | functions.ALLOWED_BY_SYNTAX | functions.TABLE_FUNCTIONS | _BEFORE_PARENTHESIS | aliases
    behind, before = "", tokens.Token("sign", ";", 0)
    for token in [*tokens.tokens(sql), tokens.Token("sign", ";", len(sql))]:
        written = before.text.strip("`")
        name = written.lower()
        if before.kind in {"word", "quoted"} and behind != ".":
            if token.text == "(" and (name in functions.REFUSED or name not in known):
                functions.require_allowed((written,))
            if before.kind == "word" and name in allowed.REFUSED_NAMES and token.text not in {".", "("}:
                functions.require_allowed((written,))
        if before.kind == token.kind == "word" and before.text in {"FROM", "JOIN"} and token.text == "STREAM":
            raise QueryRefused("STREAM is not allowed; name the table alone.")
        if before.kind == "word" and before.text == "TABLE" and token.kind in {"word", "quoted"}:
            raise QueryRefused("TABLE as a query is not allowed here; write SELECT * FROM ….")
        behind, before = before.text, token


def _parsed(sql: str, first_word: str) -> "exp.Expr":
    """The one query of the text, as sqlglot reads it."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        found = [tree for tree in sqlglot.parse(sql, read="spark") if tree is not None]
    except RecursionError as error:
        raise QueryRefused("The statement is nested too deeply, or has too many operators in a row.") from error
    except SqlglotError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise QueryRefused(f"The statement cannot be read, so it is not run: {_plain(reason)}") from error
    if len(found) != 1:
        raise QueryRefused(f"{len(found)} statements: one at a time is allowed.")
    root = found[0]
    if type(root).__name__ not in _ROOTS:
        raise QueryRefused(f"{first_word}: not allowed here; only queries are (SELECT, WITH, VALUES, FROM).")
    return root


def _plain(text: str) -> str:
    """The text without the escapes that underline in a terminal."""
    return text.replace("\x1b[4m", "").replace("\x1b[0m", "")


def _see(node: "exp.Expr", judge: guard.Judge, first_word: str, positions: list[Position]) -> None:
    from sqlglot import exp

    kind = type(node).__name__
    if kind not in _NODES and not isinstance(node, exp.Func | exp.Binary):
        what = _WORDS.get(kind, kind.upper() if kind in {"Insert", "Create", "Into"} else f"{first_word} … {kind}")
        raise QueryRefused(f"{what}: not allowed here; only queries are (SELECT, WITH, VALUES, FROM).")
    match node:
        case exp.Table() if node.find_ancestor(exp.Hint) is None:
            _table(node, judge, positions)
        case exp.Identifier():
            if node.name.lower() == allowed.REFUSED_COLUMN:
                judge.column((node.name,))
        case exp.Dot() if isinstance(node.expression, exp.Func):
            name = node.sql("spark")
            raise QueryRefused(f"The function {name} is not allowed; name built-in functions without a schema.")
        case exp.Anonymous() | exp.AnonymousAggFunc() if not isinstance(node.parent, exp.Hint):
            if isinstance(node.parent, exp.Table):
                functions.require_table_function(node.name)
            else:
                functions.require_allowed((node.name,))
        case _:
            pass


def _table(node: "exp.Table", judge: guard.Judge, positions: list[Position]) -> None:
    from sqlglot import exp

    if isinstance(node.this, exp.Func):
        if node.args.get("db"):
            raise QueryRefused("A table function with a schema is not allowed; name built-in ones alone.")
        return
    if not all(isinstance(part, exp.Identifier) for part in node.parts):
        raise QueryRefused("A table must be named by its name, not by an expression or a parameter.")
    names = tuple(part.name for part in node.parts)
    odd = sorted(name for name, value in node.args.items() if value and name not in _TABLE_PARTS)
    if odd:
        raise QueryRefused(f"Only an alias may stand behind the table's name; name {'.'.join(names)} alone.")
    relation = judge.relation(names)
    if relation is not None:
        start, end = node.parts[0].meta["start"], node.parts[-1].meta["end"] + 1
        positions.append(Position(start, end, relation))
