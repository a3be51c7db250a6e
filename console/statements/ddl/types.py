"""The types of columns: read from a definition, written as Spark names them. Pure."""

from __future__ import annotations

from django.utils.translation import gettext as _

from console.statements.ddl.words import Reader, refusal
from console.statements.lexer import quoted

#: By the word in a definition; Hive's, MySQL's and Spark's words for the same.
PLAIN = {
    "boolean": "boolean",
    "bool": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "text": "string",
    "binary": "binary",
    "varbinary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "datetime": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
#: Texts with a length are texts: files know no length, and nothing here would cut or pad them.
_SIZED = frozenset(
    {
        "varchar",
        "char",
        "varbinary",
        "binary",
        "tinyint",
        "smallint",
        "int",
        "integer",
        "bigint",
        "timestamp",
        "datetime",
    }
)
_DECIMAL = frozenset({"decimal", "numeric", "dec"})
ALLOWED = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, varchar(n), char(n), binary, date,"
    " timestamp, timestamp_ntz, array<…>, map<…, …>, struct<name: type, …>"
)
_MOST_DIGITS = 38
_DEEPEST = 16


def is_nested(spark_type: str) -> bool:
    """Whether values of the type hold others, which CSV files and names of folders cannot."""
    return "<" in spark_type


def read(reader: Reader, column: str, depth: int = 0) -> str:
    """The type that comes next, as Spark writes it. Raises Refused, which names the column and what is allowed."""
    token = reader.advance()
    word = token.value.lower()
    if depth > _DEEPEST:
        raise refusal(
            token.line,
            _("column %(column)s is nested deeper than %(deepest)s levels.") % {"column": column, "deepest": _DEEPEST},
        )
    if token.kind != "word":
        raise refusal(
            token.line,
            _("column %(column)s has no type before %(token)s; allowed are %(allowed)s.")
            % {"column": column, "token": token, "allowed": ALLOWED},
        )
    if word in ("array", "map", "struct"):
        return _nested(reader, word, column, depth)
    if word in _DECIMAL:
        return _decimal(reader, column)
    size = _sizes(reader) if word in _SIZED else []
    if word in ("varchar", "char"):
        return "string"
    if word == "double":
        reader.accept("precision")
    if word not in PLAIN or len(size) > 1:
        raise refusal(
            token.line,
            _("column %(column)s has the unknown type %(token)r; allowed are %(allowed)s.")
            % {"column": column, "token": token.value, "allowed": ALLOWED},
        )
    return PLAIN[word]


def _nested(reader: Reader, word: str, column: str, depth: int) -> str:
    reader.expect("<")
    if word == "struct":
        inner = _fields(reader, column, depth)
    else:
        inner = read(reader, column, depth + 1)
        if word == "map":
            reader.expect(",")
            inner = f"{inner},{read(reader, column, depth + 1)}"
    reader.expect(">")
    return f"{word}<{inner}>"


def _fields(reader: Reader, column: str, depth: int) -> str:
    fields = []
    while True:
        name = reader.name("field")
        reader.accept(":")
        fields.append(f"{written(name)}:{read(reader, f'{column}.{name}', depth + 1)}")
        if reader.accept("comment"):
            reader.text(_("a comment"))
        if not reader.accept(","):
            return ",".join(fields)


def _decimal(reader: Reader, column: str) -> str:
    line = reader.next.line
    sizes = [*_sizes(reader), 0, 0] if reader.next.value == "(" else [10, 0]
    precision, scale = sizes[0], sizes[1]
    if not (1 <= precision <= _MOST_DIGITS and 0 <= scale <= precision):
        raise refusal(
            line,
            _(
                "column %(column)s is decimal(%(precision)s,%(scale)s); allowed are 1 to %(most_digits)s "
                "digits, and up to as many of them behind the point."
            )
            % {"column": column, "precision": precision, "scale": scale, "most_digits": _MOST_DIGITS},
        )
    return f"decimal({precision},{scale})"


def _sizes(reader: Reader) -> list[int]:
    if not reader.accept("("):
        return []
    sizes = []
    while True:
        if reader.next.kind != "number":
            raise reader.unexpected(_("a number"))
        sizes.append(int(reader.advance().value))
        if not reader.accept(","):
            reader.expect(")")
            return sizes


def written(name: str) -> str:
    """A name as it must stand in a type or definition: in backticks unless it is plain."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else quoted(name)
