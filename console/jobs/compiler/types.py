"""The types of the vendor's dialect, read from a definition and written as Spark names them. Pure.

A length is read and means nothing: what is stored is no longer than what came. Times have no zone of their own there
and the session's zone here; up to six digits of a second.
"""

from __future__ import annotations

from console.jobs.compiler.words import Reader
from console.statements.ddl.types import written
from console.statements.lexer import Token

PLAIN = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "string": "string",
    "bytes": "binary",
}
TEXTS, BYTES = frozenset({"char", "varchar"}), frozenset({"binary", "varbinary"})
DECIMALS = frozenset({"decimal", "dec", "numeric"})
ALLOWED = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, BINARY(n),"
    " VARBINARY(n), BYTES, DATE, TIMESTAMP(p), TIMESTAMP_LTZ(p), ARRAY<…>, MAP<…, …>, ROW<name type, …>"
)
#: Type → what to write instead.
REFUSED = {
    "time": "Spark's sources have no time of day; declare it as STRING",
    "multiset": "Spark has no multisets; declare it as MAP<…, INT>",
    "interval": "a column cannot be an interval; declare it as BIGINT milliseconds",
    "raw": "it holds objects of Java; declare it as BYTES",
    "null": "it has no values; declare the type of what will come",
    "variant": "declare the fields as ROW<…>, or the whole as STRING",
}
MOST_DIGITS, MOST_FRACTION, DEEPEST = 38, 6, 16


def read(reader: Reader, column: str, depth: int = 0) -> str:
    """The type that comes next, as Spark writes it. Raises TextRefused, which names the column and what is allowed."""
    token = reader.next
    if depth > DEEPEST:
        raise reader.refusal(token, f"column {column} is nested deeper than {DEEPEST} levels.")
    found = _base(reader, column, depth)
    while True:
        if reader.accept("not", "null") or reader.accept("null"):
            continue
        if reader.accept("array"):
            found = f"array<{found}>"
        elif reader.next.key == "multiset":
            raise _refused(reader, reader.next, column, "multiset")
        else:
            return found


def _base(reader: Reader, column: str, depth: int) -> str:
    token = reader.advance()
    word = token.key if token.kind == "word" else ""
    if word in ("array", "map", "row"):
        return _nested(reader, word, column, depth)
    if word in DECIMALS:
        return _decimal(reader, column)
    if word in ("timestamp", "timestamp_ltz"):
        return _timestamp(reader, column)
    if word in TEXTS or word in BYTES:
        _length(reader, column)
        return "string" if word in TEXTS else "binary"
    if word == "double":
        reader.accept("precision")
    if word in REFUSED:
        raise _refused(reader, token, column, word)
    if word not in PLAIN:
        raise reader.refusal(token, f"column {column} has the unknown type {token}; allowed are {ALLOWED}.")
    return PLAIN[word]


def _refused(reader: Reader, token: Token, column: str, word: str) -> Exception:
    return reader.refusal(token, f"column {column} cannot be {word.upper()}: {REFUSED[word]}.")


def _nested(reader: Reader, word: str, column: str, depth: int) -> str:
    closing = ")" if word == "row" and reader.accept("(") else ">"
    if closing == ">":
        reader.expect("<")
    if word == "row":
        inner = _fields(reader, column, depth)
    else:
        inner = read(reader, column, depth + 1)
        if word == "map":
            reader.expect(",")
            inner = f"{inner},{read(reader, column, depth + 1)}"
    reader.expect(closing)
    return f"{'struct' if word == 'row' else word}<{inner}>"


def _fields(reader: Reader, column: str, depth: int) -> str:
    fields = []
    while True:
        name = reader.name("field").value
        fields.append(f"{written(name)}:{read(reader, f'{column}.{name}', depth + 1)}")
        if reader.next.kind == "text":  # a comment
            reader.advance()
        if not reader.accept(","):
            return ",".join(fields)


def _length(reader: Reader, column: str) -> None:
    if reader.accept("("):
        token = reader.next
        if reader.whole_number("a length") < 1:
            raise reader.refusal(token, f"column {column} has the length 0; allowed are 1 and more.")
        reader.expect(")")


def _decimal(reader: Reader, column: str) -> str:
    token = reader.next
    precision, scale = 10, 0
    if reader.accept("("):
        precision = reader.whole_number("a number of digits")
        if reader.accept(","):
            scale = reader.whole_number("a number of digits behind the point")
        reader.expect(")")
    if not (1 <= precision <= MOST_DIGITS and 0 <= scale <= precision):
        raise reader.refusal(
            token,
            f"column {column} is DECIMAL({precision}, {scale}); allowed are 1 to {MOST_DIGITS} digits, and up to as"
            " many of them behind the point.",
        )
    return f"decimal({precision},{scale})"


def _timestamp(reader: Reader, column: str) -> str:
    if reader.accept("("):
        token = reader.next
        if reader.whole_number("a number of digits of a second") > MOST_FRACTION:
            raise reader.refusal(
                token, f"column {column} is TIMESTAMP({token.value}); allowed are 0 to {MOST_FRACTION} digits."
            )
        reader.expect(")")
    token = reader.next
    if reader.accept("with", "time", "zone"):
        raise reader.refusal(
            token, f"column {column} cannot keep a zone of its own; allowed is TIMESTAMP WITH LOCAL TIME ZONE."
        )
    if not reader.accept("with", "local", "time", "zone"):
        reader.accept("without", "time", "zone")
    return "timestamp"
