"""`show query_task [like '…'] [where …] [order by …] [limit n [offset m]]`: read here, answered by the database."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Expression,
    ExpressionWrapper,
    F,
    Func,
    IntegerField,
    Q,
    QuerySet,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, NullIf, Upper
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual
from django.utils.translation import gettext as _
from sqlglot import exp

from console.outbox.models import NotificationStatus
from console.sql import queries
from console.sql.models import QueryTask, TaskStatus
from console.statements import hint, parsers
from console.web.errors import Refused

#: Rows without a limit, and at the most.
LIMIT = 100
MOST = 10_000
_ALLOWED = "=, !=, <, <=, >, >=, like, in, between, is null, and, or, not and parentheses"
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    exp.EQ: Exact,
    exp.LT: LessThan,
    exp.LTE: LessThanOrEqual,
    exp.GT: GreaterThan,
    exp.GTE: GreaterThanOrEqual,
}
_TURNED: dict[type, type] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}
_CLAUSES = re.compile(r"\s*(?:where|order|limit|$)", re.IGNORECASE)
_PARTS = frozenset({"expressions", "from_", "from", "where", "order", "limit", "offset", "kind"})

_NOTIFIED = Q(notify__isnull=False, notification__status__in=(NotificationStatus.SUCCESS, NotificationStatus.FAILURE))


class _Like(Func):
    """LIKE as MySQL means it: the case of letters does not count, a backslash escapes."""

    output_field = BooleanField()
    conditional = True
    arity = 2

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template=r"(%(expressions)s ESCAPE '\')", arg_joiner=" LIKE ", **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s)", arg_joiner=" ILIKE ", **extra)


def search(tasks: QuerySet[QueryTask], clauses: str, like: str | None = None, holder: str = "") -> QuerySet[QueryTask]:
    """The tasks that the clauses behind `show query_task` choose, in their order, at most MOST.

    `like` is a pattern for id or command, `holder` the account that asks.
    Raises Refused, which names an unknown column and those that there are.
    """
    if not _CLAUSES.match(clauses):
        raise _refused(
            _("after `show query_task` only where, like, order by or limit is allowed, not `%(clauses)s`")
            % {"clauses": clauses.strip()[:40]}
        )
    parsed = parsers.query(f"select * from query_task {clauses}", holder)  # noqa: S608 only parsed, never run
    unknown = {name for name, value in parsed.args.items() if value and name not in _PARTS}
    if unknown or not isinstance(parsed, exp.Select) or not isinstance(parsed.args.get("from_"), exp.From):
        raise _refused(_("after `show query_task` only where, like, order by or limit is allowed"))
    if like is not None:
        pattern = Value(like)
        tasks = tasks.filter(Q(_Like(_text("id"), pattern)) | Q(_Like(_text("command"), pattern)))
    if parsed.args.get("where"):
        tasks = tasks.filter(_condition(parsed.args["where"].this))
    if parsed.args.get("order"):
        tasks = tasks.order_by(*map(_ordered, parsed.args["order"].expressions))
    begin = _number(parsed.args.get("offset"), 0)
    return tasks[begin : begin + min(_number(parsed.args.get("limit"), LIMIT), MOST)]


def _condition(node: exp.Expression) -> Q:
    if type(node) in _OPERATORS:
        return _comparison(node)
    reader = _CONDITIONS.get(type(node))
    if reader is None:
        raise _refused(
            _("`%(sql)s` is not a condition; allowed are %(allowed)s")
            % {"sql": node.sql("mysql")[:60], "allowed": _ALLOWED}
        )
    return reader(node)


def _unequal(node: exp.NEQ) -> Q:
    return _negated(_comparison(exp.EQ(this=node.this, expression=node.expression)))


def _between(node: exp.Between) -> Q:
    return _compare(exp.GTE, node.this, node.args["low"]) & _compare(exp.LTE, node.this, node.args["high"])


def _like(node: exp.Like) -> Q:
    found = Q(_Like(_text(_column(node.this)), Value(_text_of(node.expression))))
    return _negated(found) if node.args.get("negate") else found


def _negated(condition: Q) -> Q:
    """NOT as SQL means it: what is unknown stays unknown."""
    return Q(~ExpressionWrapper(condition, BooleanField()))


def _comparison(node: exp.Expression) -> Q:
    if isinstance(node.this, exp.Column):
        return _compare(type(node), node.this, node.expression)
    return _compare(_TURNED.get(type(node), type(node)), node.expression, node.this)


def _compare(operator: type, column: exp.Expression, value: exp.Expression) -> Q:
    name = _column(column)
    left: Any = column_expression(name)
    right: Any = _value(name, value)
    if operator is exp.EQ and isinstance(right, str) and name != "id":
        # As MySQL's collation does; ids are looked up by their index.
        left, right = Upper(_text(name)), right.upper()
    return Q(_OPERATORS[operator](left, Value(right)))


def _among(node: exp.In) -> Q:
    if not node.expressions or len(node.expressions) > 1000:
        raise _refused(_("`in` needs a list of 1 to 1000 values"))
    found = Q()
    for value in node.expressions:
        found |= _compare(exp.EQ, node.this, value)
    return found


def _is(node: exp.Is) -> Q:
    if not isinstance(node.expression, exp.Null):
        raise _refused(_("`is` must be followed by null or not null"))
    return Q(IsNull(column_expression(_column(node.this)), True))


_CONDITIONS: dict[type, Callable[[Any], Q]] = {
    exp.Paren: lambda node: _condition(node.this),
    exp.And: lambda node: _condition(node.this) & _condition(node.expression),
    exp.Or: lambda node: _condition(node.this) | _condition(node.expression),
    exp.Not: lambda node: _negated(_condition(node.this)),
    exp.NEQ: _unequal,
    exp.Between: _between,
    exp.In: _among,
    exp.Is: _is,
    exp.Like: _like,
}


def _column(node: exp.Expression) -> str:
    if not isinstance(node, exp.Column):
        raise _refused(_("`%(sql)s` is not a column; compare a column with a value") % {"sql": node.sql("mysql")[:60]})
    name = node.name.lower()
    if name not in queries.COLUMNS:
        raise Refused(
            "UNKNOWN_COLUMN",
            _("query_task has no column `%(node)s`; it has %(columns)s.")
            % {"node": node.name, "columns": ", ".join(queries.COLUMNS)},
            "text",
        )
    return name


def _text(name: str) -> Expression | F:
    """The column as a text, for LIKE and for comparisons without case."""
    expression = column_expression(name)
    if name in queries.INTEGER_COLUMNS:
        return Cast(expression, CharField())
    return expression


def _value(name: str, node: exp.Expression) -> str | int:
    written = _text_of(node)
    if name not in queries.INTEGER_COLUMNS:
        return written
    try:
        number = int(written)
    except ValueError:
        raise _refused(
            _("`%(written)s` is not a number, and %(name)s is one") % {"written": written[:40], "name": name}
        ) from None
    return max(-(2**63), min(number, 2**63 - 1))


def _text_of(node: exp.Expression) -> str:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.name}"
    if not isinstance(node, exp.Literal):
        raise _refused(
            _("`%(sql)s` is not a value; write a number or a text in quotes") % {"sql": node.sql("mysql")[:60]}
        )
    return str(node.name)


def _ordered(node: exp.Expression) -> Any:
    column = node.this if isinstance(node, exp.Ordered) else node
    expression = column_expression(_column(column))
    return expression.desc() if node.args.get("desc") else expression.asc()


def _number(node: exp.Expression | None, default: int) -> int:
    if node is None:
        return default
    number = node.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        raise _refused(_("limit and offset need a number"))
    return min(int(number.name), 2**31)


def _refused(reason: str) -> Refused:
    return Refused("SYNTAX_ERROR", f"{reason[:1].upper()}{reason[1:]}.", "text")


class UtcText(Func):
    """A time as `show query_task` writes it: UTC, `yyyy-MM-dd HH:mm:ss`."""

    output_field = CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps times in UTC."""
        return self.as_sql(
            compiler, connection, template="strftime('%%Y-%%m-%%d %%H:%%M:%%S', %(expressions)s)", **extra
        )

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """PostgreSQL keeps moments."""
        template = "to_char(%(expressions)s at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
        return self.as_sql(compiler, connection, template=template, **extra)


