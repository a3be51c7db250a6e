"""Celery tasks of the synchronisation, on the queue `default`. One works at a time.

Key space (Django's cache, in Redis):
  cluster:synchronising  somebody is at work; runs out if a worker dies
  cluster:again          something changed meanwhile: whoever is at work goes round once more
"""

from __future__ import annotations

from django.core.cache import cache

from brokercore.client.errors import ClientError
from console.celery import app
from console.cluster import services

_AT_WORK, _AGAIN = "cluster:synchronising", "cluster:again"
_LONGEST_S = 120


@app.task(name="console.cluster.tasks.synchronise")  # type: ignore[untyped-decorator]
def synchronise() -> None:
    """Carry over what changed: asked for by every change of rights once it is committed."""
    _run(thorough=False)


@app.task(name="console.cluster.tasks.repair")  # type: ignore[untyped-decorator]
def repair() -> None:
    """Every minute: compare everything with the brokers, and mend it."""
    _run(thorough=True)


@app.task(name="console.cluster.tasks.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Every 5 s: try again what failed, and compare everything when a broker came or went."""
    for cluster in services.clusters():
        try:
            changed = services.brokers_changed(cluster)
        except ClientError:
            changed = True  # the round that follows takes down why
        if changed or services.unfinished(cluster):
            _run(thorough=changed)


def _run(*, thorough: bool) -> None:
    if not services.clusters():
        return
    cache.set(_AGAIN, True, timeout=_LONGEST_S)
    while cache.get(_AGAIN) and cache.add(_AT_WORK, True, timeout=_LONGEST_S):
        try:
            cache.delete(_AGAIN)
            for cluster in services.clusters():
                services.synchronise(cluster, thorough=thorough)
        finally:
            cache.delete(_AT_WORK)
        # Who came too late for the round and too early for the lock has left a word: look again.
