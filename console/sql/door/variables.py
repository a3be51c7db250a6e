"""System variables and user variables of a connection, and the SET statements that change them. Pure.

They are what clients ask for at sign-in and set for themselves. Few have an effect: the character sets, the time limits
`max_execution_time` and `net_write_timeout`, and `sql_select_limit`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any

from mysql_mimic.charset import CharacterSet, Collation

from console.sql import constants
from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.system_variables import VARIABLES, Value

_FLAGS = {
    name for name in VARIABLES if name.startswith(("sql_auto", "sql_big", "sql_log", "sql_notes", "sql_safe"))
} | {
    *("autocommit", "foreign_key_checks", "unique_checks", "profiling", "sql_warnings", "sql_quote_show_create"),
    *("transaction_read_only", "tx_read_only"),
}
_CHARSETS = {name for name in VARIABLES if name.startswith("character_set_")}
_WORDS = {"on": 1, "off": 0, "true": 1, "false": 0}
#: User variables that a connection may have, the length of a name or value, and of all of them together.
_MOST_USER_VARIABLES = 100
_LONGEST_VALUE, _LONGEST_TOGETHER = 4096, 65_536

_TEXT = r"'(?:[^'\\]|''|\\.)*+'|\"(?:[^\"\\]|\"\"|\\.)*+\""
_SCOPES = r"(?:(?P<scope>session|local|global|persist|persist_only)\s+)?"
_NAMES = re.compile(
    rf"(?P<names>names|character\s+set|charset)\s+(?P<charset>[\w]+|{_TEXT})(?:\s+collate\s+(?P<collation>\w+|{_TEXT}))?",
    re.IGNORECASE,
)
_TRANSACTION = re.compile(
    rf"{_SCOPES}transaction\s+(?:isolation\s+level\s+(?P<level>read\s+(?:un)?committed|repeatable\s+read|serializable)"
    r"|read\s+(?P<access>only|write))(?:\s*,\s*(?:read\s+(?:only|write)|isolation\s+level\s+[\w ]+))?",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    rf"""(?:@(?P<user>[\w.$]+|`[^`]+`)|(?:@@(?:(?P<at_scope>\w+)\s*\.\s*)?|{_SCOPES})(?P<name>\w+|`\w+`))
    \s*:?=\s*
    (?P<value>{_TEXT}|concat\s*\((?P<pieces>[^()]*+)\)|@@(?:\w+\s*\.\s*)?(?P<other>\w+)|@(?P<other_user>[\w.$]+)|-?\d+(?![\w.])|[\w$-]+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_NEXT = re.compile(r"\s*(,\s*|\Z)")


class SessionVariables:
    """The variables of one connection."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._users: dict[str, Value] = {}

    def get(self, name: str) -> Value:
        """The value of a system variable. Raises DoorError for an unknown one."""
        name = name.lower()
        if name in self._values:
            return self._values[name]
        known = VARIABLES.get(name)
        if known is None:
            raise DoorError(errors.UNKNOWN_VARIABLE, f"Unknown system variable '{name[:80]}'.")
        return known.default

    def get_user(self, name: str) -> Value:
        """The value of `@name`, None when it was never set."""
        return self._users.get(name.lower())

    def set(self, name: str, value: Value) -> None:
        """Set a system variable; None sets its default. Raises DoorError for a value that it cannot have."""
        name = name.lower()
        self.get(name)
        if not VARIABLES[name].settable:
            raise DoorError(errors.READ_ONLY, f"Variable '{name}' is a read only variable.")
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = _checked(name, value)

    def use_charset(self, charset: CharacterSet, collation: str | None = None) -> None:
        """As `set names`: what is sent and answered in."""
        for name in ("character_set_client", "character_set_connection", "character_set_results"):
            self._values[name] = charset.name
        self._values["collation_connection"] = collation or charset.default_collation.name

    def reset(self) -> None:
        """Back to the defaults; the character set stays, as the client goes on in it."""
        kept = {n: v for n, v in self._values.items() if n in _CHARSETS or n == "collation_connection"}
        self._values = kept
        self._users.clear()

    def listed(self) -> Iterable[tuple[str, Value]]:
        """Every system variable with its value, by name; flags as ON and OFF."""
        for name in sorted(VARIABLES):
            value = self.get(name)
            yield name, ("ON" if value else "OFF") if name in _FLAGS else value

    def assign(self, text: str) -> None:
        """Run a SET statement, all of it or nothing. Raises DoorError."""
        before = dict(self._values), dict(self._users)
        try:
            for match in _items(text):
                self._take(match)
        except DoorError:
            self._values, self._users = before
            raise

    def _take(self, match: re.Match[str]) -> None:
        parts = match.groupdict()
        if (parts.get("scope") or parts.get("at_scope") or "session").lower() not in ("session", "local"):
            raise DoorError(errors.NOT_FOR_YOU, "Only variables of the session can be set.")
        if parts.get("names"):
            self._set_names(parts["charset"], parts["collation"])
        elif parts.get("level"):
            self._values["transaction_isolation"] = re.sub(r"\s+", "-", parts["level"].upper())
        elif parts.get("access"):
            self._values["transaction_read_only"] = int(parts["access"].lower() == "only")
        elif parts.get("user"):
            self._set_user(parts["user"].strip("`").lower(), self._value(match))
        elif "name" in parts:
            self.set(parts["name"].strip("`"), self._value(match))

    def _set_user(self, name: str, value: Value) -> None:
        if name not in self._users and len(self._users) >= _MOST_USER_VARIABLES:
            raise DoorError(errors.WRONG_VALUE, f"A connection has at most {_MOST_USER_VARIABLES} user variables.")
        if max(len(name), len(str(value))) > _LONGEST_VALUE:
            raise DoorError(
                errors.WRONG_VALUE,
                f"The name or value of '@{name[:80]}' is longer than {_LONGEST_VALUE} characters.",
            )
        kept = sum(len(known) + len(str(has)) for known, has in self._users.items() if known != name)
        if kept + len(name) + len(str(value)) > _LONGEST_TOGETHER:
            raise DoorError(
                errors.WRONG_VALUE, f"The user variables have more than {_LONGEST_TOGETHER} characters together."
            )
        self._users[name] = value

    def _set_names(self, written: str, collation: str | None) -> None:
        name = _unquoted(written)
        if name.lower() == "default":
            self.use_charset(CharacterSet.utf8mb4)
        else:
            self.use_charset(charset_of(name), _unquoted(collation) if collation else None)

    def _value(self, match: re.Match[str]) -> Value:
        written = match["value"]
        if match["pieces"] is not None:
            pieces = re.findall(rf"{_TEXT}|@@(?:\w+\.)?\w+", match["pieces"])
            return "".join(constants.text_of(p) if p[0] != "@" else str(self.get(p[2:].split(".")[-1])) for p in pieces)
        if match["other"]:
            return self.get(match["other"])
        if match["other_user"]:
            return self.get_user(match["other_user"])
        if written[0] in "'\"":
            return constants.text_of(written)
        if re.fullmatch(r"-?\d+", written):
            return int(written)
        return None if written.lower() in ("default", "null") else written


def _items(text: str) -> Iterator[re.Match[str]]:
    """The comma-separated items behind the word SET. Raises DoorError where there is none."""
    position = len("set")
    while True:
        while text[position : position + 1].isspace():
            position += 1
        forms = (_NAMES, _TRANSACTION, _ASSIGNMENT)
        match = next((m for form in forms if (m := form.match(text, position))), None)
        end = _NEXT.match(text, match.end()) if match else None
        if match is None or end is None:
            raise DoorError(
                errors.SYNTAX, f"SET cannot be read near '{text[position : position + 40]}': write `set name = value`."
            )
        yield match
        if not end[1]:
            return
        position = end.end()


def charset_of(name: str) -> CharacterSet:
    """A character set that a client may speak. Raises DoorError."""
    name = name.lower()
    try:
        charset = CharacterSet["utf8" if name == "utf8mb3" else name]
        codecs.lookup(charset.codec)
    except (KeyError, LookupError):
        raise DoorError(errors.UNKNOWN_CHARSET, f"Unknown character set: '{name[:80]}'.") from None
    if charset.name.startswith(("utf16", "utf32")):
        raise DoorError(errors.WRONG_VALUE, f"A client cannot speak {charset.name}; use utf8mb4.")
    return charset


def _checked(name: str, value: Any) -> Value:
    if name in _CHARSETS:
        return str(charset_of(str(value)).name)
    if name == "collation_connection" and str(value).lower() not in Collation.__members__:
        raise DoorError(errors.WRONG_VALUE, f"Unknown collation: '{str(value)[:80]}'.")
    if name in _FLAGS and isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    if isinstance(VARIABLES[name].default, int):
        if not str(value).lstrip("-").isdecimal():
            raise DoorError(errors.WRONG_VALUE, f"Variable '{name}' cannot be set to the value of '{str(value)[:80]}'.")
        return int(value)
    if len(str(value)) > _LONGEST_VALUE:
        raise DoorError(errors.WRONG_VALUE, f"The value of '{name}' is longer than {_LONGEST_VALUE} characters.")
    return str(value)


def _unquoted(written: str) -> str:
    return constants.text_of(written) if written[0] in "'\"" else written
