"""Text that PostgreSQL cannot keep: a NUL, which the sentences of other programs may have.

What people and their programs give is refused before (`console/web/middleware.py`, `console/openapi/calls.py`), so a
NUL comes from a database, a broker or a library whose error is kept. A failed job that could not be told of would have
no reason and would never end; here the sentence is kept with U+FFFD where the NUL was. SQLite keeps it as it is.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from psycopg.abc import Buffer, Dumper

_INSTEAD = "\ufffd"
#: In a text of JSON: the escape, behind an even number of backslashes.
_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def without_nul(text: str) -> str:
    """The text as PostgreSQL can keep it."""
    return text.replace("\0", _INSTEAD) if "\0" in text else text


def json_without_nul(text: str) -> str:
    """The same of a text of JSON, whose type `jsonb` refuses the escape too."""
    return _ESCAPED.sub(rf"\1{_INSTEAD}", text) if "\\u0000" in text else text


@cache
def _dumpers() -> dict[type, type[Dumper]]:
    """What writes values of a type to PostgreSQL; the library is needed only where its database is."""
    from psycopg.types.json import Jsonb, JsonbDumper
    from psycopg.types.string import StrDumperUnknown

    class TextDumper(StrDumperUnknown):
        def dump(self, obj: str) -> Buffer | None:
            return super().dump(without_nul(obj))

    class JsonDumper(JsonbDumper):
        def dump(self, obj: Jsonb) -> Buffer | None:
            written = super().dump(obj)
            return written if written is None else json_without_nul(bytes(written).decode()).encode()

    return {str: TextDumper, Jsonb: JsonDumper}


def adapt(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Let a new connection to PostgreSQL write texts so; one to SQLite stays as it is."""
    if connection.vendor == "postgresql":
        for type_, dumper in _dumpers().items():
            connection.connection.adapters.register_dumper(type_, dumper)


def register() -> None:
    """For every connection that is opened from now on."""
    connection_created.connect(adapt, dispatch_uid="console.web.postgresql")
