"""SQL text, read once: the hint in front, what the statement asks for, and the text for whoever runs it.

`read` is called where a statement comes in (MySQL's protocol, the editor, the API), and what it returns is handed on.
`lexer` knows what a text in quotes, a name and a comment are, `hint`, `show`, `select`, `write` and `ddl` are the
grammars, `statement` has the forms that they find. All of these are pure; `parsers` has processes that ask sqlglot.
What Spark may run is decided by the guard in `analytics`, which reads as Spark does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from console.statements import hint as hints
from console.statements import select, show, write
from console.statements.ddl.grammar import WORDS as DEFINING
from console.statements.hint import Hint
from console.statements.statement import (
    CancelTask,
    Ddl,
    DescribeTable,
    Explain,
    InformationSchemaQuery,
    Kill,
    Malformed,
    Query,
    SearchTasks,
    SelectConstants,
    SetVariables,
    ShowColumns,
    ShowConnection,
    ShowCreateSchema,
    ShowCreateTable,
    ShowDatabases,
    ShowList,
    ShowNothing,
    ShowPartitions,
    ShowTables,
    ShowTableStatus,
    ShowTask,
    ShowVariables,
    Statement,
    Subject,
    Transaction,
    Use,
)
from console.web.errors import Refused
from mysqlwire.protocol.texts import single

__all__ = [
    "LONGEST_FORM",
    "LONGEST_STATEMENT",
    "CancelTask",
    "Ddl",
    "DescribeTable",
    "Explain",
    "InformationSchemaQuery",
    "Kill",
    "Malformed",
    "Parsed",
    "Query",
    "SearchTasks",
    "SelectConstants",
    "SetVariables",
    "ShowColumns",
    "ShowConnection",
    "ShowCreateSchema",
    "ShowCreateTable",
    "ShowDatabases",
    "ShowList",
    "ShowNothing",
    "ShowPartitions",
    "ShowTableStatus",
    "ShowTables",
    "ShowTask",
    "ShowVariables",
    "Statement",
    "Subject",
    "Transaction",
    "Use",
    "parse",
    "read",
]

#: Longer statements are refused before anything reads them.
LONGEST_STATEMENT = 1024 * 1024
#: Longer texts are queries: no form of `show` and `select` needs as much, and patterns must not be tried on megabytes.
LONGEST_FORM = 16 * 1024
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement that was read, as it is handed on."""

    #: As the user wrote it, with its hint.
    text: str
    hint: Hint
    form: Statement
    #: Whether another statement follows behind a `;`.
    several: bool = False

    @property
    def statement(self) -> str:
        """Without the hint, comments in front, a closing semicolon and comments behind that; may be empty."""
        return self.hint.statement

    @property
    def kind(self) -> str:
        """What it is in one word, such as `show_tables`, `insert` or `query`."""
        return _CAPITAL.sub("_", type(self.form).__name__).lower()

    def of(self, statement: str) -> Parsed:
        """The same with another statement behind the hint, which is read only when it is another one."""
        if statement == self.statement:
            return self
        return replace(self, hint=replace(self.hint, statement=statement), form=parse(statement))


def read(text: str) -> Parsed:
    """Read what a user wrote. Raises Refused when it is too long, or the comment with its hint is not closed."""
    if len(text) > LONGEST_STATEMENT:
        raise Refused(
            "STATEMENT_TOO_LONG",
            _("The statement has %(text)s characters; %(longest_statement)s are allowed.")
            % {"text": len(text), "longest_statement": LONGEST_STATEMENT},
            "text",
        )
    try:
        hint = hints.split(text)
    except hints.HintError as error:
        raise Refused("HINT_INVALID", str(error), "text") from error
    statement = single(hint.statement)
    if statement is None:
        return Parsed(text, hint, parse(hint.statement), several=True)
    hint = replace(hint, statement=statement.rstrip())
    return Parsed(text, hint, parse(hint.statement))


def parse(text: str) -> Statement:
    """What a statement without its hint asks for; what has none of the forms is a Query, which Spark answers.

    The forms are those of the vendor (`show query_task`, `cancel query_task`), of writing, defining and describing
    schemas and tables, and what MySQL clients send on their own at sign-in.
    """
    keyword = text[:16].split(maxsplit=1)[0].lower() if text[:16].strip() else ""
    if keyword in ("insert", "create"):
        try:
            target = write.parse(text)
        except Refused as refused:
            return Malformed(refused.message)
        if target is not None:
            return target
    if keyword in DEFINING:
        return Ddl(text)
    if keyword == "explain" and (explained := show.read_explain(text)) is not None:
        return explained
    if len(text) > LONGEST_FORM:
        return Query(text)
    reader = _READERS.get(keyword)
    return (reader(text) if reader else None) or Query(text)


def _read_set(text: str) -> Statement:
    return SetVariables(text)


def _read_select(text: str) -> Statement | None:
    items = select.parse_select(text)
    if items:
        return SelectConstants(items)
    return InformationSchemaQuery(text) if select.asks_information_schema(text) else None


_READERS = {
    "show": show.read_show,
    "cancel": show.read_cancel,
    "explain": show.read_describe,
    "describe": show.read_describe,
    "desc": show.read_describe,
    "use": show.read_use,
    "set": _read_set,
    "select": _read_select,
    "with": _read_select,
    "(select": _read_select,
    "begin": show.read_transaction,
    "start": show.read_transaction,
    "commit": show.read_transaction,
    "rollback": show.read_transaction,
    "kill": show.read_kill,
}
