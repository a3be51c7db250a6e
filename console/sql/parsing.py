"""Parsed SQL of the statements that the console answers itself. Nothing here runs anything."""

from __future__ import annotations

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import ParseError, SqlglotError

from console.web.errors import Refused

#: Longer ones are refused: clients' own questions have a tenth of it.
LONGEST = 16 * 1024


def query(text: str) -> exp.Query:
    """The one query in a text, in MySQL's way of writing. Raises Refused with line and column of what is wrong."""
    if len(text) > LONGEST:
        raise Refused(
            "STATEMENT_TOO_LONG", f"The statement has {len(text)} characters; {LONGEST} are allowed here.", "text"
        )
    try:
        found = parse(text, read="mysql", error_level=ErrorLevel.RAISE)
    except ParseError as error:
        raise Refused("SYNTAX_ERROR", _sentence(error), "text") from error
    except (SqlglotError, ValueError) as error:
        raise Refused("SYNTAX_ERROR", "The statement cannot be read: a text or name is not closed.", "text") from error
    except RecursionError as error:
        raise Refused("SYNTAX_ERROR", "The statement is nested too deeply.", "text") from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise Refused("SYNTAX_ERROR", "One query is possible here: a SELECT.", "text")
    return found[0]


def _sentence(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    near = str(first.get("highlight") or "").strip()[:40]
    where = f"Line {first.get('line')}, column {first.get('col')}: " if first.get("line") else ""
    return f"{where}the statement cannot be read near `{near}`." if near else f"{where}the statement cannot be read."
