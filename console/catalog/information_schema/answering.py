"""Queries on `information_schema`, which clients and BI tools ask when they look around (docs/use/sql.md).

Each statement gets an SQLite in memory with just the tables it names, holding only what the caller may query; the
statement is translated from MySQL's SQL and run there, where nothing else can be done (`runner`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _
from sqlglot import exp
from sqlglot.errors import SqlglotError

from console.accounts.actor import Actor
from console.catalog.describe import Answer, Reading, UnknownTableError
from console.catalog.information_schema import definitions, rows, runner
from console.catalog.information_schema.runner import SmallTable
from console.catalog.queries import INFORMATION_SCHEMA
from console.statements import parsers
from console.statements.lexer import OPEN_NAME, OPEN_TEXT
from console.web.errors import Refused

#: What `version()` and `@@version` say; MySQL clients choose their SQL by it.
VERSION = "8.0.36-gantry"
_SHOWN = "shown"
_WORD = re.compile(rf"{OPEN_NAME}|{OPEN_TEXT}|[A-Za-z_]\w*")
_TABLE = re.compile(rf"((?:\bfrom|\bjoin|,)\s+)({'|'.join(definitions.TABLES)})\b(?!\s*\.)", re.IGNORECASE)
_VARIABLES = {"version": VERSION, "lower_case_table_names": "0", "sql_mode": "", "version_comment": "Gantry async SQL"}


def answer(actor: Actor, query: exp.Query, schema: str) -> Answer:
    """The rows of a parsed query whose tables are all in `information_schema`; `schema` is the default schema.

    The query is changed. Raises Refused, and UnknownTableError for a table that is not there.
    """
    wanted = _tables(query, schema)
    scope = _scope(actor, query, len(wanted))
    tables = {
        name.lower(): SmallTable(
            definitions.TABLES[name], () if name in definitions.EMPTY else rows.FILLERS[name](scope)
        )
        for name in wanted
    }
    return runner.run(_translated(query, actor, schema), tables)


def where(found: Answer, condition: str | None, holder: str = "") -> Answer:
    """Those of an answer's rows that meet the condition behind `show … where` of an account. Raises Refused."""
    if condition is None:
        return found
    text = f"select * from {_SHOWN} where {_quoted(condition, found.columns)}"  # noqa: S608 runs on these rows alone
    query = parsers.query(text, holder)
    if query.args.get("limit") or query.args.get("order") or len(list(query.find_all(exp.Table))) != 1:
        raise Refused("SYNTAX_ERROR", _("After `where` only a condition on the columns shown is allowed."), "text")
    sql = _translated(query, None, "")
    done = runner.run(sql, {_SHOWN: SmallTable(found.columns, found.rows)}, found.columns)
    return Answer(found.columns, done.rows, integers=found.integers)


def with_quoted_tables(text: str) -> str:
    """The query with its tables in backticks: some are called by words of SQL, such as COLUMNS."""
    return _TABLE.sub(r"\1`\2`", text)


def _quoted(condition: str, columns: tuple[str, ...]) -> str:
    """The condition with its columns in backticks: some are called by words of SQL, such as Charset and Key."""
    known = {column.lower() for column in columns}
    return _WORD.sub(lambda m: f"`{m[0]}`" if m[0].lower() in known else m[0], condition)


def _tables(query: exp.Query, schema: str) -> set[str]:
    """Names of the tables that are read, which lose their schema in the query."""
    common = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    wanted = set()
    for table in query.find_all(exp.Table):
        if not table.db and table.name.lower() in common:
            continue
        if (table.db or schema).lower() != INFORMATION_SCHEMA or table.catalog:
            raise Refused(
                "STATEMENT_NOT_OFFERED",
                _("%(sql)s is not in information_schema, whose tables cannot be read together with others.")
                % {"sql": table.sql("mysql")},
                "text",
            )
        name = table.name.upper()
        if name not in definitions.TABLES:
            raise UnknownTableError(f"There is no table {table.name!r} in information_schema.")
        wanted.add(name)
        table.set("db", None)
        table.set("this", exp.to_identifier(name.lower(), quoted=True))
    return wanted


