"""A full disk in one sentence, the same on every page, in every API and at the MySQL port."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError

from analytics.errors import LakeError
from brokercore.client.errors import ClientError
from brokercore.full_disk import is_full, sentence
from console.web.languages import gettext_lazy

_SQLITE_FAILED = ("disk I/O error", "unable to open database file")
#: Less than SQLite takes for the smallest change with its journal.
_ROOM_BYTES = 64 * 1024
TITLE = gettext_lazy("The disk is full")


def reason(error: BaseException | None) -> str:
    """The sentence to show when a disk that is full is behind the error; else an empty text."""
    return sentence(_place(error)) if is_full(error) or _is_full_without_words(error) else ""


def _is_full_without_words(error: BaseException | None) -> bool:
    """SQLite cannot make or grow the files beside its database either, and says then no more than that it failed."""
    if not isinstance(error, DatabaseError) or not str(error).startswith(_SQLITE_FAILED):
        return False
    with contextlib.suppress(OSError):
        return shutil.disk_usage(_place(error)).free < _ROOM_BYTES
    return False


def _place(error: BaseException | None) -> str:
    """Whose disk it is: a folder of this machine, or the service that said so."""
    if isinstance(error, LakeError):
        return "the lake"
    if isinstance(error, ClientError):
        return "the broker's message store"
    if isinstance(error, RedisError):
        return str(settings.HOME / "redis") if settings.REDIS_URL.startswith("unix:") else "Redis"
    if isinstance(error, DatabaseError):
        database = settings.DATABASES["default"]
        here = database["ENGINE"].endswith("sqlite3")
        return str(Path(str(database["NAME"])).parent) if here else "the console's database"
    if isinstance(error, OSError) and error.filename:
        return str(Path(str(error.filename)).parent)
    return str(settings.HOME)
