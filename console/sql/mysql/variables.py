"""System variables and user variables of a connection, and the SET statements that change them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from console.sql.mysql import errors
from console.sql.mysql.errors import EndpointError
from console.statements import LONGEST_STATEMENT
from console.statements.lexer import TEXT, value_of
from mysqlwire.aio.limits import Limits
from mysqlwire.aio.session import Session
from mysqlwire.protocol import charsets
from mysqlwire.protocol.answers import Column
from mysqlwire.protocol.charsets import CHARACTER_SETS, CharacterSet
from mysqlwire.protocol.constants import Status

#: Smaller packets take no room of their account: however many connections it has, theirs are few bytes.
LARGE = 64 * 1024
#: What the protocol keeps to; max_allowed_packet, wait_timeout and net_write_timeout are announced as they are here.
LIMITS = Limits(
    packet_before_sign_in=16 * 1024,
    packet=4 * 1024 * 1024,
    large_packet=LARGE,
    sign_in_s=10.0,
    idle_s=8 * 3600,
    packet_s=60,
    write_s=60,
    statements=1000,
    cursors=16,
    statement_characters=LONGEST_STATEMENT,
    kept=8 * 1024 * 1024,
)
#: What all connections of an account keep for later together, prepared texts and long data, bytes.
MOST_KEPT_OF_ACCOUNT = 64 * 1024 * 1024


Value = str | int | None

_SCOPES = r"(?:(?P<scope>session|local|global|persist|persist_only)\s+)?"
_NAMES = re.compile(
    rf"(?P<names>names|character\s+set|charset)\s+(?P<charset>[\w]+|{TEXT})(?:\s+collate\s+(?P<collation>\w+|{TEXT}))?",
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
    (?P<value>{TEXT}|concat\s*\((?P<pieces>[^()]*+)\)|@@(?:\w+\s*\.\s*)?(?P<other>\w+)|@(?P<other_user>[\w.$]+)|-?\d+(?![\w.])|[\w$-]+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_NEXT = re.compile(r"\s*(,\s*|\Z)")


@dataclass(frozen=True, slots=True)
class Variable:
    """A system variable; `settable` by the client for its own connection."""

    default: Value
    settable: bool = True


def _fixed(**values: Value) -> dict[str, Variable]:
    return {name: Variable(value, settable=False) for name, value in values.items()}


def _own(**values: Value) -> dict[str, Variable]:
    return {name: Variable(value) for name, value in values.items()}


VARIABLES = _fixed(
    version="8.0.36-gantry",
    version_comment="Gantry async SQL",
    version_compile_os="Linux",
    version_compile_machine="x86_64",
    license="Apache-2.0",
    protocol_version=10,
    hostname="gantry",
    port=3306,
    lower_case_table_names=0,
    lower_case_file_system="OFF",
    max_allowed_packet=LIMITS.packet,
    performance_schema=0,
    have_ssl="YES",
    have_openssl="YES",
    have_profiling="NO",
    have_query_cache="NO",
    query_cache_size=0,
    query_cache_type="OFF",
    log_bin=0,
    server_id=0,
    read_only=0,
    super_read_only=0,
    init_connect="",
    system_time_zone="UTC",
    event_scheduler="OFF",
    secure_file_priv=None,
    default_authentication_plugin="caching_sha2_password",
    character_set_system="utf8mb3",
    character_set_filesystem="binary",
    max_connections=1000,
) | _own(
    auto_increment_increment=1,
    auto_increment_offset=1,
    autocommit=1,
    character_set_client="utf8mb4",
    character_set_connection="utf8mb4",
    character_set_database="utf8mb4",
    character_set_results="utf8mb4",
    character_set_server="utf8mb4",
    collation_connection="utf8mb4_0900_ai_ci",
    collation_database="utf8mb4_0900_ai_ci",
    collation_server="utf8mb4_0900_ai_ci",
    completion_type="NO_CHAIN",
    default_storage_engine="spark",
    default_tmp_storage_engine="spark",
    foreign_key_checks=1,
    group_concat_max_len=1024,
    information_schema_stats_expiry=86400,
    interactive_timeout=int(LIMITS.idle_s),
    lc_messages="en_US",
    lc_time_names="en_US",
    lock_wait_timeout=31536000,
    max_execution_time=0,
    max_join_size=2**64 - 1,
    net_buffer_length=16384,
    net_read_timeout=30,
    net_write_timeout=int(LIMITS.write_s),
    optimizer_switch="",
    profiling=0,
    sql_auto_is_null=0,
    sql_big_selects=1,
    sql_log_bin=0,
    sql_mode="",
    sql_notes=1,
    sql_quote_show_create=1,
    sql_safe_updates=0,
    sql_select_limit=2**64 - 1,
    sql_warnings=0,
    time_zone="UTC",
    transaction_isolation="READ-COMMITTED",
    transaction_read_only=0,
    tx_isolation="READ-COMMITTED",
    tx_read_only=0,
    unique_checks=1,
    wait_timeout=int(LIMITS.idle_s),
)


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


class SessionVariables:
    """The variables of one connection."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._users: dict[str, Value] = {}

    def get(self, name: str) -> Value:
        """The value of a system variable. Raises EndpointError for an unknown one."""
        name = name.lower()
        if name in self._values:
            return self._values[name]
        known = VARIABLES.get(name)
        if known is None:
            raise EndpointError(errors.UNKNOWN_VARIABLE, f"Unknown system variable '{name[:80]}'.")
        return known.default

    def get_user(self, name: str) -> Value:
        """The value of `@name`, None when it was never set."""
        return self._users.get(name.lower())

    def set(self, name: str, value: Value) -> None:
        """Set a system variable; None sets its default. Raises EndpointError for a value that it cannot have."""
        name = name.lower()
        self.get(name)
        if not VARIABLES[name].settable:
            raise EndpointError(errors.READ_ONLY, f"Variable '{name}' is a read only variable.")
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = _checked(name, value)

    def use_charset(self, charset: CharacterSet, collation: str | None = None) -> None:
        """As `set names`: what is sent and answered in."""
        for name in ("character_set_client", "character_set_connection", "character_set_results"):
            self._values[name] = charset.name
        self._values["collation_connection"] = collation or charset.default_collation

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
        """Run a SET statement, all of it or nothing. Raises EndpointError."""
        before = dict(self._values), dict(self._users)
        try:
            for match in _items(text):
                self._apply(match)
        except EndpointError:
            self._values, self._users = before
            raise

    def _apply(self, match: re.Match[str]) -> None:
        parts = match.groupdict()
        if (parts.get("scope") or parts.get("at_scope") or "session").lower() not in ("session", "local"):
            raise EndpointError(errors.NOT_FOR_YOU, "Only variables of the session can be set.")
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
            raise EndpointError(errors.WRONG_VALUE, f"A connection has at most {_MOST_USER_VARIABLES} user variables.")
        if max(len(name), len(str(value))) > _LONGEST_VALUE:
            raise EndpointError(
                errors.WRONG_VALUE,
                f"The name or value of '@{name[:80]}' is longer than {_LONGEST_VALUE} characters.",
            )
        kept = sum(len(known) + len(str(has)) for known, has in self._users.items() if known != name)
        if kept + len(name) + len(str(value)) > _LONGEST_TOGETHER:
            raise EndpointError(
                errors.WRONG_VALUE, f"The user variables have more than {_LONGEST_TOGETHER} characters together."
            )
        self._users[name] = value

    def _set_names(self, written: str, collation: str | None) -> None:
        name = value_of(written)
        if name.lower() == "default":
            self.use_charset(charsets.UTF8MB4)
        else:
            self.use_charset(charset_of(name), value_of(collation) if collation else None)

    def _value(self, match: re.Match[str]) -> Value:
        written = match["value"]
        if match["pieces"] is not None:
            pieces = re.findall(rf"{TEXT}|@@(?:\w+\.)?\w+", match["pieces"])
            return "".join(value_of(p) if p[0] != "@" else str(self.get(p[2:].split(".")[-1])) for p in pieces)
        if match["other"]:
            return self.get(match["other"])
        if match["other_user"]:
            return self.get_user(match["other_user"])
        if written[0] in "'\"":
            return value_of(written)
        if re.fullmatch(r"-?\d+", written):
            return int(written)
        return None if written.lower() in ("default", "null") else written


