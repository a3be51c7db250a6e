"""A MySQL or MariaDB server as a source: connecting, what is wrong with it and how that is mended, its definitions."""

from __future__ import annotations

import codecs
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pymysql

from analytics.inflow.changes import CaptureFailed
from analytics.inflow.mysql_values import Column, Decode, labels_of
from brokercore.globs import expression

CONNECT_SECONDS = 10
#: A statement that takes longer is taken for a server that is away; nothing here reads a table but the snapshot.
STATEMENT_SECONDS = 60
_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_JSON_CHECK = re.compile(r"\s*json_valid\(`((?:[^`]|``)*)`\)\s*", re.IGNORECASE)
#: Character sets of several bytes, in Python's names; those of one byte are asked of the server.
_CODECS = {
    **{"utf8": "utf-8", "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ascii": "ascii"},
    **{"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"},
    **{"big5": "big5", "cp932": "cp932", "eucjpms": "euc_jp", "euckr": "cp949", "gb18030": "gb18030"},
    **{"gb2312": "gb2312", "gbk": "gbk", "sjis": "shift_jis", "ujis": "euc_jp"},
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and who asks. The account needs REPLICATION SLAVE, REPLICATION CLIENT and SELECT."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: Literal["off", "required", "verified"] = "off"
    """`required` encrypts and trusts any certificate; `verified` checks it, and the name in it."""
    ca: str = ""
    """The authorities to trust, PEM; empty for the machine's."""
    address: str = ""
    """The address to connect to, where `host` has been looked up already; certificates are compared with `host`."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the server defines it now."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def quoted(self) -> str:
        """Its name in a statement."""
        return f"{quoted_name(self.schema)}.{quoted_name(self.name)}"


def quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def failure(error: Exception, address: Address) -> CaptureFailed:  # noqa: PLR0911 - a table of numbers
    """What an error of the driver or of the network means here."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    who = f"{address.user!r}"
    if number in (1045, 1698) and "REPLICATION SLAVE" not in text.upper():
        return CaptureFailed(
            f"{address} refuses the account {who} or its password.",
            "PASSWORD_WRONG",
            f"ALTER USER {_account(address)} IDENTIFIED BY '…'",
        )
    if number in (1820, 1862):
        return CaptureFailed(
            f"The password of {who} at {address} has expired.",
            "PASSWORD_WRONG",
            f"ALTER USER {_account(address)} IDENTIFIED BY '…'",
        )
    if number == 1130:
        return CaptureFailed(
            f"{address} lets no account {who} in from this host.",
            "PASSWORD_WRONG",
            f"CREATE USER {_account(address)} IDENTIFIED BY '…'",
        )
    if number in (1045, 1227, 1044, 1142, 1143):
        right = next((right for right in _RIGHTS if right in text.upper()), "SELECT")
        return missing_right(address, _account(address), right)
    if number == 3159 or isinstance(error, ssl.SSLError) or "SSL" in text:
        return CaptureFailed(f"No encrypted connection to {address}: {text}.", "TLS_FAILED")
    if number in (1146, 1049):
        return CaptureFailed(f"{address} has no such table: {text}.", "NO_TABLE")
    if number == 1236:
        return _of_log(text, address)
    return CaptureFailed(f"{address} does not answer: {text}.", "UNREACHABLE")


_RIGHTS = ("REPLICATION SLAVE", "BINLOG MONITOR", "REPLICATION CLIENT", "RELOAD", "BINLOG ADMIN")


def _account(address: Address) -> str:
    return f"'{address.user}'@'%'"


def missing_right(address: Address, account: str, right: str, on: str = "*.*") -> CaptureFailed:
    """The failure of an account that lacks a right."""
    right = "REPLICATION CLIENT" if right == "BINLOG MONITOR" else right
    return CaptureFailed(
        f"The account {account} at {address} lacks the right {right} on {on}.",
        "RIGHT_MISSING",
        f"GRANT {right} ON {on} TO {account}",
    )


def _of_log(text: str, address: Address) -> CaptureFailed:
    if re.search(r"same server_(uu)?id", text):
        return CaptureFailed(f"{address} has given the stream to another reader with the same number.", "TAKEN_OVER")
    return purged(address, text)


def purged(address: Address, why: str) -> CaptureFailed:
    """The failure of a position that the server has no more. No statement brings a purged log back."""
    return CaptureFailed(
        f"{address} has no binary log any more that holds this position ({why.rstrip('.')}):"
        " the changes since are lost to this reader, which has to begin with a snapshot."
        " To keep logs longer, raise the time after which they expire.",
        "LOG_PURGED",
        "SET GLOBAL binlog_expire_logs_seconds = 604800",
    )


def connect(address: Address, **options: Any) -> Any:
    """A connection with the session's time zone UTC. Raises CaptureFailed."""
    context = _tls(address)
    options = {"read_timeout": STATEMENT_SECONDS, "write_timeout": STATEMENT_SECONDS, **options}
    with translated(address):
        connection = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            init_command="SET SESSION time_zone = '+00:00'",
            ssl=context,
            ssl_disabled=context is None,
            defer_connect=True,
            **options,
        )
        connection.connect(_opened(address) if address.address else None)
        return connection


