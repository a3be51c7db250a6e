"""MySQL error codes of the endpoint, and how our own errors become them.

1007, 1050 schema, table exists
1040 too many connections      1049 unknown schema            1142 no policy allows it
1045 sign-in refused           1054 unknown column            1146 unknown table
1046 no schema chosen          1064 syntax, hint not closed   1317 cancelled
1094 no such connection        1065 empty statement           3024 time limit
1021 the disk is full          1105 any other failure
1115 unknown character set     1193 unknown variable          1231 a value it cannot have
1227 not for this account      1238 the variable is read-only
1203 too many of one account

Those that the protocol itself has stand in `mysqlwire.protocol.errors`.
"""

from __future__ import annotations

from mysqlwire.protocol.errors import SqlError

TOO_MANY_CONNECTIONS = 1040
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
INTERRUPTED = 1317
TIME_LIMIT = 3024
TOO_MANY_OF_YOURS = 1203

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


class EndpointError(SqlError):
    """An error that is sent to the client with a MySQL code and one sentence."""


def refusal_code(symbol: str, message_of_schema: str) -> int:
    """Code of a Refused from the services; an unknown schema and a missing one differ."""
    if symbol == "SCHEMA_NOT_FOUND":
        return UNKNOWN_SCHEMA if message_of_schema else NO_SCHEMA
    return _REFUSALS.get(symbol, UNKNOWN)


def condition_code(condition: str) -> int:
    """Code of a failed statement, by Spark's error condition."""
    return next((code for start, code in _CONDITIONS if condition.startswith(start)), UNKNOWN)
