"""A database that is captured, whichever it is: opening, looking for what is wrong, measuring, and taking leave."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from analytics.inflow import mysql, postgres
from analytics.inflow.changes import Capture, CaptureFailed, TablePatterns
from analytics.inflow.mysql import MySqlCapture
from analytics.inflow.mysql_server import Address, matcher
from analytics.inflow.postgres import PostgresCapture, PostgresSource

Kind = Literal["postgresql", "mysql"]
Tls = Literal["off", "required", "verified"]
_SSL_MODES = {"off": "disable", "required": "require", "verified": "verify-full"}


@dataclass(frozen=True, slots=True)
class Source:
    """A PostgreSQL database, or a MySQL or MariaDB server, and who reads it.

    `address` is what `host` was looked up as: nothing else is connected to, and certificates are compared with `host`.
    `required` encrypts and trusts any certificate; `verified` checks it, and the name in it, by the authorities `ca`
    (PEM), or by those of this machine where that is empty. `name` is what is made in the database (slot, publication).
    """

    kind: Kind
    host: str
    address: str
    port: int
    user: str
    password: str = field(repr=False)
    name: str
    database: str = ""
    tls: Tls = "off"
    ca: str = ""

    @property
    def shown(self) -> str:
        """What its events call it."""
        database = f"/{self.database}" if self.database else ""
        return f"{self.kind}://{self.host}:{self.port}{database}"


class Lag(NamedTuple):
    """How far a capture is behind: bytes of the log that wait in the database, and milliseconds; None: not known."""

    bytes: int | None
    ms: int | None


def require_patterns(kind: Kind, patterns: Sequence[str]) -> None:
    """Raise ValueError, whose text is a sentence, for patterns that are none."""
    if kind == "postgresql":
        TablePatterns(patterns)
        return
    if not patterns:
        raise ValueError("At least one pattern of tables is needed, such as shop.*.")
    try:
        matcher(patterns)
    except CaptureFailed as failure:
        raise ValueError(failure.sentence) from None


@contextmanager
def opened(
    source: Source, patterns: Sequence[str], position: str | None, *, snapshot: bool
) -> Iterator[PostgresCapture | MySqlCapture]:
    """A capture that is closed at the end. Raises CaptureFailed."""
    with _postgres(source) as told:
        capture: PostgresCapture | MySqlCapture
        if told is not None:
            capture = postgres.open_capture(told, patterns, position, snapshot=snapshot)
        else:
            capture = mysql.open_capture(_mysql(source), patterns, position, snapshot=snapshot, source=source.shown)
        try:
            yield capture
        finally:
            with suppress(CaptureFailed):
                capture.close()


def check(source: Source, patterns: Sequence[str], position: str | None = None) -> list[CaptureFailed]:
    """All that keeps a capture from beginning, or from going on behind `position`; nothing is wrong when it is empty.

    Raises ValueError for patterns that are none.
    """
    require_patterns(source.kind, patterns)
    with _postgres(source) as told:
        if told is not None:
            return postgres.check(told, patterns, begins=position is None)
        return mysql.check(_mysql(source), patterns, position)


def remove(source: Source) -> None:
    """Take away what a capture has made in the database. Raises CaptureFailed."""
    with _postgres(source) as told:
        if told is not None:
            postgres.remove(told)


def lag_of(capture: Capture, *, is_idle: bool) -> Lag:
    """How far it is behind; `is_idle` when the last call gave no change. Raises CaptureFailed."""
    if isinstance(capture, PostgresCapture):
        kept, seconds = capture.lag()
        return Lag(kept, None if seconds is None else int(seconds * 1000))
    if isinstance(capture, MySqlCapture) and (is_idle or capture.last_ms):
        return Lag(None, 0 if is_idle else max(0, int(time.time() * 1000) - capture.last_ms))
    return Lag(None, None)


def _mysql(source: Source) -> Address:
    return Address(source.host, source.port, source.user, source.password, source.tls, source.ca, source.address)


@contextmanager
def _postgres(source: Source) -> Iterator[PostgresSource | None]:
    """The source as PostgreSQL's; its authorities are a file for that long, since the driver reads no other."""
    if source.kind != "postgresql":
        yield None
        return
    file = ""
    try:
        if source.ca:
            opened, file = tempfile.mkstemp(prefix="gantry-ca-", suffix=".pem")
            with os.fdopen(opened, "w") as written:
                written.write(source.ca)
        yield PostgresSource(
            host=source.host,
            database=source.database,
            user=source.user,
            slot=source.name,
            password=source.password,
            port=source.port,
            ssl_mode=_SSL_MODES[source.tls],
            root_certificate=file or ("system" if source.tls == "verified" else ""),
            address=source.address,
            source=source.shown,
        )
    finally:
        if file:
            os.unlink(file)
