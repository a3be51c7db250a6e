"""Celery tasks of alarms."""

from __future__ import annotations

from celery import shared_task
from django.core.cache import cache

from console.alarms import rounds

_RUNNING, _LONGEST_S = "alarms:round", 60


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def evaluate() -> None:
    """Every 15 s: evaluate all rules, unless a round is under way."""
    # Two at once would do the same; one that was killed blocks it for a minute.
    if not cache.add(_RUNNING, 1, timeout=_LONGEST_S):
        return
    try:
        rounds.run()
    finally:
        cache.delete(_RUNNING)


@shared_task  # type: ignore[untyped-decorator]
def expire() -> None:
    """Once an hour: forget what ended long ago."""
    rounds.expire()
