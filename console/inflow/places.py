"""Processes of expressions that pages and requests start: so many at a time, and no account has all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.utils.translation import gettext as _

from analytics.confined import Places
from analytics.inflow.transform import TransformFailed

_MOST, _MOST_WAITING, _WAIT_S = 4, 4, 5.0
_places = Places(_MOST, most_waiting=_MOST_WAITING)


@contextmanager
def place(holder: str) -> Iterator[None]:
    """A place for the account. Raises TransformFailed when none is free for some seconds."""
    if not _places.acquire(holder, time.monotonic() + _WAIT_S):
        raise TransformFailed(_("Too many transforms are tried at the moment; try again."), retryable=True)
    try:
        yield
    finally:
        _places.release(holder)
