"""The sweep's beat."""

from __future__ import annotations

from celery import shared_task

from console.drift import sweep
from console.instances.models import Cluster


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def sweep_all() -> None:
    """Compare every cluster that holds instances with the database."""
    for cluster in Cluster.objects.filter(instances__isnull=False).distinct():
        sweep.sweep(cluster)
