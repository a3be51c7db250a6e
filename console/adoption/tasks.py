"""Celery tasks of adoption."""

from __future__ import annotations

import logging

from celery import shared_task
from django.core.cache import cache

from brokercore.client.errors import ClientError
from console.adoption import listing, worker
from console.adoption import rules as rule_book
from console.adoption.models import Run
from console.instances.models import Cluster

log = logging.getLogger(__name__)
LEASE_S = 30
"""So long a worker that was killed keeps others from the rules of its cluster."""
_REST_S = 50
"""So long after they were applied rules are left alone."""


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def work(number: int) -> None:
    """Do a run, if nobody else does."""
    worker.work(number)


@shared_task  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Go on with runs that lost their worker or their message, or waited for a cluster."""
    for number in worker.sweep():
        worker.work(number)


@shared_task  # type: ignore[untyped-decorator]
def names() -> None:
    """Ask anew for the lists of names that somebody looks at and brokers take long to tell."""
    for cluster in Cluster.objects.all():
        if not listing.is_looked_at(cluster):
            continue
        try:
            listing.ask(cluster)
        except ClientError as error:
            log.warning("the names of %s could not be listed: %s", cluster.name, error.user_message)


@shared_task  # type: ignore[untyped-decorator]
def rules() -> None:
    """Adopt what came to the clusters that have rules: once a minute, and again at once what did not succeed."""
    for cluster in Cluster.objects.filter(adoption_rules__isnull=False).distinct():
        # Two at once would do the same, and tell it twice.
        if not cache.add(_applied(cluster), 1, timeout=LEASE_S):
            continue
        # A run that has begun is the sweep's.
        is_done = Run.objects.filter(rule__cluster=cluster, ended_at=None).exists()
        try:
            if not is_done:
                rule_book.apply(cluster)
                is_done = True
        except ClientError as error:
            log.warning("the rules of %s could not be applied: %s", cluster.name, error.user_message)
        finally:
            if is_done:
                cache.set(_applied(cluster), 1, timeout=_REST_S)
            else:
                cache.delete(_applied(cluster))


def _applied(cluster: Cluster) -> str:
    return f"adoption:rules:{cluster.pk}"