def _opened(address: Address) -> socket.socket:
    """A socket to the address that was looked up, with the options that the driver gives to its own."""
    opened = socket.create_connection((address.address, address.port), CONNECT_SECONDS)
    opened.settimeout(None)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return opened


def _tls(address: Address) -> ssl.SSLContext | None:
    if address.tls == "off":
        return None
    try:
        context = ssl.create_default_context(cadata=address.ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise CaptureFailed(f"The certificate of the authority cannot be read: {error}.", "TLS_FAILED") from None
    if address.tls == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Raise the driver's errors as CaptureFailed."""
    try:
        yield
    except (pymysql.MySQLError, OSError, EOFError) as error:
        raise failure(error, address) from error


class Server:
    """A connection for questions: settings, definitions, character sets."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection = connect(address)
        self.is_mariadb = "mariadb" in str(self.connection.get_server_info()).lower()
        self._decoders: dict[str, Decode] = {}
        self._charsets: dict[int, str] = {}

    def close(self) -> None:
        """End the connection."""
        try:
            self.connection.close()
        except pymysql.MySQLError:
            return  # it has ended by itself

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement. Raises CaptureFailed."""
        with translated(self.address), self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def variable(self, name: str) -> str:
        """A global variable as text; empty where this server has none."""
        found = self.rows("SHOW GLOBAL VARIABLES WHERE Variable_name = %s", name)
        return str(found[0][1]) if found else ""

    @property
    def account(self) -> str:
        """The account that the server took this connection for, in a statement's words."""
        user, _, host = str(self.rows("SELECT CURRENT_USER()")[0][0]).rpartition("@")
        return f"'{user}'@'{host}'"

    def status(self) -> tuple[str, int, str]:
        """File, offset, and for MySQL the GTIDs that the log has reached. Raises CaptureFailed."""
        try:
            found = self.rows("SHOW MASTER STATUS")
        except CaptureFailed as failed:
            if not isinstance(failed.__cause__, pymysql.ProgrammingError):
                raise
            found = self.rows("SHOW BINARY LOG STATUS")  # since MySQL 8.4
        if not found:
            raise log_off(self.address)
        row = found[0]
        return str(row[0]), int(row[1]), str(row[4]).replace("\n", "") if len(row) > 4 else ""

    def tables(self, patterns: Sequence[str]) -> list[Table]:
        """The tables that match, as far as the account may see them, in the order of their names."""
        wanted = matcher(patterns)
        found = self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
            " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2"
        )
        return [self.table(schema, name) for schema, name in found if wanted(schema, name)]

    def table(self, schema: str, name: str) -> Table:
        """A table's definition now; without columns where there is none, or none to see."""
        found = self.rows(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLUMN_KEY FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            *(schema, name),
        )
        key = self.rows(
            "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            " AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
            *(schema, name),
        )
        json = self._json_columns(schema, name) if self.is_mariadb else set()
        columns = tuple(
            Column(
                str(column),
                "json" if column in json else str(data_type).lower(),
                str(column_type),
                str(charset or ""),
                " unsigned" in str(column_type).lower(),
                labels_of(str(column_type)),
            )
            for column, data_type, column_type, charset, _ in found
        )
        return Table(schema, name, columns, tuple(str(column) for (column,) in key))

    def _json_columns(self, schema: str, name: str) -> set[str]:
        """MariaDB's JSON is LONGTEXT with this check."""
        checks = self.rows(
            "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS"
            " WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s",
            *(schema, name),
        )
        return {found[1].replace("``", "`") for (text,) in checks if (found := _JSON_CHECK.fullmatch(str(text)))}

    def charset(self, collation: int) -> str:
        """The character set of a collation's number."""
        if not self._charsets:
            self._charsets = {
                int(number): str(name)
                for view in ("COLLATIONS", "COLLATION_CHARACTER_SET_APPLICABILITY")
                if view == "COLLATIONS" or self._numbers_applicability()
                for number, name in self.rows(f"SELECT ID, CHARACTER_SET_NAME FROM information_schema.{view}")  # noqa: S608 - two constants
                if number is not None and name is not None
            }
        return self._charsets.get(collation, "")

    def _numbers_applicability(self) -> bool:
        """MariaDB has collations, since 10.10, that belong to several character sets, and numbers them there."""
        return bool(
            self.rows(
                "SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'"
                " AND TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'ID'"
            )
        )

    def decoder(self, charset: str) -> Decode | None:
        """What makes text of bytes in a character set; None of bytes that are no text."""
        if charset in ("", "binary"):
            return None
        if charset not in self._decoders:
            self._decoders[charset] = _of_codec(_CODECS[charset]) if charset in _CODECS else self._one_byte(charset)
        return self._decoders[charset]

    def _one_byte(self, charset: str) -> Decode:
        """A set of one byte as the server itself maps it: Python lacks some, and is stricter with others."""
        if not re.fullmatch(r"\w+", charset):
            raise CaptureFailed(f"{self.address} names an unknown character set {charset!r}.", "LOG_UNREADABLE")
        statement = f"SELECT CONVERT(_{charset} 0x{bytes(range(256)).hex()} USING utf8mb4)"
        characters = str(self.rows(statement)[0][0])
        if len(characters) != 256:
            raise CaptureFailed(f"{self.address} has an unknown character set {charset!r}.", "LOG_UNREADABLE")
        return lambda data: codecs.charmap_decode(data, "strict", characters)[0]


