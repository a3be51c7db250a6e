"""MySQL error codes of the door, and how our own errors become them.

1007, 1050 schema, table exists
1040 too many connections      1049 unknown schema            1142 no policy allows it
1044 no right on the schema    1054 unknown column            1146 unknown table
1045 sign-in refused           1064 syntax, hint not closed   1317 cancelled
1046 no schema chosen          1065 empty statement           3024 time limit
1094 no such connection        1105 any other failure         1264 outside of MySQL's types
1021 the disk is full
1115 unknown character set     1193 unknown variable          1231 a value it cannot have
1227 not for this account      1238 the variable is read-only
1203 too many of one account   1390 too many parameters
"""

from __future__ import annotations

from typing import Any

from mysql_mimic.errors import SQLSTATES, MysqlError

TOO_MANY_CONNECTIONS = 1040
SCHEMA_DENIED = 1044
ACCESS_DENIED = 1045
NO_SCHEMA = 1046
SCHEMA_EXISTS = 1007
DISK_FULL = 1021
UNKNOWN_SCHEMA = 1049
TABLE_EXISTS = 1050
UNKNOWN_COLUMN = 1054
SYNTAX = 1064
EMPTY = 1065
NO_SUCH_CONNECTION = 1094
UNKNOWN = 1105
NOT_PERMITTED = 1142
UNKNOWN_TABLE = 1146
UNKNOWN_CHARSET = 1115
UNKNOWN_VARIABLE = 1193
NOT_FOR_YOU = 1227
WRONG_VALUE = 1231
NOT_OFFERED = 1235
READ_ONLY = 1238
UNKNOWN_STATEMENT = 1243
OUT_OF_RANGE = 1264
INTERRUPTED = 1317
TOO_MANY_PARAMETERS = 1390
TOO_MANY_STATEMENTS = 1461
MALFORMED = 1835
TIME_LIMIT = 3024
TOO_MANY_OF_YOURS = 1203

SQLSTATES.update(
    {
        SCHEMA_DENIED: b"42000",
        SCHEMA_EXISTS: b"HY000",
        UNKNOWN_SCHEMA: b"42000",
        TABLE_EXISTS: b"42S01",
        UNKNOWN_COLUMN: b"42S22",
        NO_SUCH_CONNECTION: b"HY000",
        NOT_PERMITTED: b"42000",
        UNKNOWN_TABLE: b"42S02",
        INTERRUPTED: b"70100",
        TOO_MANY_PARAMETERS: b"HY000",
        TOO_MANY_STATEMENTS: b"42000",
        UNKNOWN_CHARSET: b"42000",
        NOT_FOR_YOU: b"42000",
        OUT_OF_RANGE: b"22003",
        TOO_MANY_OF_YOURS: b"42000",
    }
)

_REFUSALS = {
    "HINT_INVALID": SYNTAX,
    "SCHEMA_NOT_CHOSEN": NO_SCHEMA,
    "SYNTAX_ERROR": SYNTAX,
    "UNKNOWN_COLUMN": UNKNOWN_COLUMN,
    "TABLE_NOT_FOUND": UNKNOWN_TABLE,
    "STATEMENT_NOT_OFFERED": NOT_OFFERED,
    "SCHEMA_EXISTS": SCHEMA_EXISTS,
    "TABLE_EXISTS": TABLE_EXISTS,
    "STATEMENT_TIME_LIMIT": TIME_LIMIT,
    "STATEMENT_EMPTY": EMPTY,
    "STATEMENT_NOT_A_QUERY": NOT_OFFERED,
    "STATEMENT_TOO_LONG": SYNTAX,
}
# By the beginning of Spark's error condition; the first that fits.
_CONDITIONS = (
    ("TABLE_OR_VIEW_NOT_FOUND", UNKNOWN_TABLE),
    ("UNRESOLVED_COLUMN", UNKNOWN_COLUMN),
    ("PARSE_", SYNTAX),
    ("SCHEMA_NOT_FOUND", UNKNOWN_SCHEMA),
    ("QUERY_REFUSED", NOT_PERMITTED),
    ("QUERY_TIMED_OUT", TIME_LIMIT),
)


class DoorError(MysqlError):  # type: ignore[misc]
    """An error that is sent to the client with a MySQL code and one sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message, code)

    def __str__(self) -> str:
        return str(self.msg)


def refusal_code(symbol: str, message_of_schema: str) -> int:
    """Code of a Refused from the services; an unknown schema and a missing one differ."""
    if symbol == "SCHEMA_NOT_FOUND":
        return UNKNOWN_SCHEMA if message_of_schema else NO_SCHEMA
    return _REFUSALS.get(symbol, UNKNOWN)


def condition_code(condition: str) -> int:
    """Code of a failed statement, by Spark's error condition."""
    return next((code for start, code in _CONDITIONS if condition.startswith(start)), UNKNOWN)


def malformed(error: Any) -> DoorError:
    """A packet that breaks the protocol."""
    return DoorError(MALFORMED, f"The packet breaks the protocol: {error}")