def _scope(actor: Actor, query: exp.Query, tables: int) -> rows.Scope:
    """What a query of one table asks for by `table_schema = '…' and table_name = '…'`: no need to look further."""
    given: dict[str, str] = {}
    if tables == 1 and isinstance(query, exp.Select) and len(list(query.find_all(exp.Select))) == 1:
        condition = query.args.get("where")
        for part in condition.this.flatten() if condition and isinstance(condition.this, exp.And) else []:
            _note(part, given)
        if condition:
            _note(condition.this, given)
    return rows.Scope(Reading(actor), given.get("TABLE_SCHEMA") or given.get("SCHEMA_NAME"), given.get("TABLE_NAME"))


def _note(part: exp.Expr, given: dict[str, str]) -> None:
    plain = part.unnest()
    if isinstance(plain, exp.EQ) and isinstance(plain.this, exp.Column) and isinstance(plain.expression, exp.Literal):
        given.setdefault(plain.this.name.upper(), plain.expression.name)


def _translated(query: exp.Query, actor: Actor | None, schema: str) -> str:
    """The query as SQLite writes it; facts of the connection and variables are values by now. Raises Refused."""
    facts: dict[str, Callable[[], str | None]] = {
        "DATABASE": lambda: schema or None,
        "SCHEMA": lambda: schema or None,
        "USER": lambda: f"{actor.name}@%" if actor else None,
        "VERSION": lambda: VERSION,
    }
    try:
        return _with_having(query).transform(_replace, facts).sql("sqlite")
    except (SqlglotError, ValueError, RecursionError) as error:
        raise Refused("SYNTAX_ERROR", _("The statement cannot be answered from information_schema."), "text") from error


def _with_having(query: exp.Query) -> exp.Query:
    """HAVING without groups, which MySQL takes for a condition on what is selected, as a condition on a subquery."""
    having = query.args.get("having")
    grouped = query.args.get("group") or any(item.find(exp.AggFunc) for item in query.expressions)
    if not isinstance(query, exp.Select) or having is None or grouped:
        return query
    outer = exp.select("*").where(having.this.copy())
    for name in ("limit", "offset"):
        outer.set(name, query.args.get(name))
        query.set(name, None)
    query.set("having", None)
    return outer.from_(query.subquery(_SHOWN))


def _replace(node: exp.Expression, facts: dict[str, Callable[[], str | None]]) -> exp.Expression:
    if isinstance(node, exp.Column) and node.args.get("db"):
        node.set("db", None)
    if isinstance(node, exp.SessionParameter | exp.Parameter):
        return _literal(_VARIABLES.get(node.name.lower()))
    fact = _fact(node)
    if fact:
        return _literal(facts[fact]())
    rewrite = _REWRITES.get(type(node))
    return rewrite(node) if rewrite else node


def _like(node: exp.Expression) -> exp.Expression:
    """A backslash escapes in MySQL's LIKE, also where it is not said."""
    if isinstance(node.parent, exp.Escape):
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _cast(node: exp.Expression) -> exp.Expression:
    """`binary x` compares bytes, which these texts need not."""
    kind = node.args["to"].this
    return node.this if kind in (exp.DataType.Type.BINARY, exp.DataType.Type.VARBINARY) else node


def _beginning(node: exp.Expression) -> exp.Expression:
    return exp.Substring(this=node.this, start=exp.Literal.number(1), length=node.expression)


def _ending(node: exp.Expression) -> exp.Expression:
    return exp.Substring(this=node.this, start=exp.Neg(this=node.expression))


def _unordered(node: exp.Expression) -> exp.Expression:
    """SQLite joins in the order of the rows."""
    if isinstance(node.this, exp.Order):
        node.set("this", node.this.this)
    return node


_REWRITES: dict[type, Callable[[Any], exp.Expression]] = {
    exp.Like: _like,
    exp.Cast: _cast,
    exp.Left: _beginning,
    exp.Right: _ending,
    exp.GroupConcat: _unordered,
}


def _fact(node: Any) -> str:
    """Which fact of the connection a function tells, or an empty text."""
    if isinstance(node, exp.CurrentSchema):
        return "SCHEMA"
    if isinstance(node, exp.CurrentUser):
        return "USER"
    if isinstance(node, exp.Anonymous) and not node.expressions:
        name = str(node.this).upper()
        return {"SESSION_USER": "USER", "SYSTEM_USER": "USER", "USER": "USER"}.get(
            name, name if name in ("DATABASE", "SCHEMA", "VERSION") else ""
        )
    return "VERSION" if type(node).__name__ == "CurrentVersion" else ""


def _literal(value: str | None) -> exp.Expression:
    return exp.Null() if value is None else exp.Literal.string(value)