def _of_codec(name: str) -> Decode:
    return lambda data: data.decode(name, "replace")


def matcher(patterns: Sequence[str]) -> Any:
    """Tell whether a table is meant: `shop.orders`, `shop.*`, `shop_?.order*`. System schemas only by their name."""
    expressions = []
    for pattern in patterns:
        schema, dot, table = pattern.partition(".")
        if not dot or not schema or not table:
            raise CaptureFailed(
                f"{pattern!r} is no pattern of tables: it has to be schema.table, with * and ? for characters.",
                "NO_TABLE",
            )
        expressions.append((_compiled(schema), _compiled(table), schema.lower()))

    def wanted(schema: str, table: str) -> bool:
        return any(
            of_schema.fullmatch(schema) and of_table.fullmatch(table)
            for of_schema, of_table, text in expressions
            if schema.lower() not in _SYSTEM or text == schema.lower()
        )

    return wanted


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(expression(text), re.DOTALL)


def log_off(address: Address) -> CaptureFailed:
    """The failure of a server that writes no log."""
    return CaptureFailed(
        f"{address} writes no binary log: start it with log_bin in its configuration.",
        "LOG_OFF",
        "[mysqld] log_bin = ON",
    )


def faults(server: Server, patterns: Sequence[str]) -> list[CaptureFailed]:
    """All that is wrong with a server, apart from what only opening its log shows. Raises CaptureFailed if it ends."""
    address, found = server.address, []
    if server.variable("log_bin") != "ON":
        found.append(log_off(address))
    for name, allowed, code, why in _SETTINGS:
        value = server.variable(name)
        if value and value.upper() not in allowed:
            found.append(
                CaptureFailed(f"{address} has {name} = {value}: {why}.", code, f"SET GLOBAL {name} = {allowed[0]}")
            )
    return found + _rights(server, patterns)


_SETTINGS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("binlog_format", ("ROW",), "LOG_FORMAT", "only ROW writes the rows that changed"),
    ("binlog_row_image", ("FULL", "FULL_NODUP"), "LOG_FORMAT", "only FULL writes rows whole"),
    ("binlog_row_value_options", ("''",), "LOG_FORMAT", "parts of JSON documents cannot be read"),
    ("binlog_transaction_compression", ("OFF",), "LOG_FORMAT", "compressed transactions cannot be read"),
)


def _rights(server: Server, patterns: Sequence[str]) -> list[CaptureFailed]:
    found = []
    account = server.account
    try:
        server.status()
    except CaptureFailed as failed:
        if failed.code == "RIGHT_MISSING":
            found.append(missing_right(server.address, account, "REPLICATION CLIENT"))
        elif failed.code != "LOG_OFF":
            raise
    tables = server.tables(patterns)
    for table in tables:
        try:
            server.rows(f"SELECT 1 FROM {table.quoted} LIMIT 0")  # noqa: S608 - quoted names
        except CaptureFailed as failed:
            if failed.code != "RIGHT_MISSING":
                raise
            found.append(missing_right(server.address, account, "SELECT", table.quoted))
    for pattern in patterns:
        wanted = matcher([pattern])
        if not any(wanted(table.schema, table.name) for table in tables):
            found.append(_no_table(server, account, pattern))
    return found


def _no_table(server: Server, account: str, pattern: str) -> CaptureFailed:
    """A table that is not seen is not there, or may not be read; for a name without * the server tells which."""
    schema, _, table = pattern.partition(".")
    on = (
        f"{quoted_name(schema)}.{quoted_name(table)}"
        if "*" not in table and "?" not in table
        else f"{quoted_name(schema)}.*"
    )
    if on.endswith(".*"):
        text = f"{server.address} has no table {pattern} that {account} may read."
        return CaptureFailed(text, "NO_TABLE", f"GRANT SELECT ON {on} TO {account}")
    try:
        server.rows(f"SELECT 1 FROM {on} LIMIT 0")  # noqa: S608 - quoted names
    except CaptureFailed as failed:
        if failed.code == "RIGHT_MISSING":
            return missing_right(server.address, account, "SELECT", on)
    return CaptureFailed(f"{server.address} has no table {pattern}.", "NO_TABLE")
