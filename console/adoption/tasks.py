"""Celery tasks of adoption."""

from __future__ import annotations

import logging

from celery import shared_task
from django.core.cache import cache

from brokercore.client.errors import ClientError
from console.adoption import listing, worker
from console.adoption import rules as rule_book
from console.instances.models import Cluster

log = logging.getLogger(__name__)
_SECONDS = 50


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
    """Adopt what came to the clusters that have rules."""
    for cluster in Cluster.objects.filter(adoption_rules__isnull=False).distinct():
        # Two at once would do the same, and tell it twice.
        if not cache.add(f"adoption:rules:{cluster.pk}", 1, timeout=_SECONDS):
            continue
        try:
            rule_book.apply(cluster)
        except ClientError as error:
            log.warning("the rules of %s could not be applied: %s", cluster.name, error.user_message)