def _items(text: str) -> Iterator[re.Match[str]]:
    """The comma-separated items behind the word SET. Raises EndpointError where there is none."""
    position = len("set")
    while True:
        while text[position : position + 1].isspace():
            position += 1
        forms = (_NAMES, _TRANSACTION, _ASSIGNMENT)
        match = next((m for form in forms if (m := form.match(text, position))), None)
        end = _NEXT.match(text, match.end()) if match else None
        if match is None or end is None:
            raise EndpointError(
                errors.SYNTAX, f"SET cannot be read near '{text[position : position + 40]}': write `set name = value`."
            )
        yield match
        if not end[1]:
            return
        position = end.end()


def charset_of(name: str) -> CharacterSet:
    """A character set that a client may speak. Raises EndpointError."""
    charset = charsets.character_set(name)
    if charset is not None and charset.wide:
        raise EndpointError(errors.WRONG_VALUE, f"A client cannot speak {charset.name}; use utf8mb4.")
    if charset is None or not charset.speakable:
        raise EndpointError(errors.UNKNOWN_CHARSET, f"Unknown character set: '{name.lower()[:80]}'.")
    return charset


def _checked(name: str, value: Any) -> Value:
    if name in _CHARSETS:
        return charset_of(str(value)).name
    if name == "collation_connection" and str(value).lower() not in charsets.COLLATIONS:
        raise EndpointError(errors.WRONG_VALUE, f"Unknown collation: '{str(value)[:80]}'.")
    if name in _FLAGS and isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    if isinstance(VARIABLES[name].default, int):
        if not str(value).lstrip("-").isdecimal():
            raise EndpointError(
                errors.WRONG_VALUE, f"Variable '{name}' cannot be set to the value of '{str(value)[:80]}'."
            )
        return int(value)
    if len(str(value)) > _LONGEST_VALUE:
        raise EndpointError(errors.WRONG_VALUE, f"The value of '{name}' is longer than {_LONGEST_VALUE} characters.")
    return str(value)


