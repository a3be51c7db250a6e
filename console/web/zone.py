"""The viewer's zone: every time that a page shows or asks for is in it.

The browser names its zone in a cookie (app.js); `ViewerZoneMiddleware` makes it Django's current zone for the request.
Without one, and outside requests, the current zone is UTC.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from django.utils import timezone
from django.utils.functional import lazy

COOKIE = "gantry_zone"
END_MS = 253_402_214_400_000
"""The last day of the year 9999, which not every zone can show to its end: later times come from broken clients."""


@lru_cache
def _known_names() -> frozenset[str]:
    # What the server calls its own zone says nothing about the viewer's.
    return frozenset(available_timezones() - {"localtime"})


def named(name: str) -> ZoneInfo:
    """The zone of an IANA name such as Europe/Berlin; UTC for any other text."""
    return ZoneInfo(name if name in _known_names() else "UTC")


def names() -> list[str]:
    """The IANA names that there are, in order."""
    return sorted(_known_names())


def current_name() -> str:
    """The name of the viewer's zone, for people."""
    return timezone.get_current_timezone_name()


def local(epoch_ms: int | float) -> datetime:
    """Epoch milliseconds as a time of the viewer's zone."""
    return datetime.fromtimestamp(epoch_ms / 1000, timezone.get_current_timezone())


def _with_zone(label: str) -> str:
    return f"{label} ({current_name()})"


labelled = lazy(_with_zone, str)
"""A label such as `From (Europe/Berlin)`, made when it is shown."""
