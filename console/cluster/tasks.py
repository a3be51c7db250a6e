"""Celery tasks of the synchronisation, on the queue `default`. One works on each cluster at a time.

Key space (Django's cache, in Redis):
  cluster:synchronising:<number>  somebody is at work on this cluster; runs out if a worker dies
  cluster:again:<number>          something changed meanwhile: whoever is at work goes round once more
"""

from __future__ import annotations

from django.core.cache import cache

from brokercore.client.errors import ClientError
from console.celery import app
from console.cluster import services
from console.instances.models import Cluster

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
            _round(cluster, thorough=changed)


@app.task(name="console.cluster.tasks.synchronise_cluster")  # type: ignore[untyped-decorator]
def synchronise_cluster(number: int, thorough: bool) -> None:
    """Carry over to one of several clusters."""
    for cluster in services.clusters():
        if cluster.pk == number:
            _round(cluster, thorough=thorough)


def _run(*, thorough: bool) -> None:
    """Each of several clusters by itself: none waits for one that is away."""
    found = services.clusters()
    if len(found) == 1:
        _round(found[0], thorough=thorough)
        return
    for cluster in found:
        app.send_task("console.cluster.tasks.synchronise_cluster", [cluster.pk, thorough], retry=False)


def _round(cluster: Cluster, *, thorough: bool) -> None:
    at_work, again = f"{_AT_WORK}:{cluster.pk}", f"{_AGAIN}:{cluster.pk}"
    cache.set(again, True, timeout=_LONGEST_S)
    while cache.get(again) and cache.add(at_work, True, timeout=_LONGEST_S):
        try:
            cache.delete(again)
            services.synchronise(cluster, thorough=thorough)
        finally:
            cache.delete(at_work)
        # Who came too late for the round and too early for the lock has left a word: look again.