def _option(name: str) -> Expression:
    return KeyTextTransform(name, "notify")


def _of_notification(value: Any, output_field: Any) -> Expression:
    """A column that is null until the notification has ended."""
    return Case(When(_NOTIFIED, then=value), default=Value(None), output_field=output_field)


def column_expression(column: str) -> Expression | F:
    """One of `queries.COLUMNS` for the database, so that it filters and sorts, not Python.

    It gives what `queries.row_of` shows; a test compares the two for every column.
    """
    return _COMPUTED.get(column) or F(column)


_PRODUCT = _option(hint.NOTIFY_BY)
_COMPUTED: dict[str, Expression | F] = {
    "status": Case(
        When(status=TaskStatus.QUEUED, then=Value(TaskStatus.RUNNING.value)),
        default=F("status"),
        output_field=CharField(),
    ),
    "creator_id": Coalesce(F("creator__uid"), F("submitter"), output_field=CharField()),
    "create_time": UtcText(F("create_time")),
    "update_time": UtcText(F("update_time")),
    "result_file_oss_file": F("result_file"),
    "cancellable_task": Case(
        When(status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING), cancel_requested=False, then=Value(1)),
        default=Value(0),
        output_field=IntegerField(),
    ),
    "mq_product": _PRODUCT,
    "mq_model": Case(
        *(When(Q(**{"notify__mq-notify-by": product}), then=Value(model)) for product, model in queries.MODELS.items()),
        default=Value(None),
        output_field=CharField(),
    ),
    "mq_topic": _option(hint.TOPIC),
    "mq_queue": _option(hint.QUEUE),
    "mq_producer_id": _option(hint.PRODUCER_ID),
    "mq_endpoint": _option(hint.ENDPOINT),
    "mq_status": _of_notification(F("notification__status"), CharField()),
    "mq_error_msg": _of_notification(NullIf(F("notification__error"), Value("")), TextField()),
    "mq_message_id": _of_notification(NullIf(F("notification__message_id"), Value("")), CharField()),
    "mq_total_time": _of_notification(F("notification__total_time_ms"), IntegerField()),
}