class EndpointSession(Session):
    """What answers a connection; a subclass says who may sign in and what statements do."""

    version = str(VARIABLES["version"].default)

    def __init__(self) -> None:
        super().__init__()
        self.variables = SessionVariables()

    @property
    def status(self) -> Status:
        """The status that goes with every answer: nothing is ever in a transaction."""
        return Status.AUTOCOMMIT if self.variables.get("autocommit") else Status(0)

    @property
    def client_charset(self) -> CharacterSet:
        """What the client's texts are in (`character_set_client`)."""
        return CHARACTER_SETS[str(self.variables.get("character_set_client"))]

    @property
    def results_charset(self) -> CharacterSet:
        """What texts are sent in (`character_set_results`)."""
        return CHARACTER_SETS[str(self.variables.get("character_set_results"))]

    def use_charset(self, charset: CharacterSet) -> None:
        """As `set names`, at sign-in."""
        self.variables.use_charset(charset)

    async def reset(self) -> None:
        """COM_RESET_CONNECTION and COM_CHANGE_USER: variables are as at the beginning."""
        self.variables.reset()

    async def columns(self, table: str, pattern: str) -> list[Column]:
        """The columns of a table, for COM_FIELD_LIST: every one, whatever they are to be like."""
        return [Column(str(row[0])) for row in await self.columns_of(table)]

    async def columns_of(self, table: str) -> list[tuple[Any, ...]]:
        """Rows of `show columns`."""
        return []
