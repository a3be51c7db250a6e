"""Errors with a MySQL code, and the SQLSTATE of each code (reference manual, Server Error Message Reference)."""

from __future__ import annotations

ACCESS_DENIED = 1045
UNKNOWN = 1105
SYNTAX = 1064
NOT_SUPPORTED_YET = 1235
UNKNOWN_STATEMENT = 1243
OUT_OF_RANGE = 1264
QUERY_INTERRUPTED = 1317
TOO_MANY_PARAMETERS = 1390
TOO_MANY_STATEMENTS = 1461
MALFORMED_PACKET = 1835

_GENERAL = "HY000"
_STATES = {
    **dict.fromkeys((1040, 1251), "08004"),
    **dict.fromkeys((1042, 1043, 1047, 1053, 1153, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161), "08S01"),
    **dict.fromkeys((1044, 1049, 1064, 1065, 1072, 1103, 1106, 1115, 1142, 1143, 1148, 1149), "42000"),
    **dict.fromkeys((1203, 1226, 1227, 1230, 1231, 1232, 1235, 1461), "42000"),
    **dict.fromkeys((1045, 1698), "28000"),
    **dict.fromkeys((1054, 1247), "42S22"),
    1046: "3D000",
    1048: "23000",
    1050: "42S01",
    1051: "42S02",
    1060: "42S21",
    1109: "42S02",
    1136: "21S01",
    1146: "42S02",
    1264: "22003",
    1317: "70100",
}


class SqlError(Exception):
    """An error that a client is told: a code of MySQL, its SQLSTATE, one sentence."""

    def __init__(self, code: int, message: str, state: str = "") -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.state = state or sqlstate(code)


class PacketError(ValueError):
    """A packet that breaks the protocol, or wants what is not supported; the text says what."""


def sqlstate(code: int) -> str:
    """The SQLSTATE of a code, five characters; HY000 for one that has none of its own."""
    return _STATES.get(code, _GENERAL)
