"""The sampler's beat and the roll-up of samples, which runs on the Spark worker."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.conf import settings

from analytics import run
from brokercore.client.errors import ClientError
from console.instances.models import Cluster
from console.metrics import sampler

log = logging.getLogger(__name__)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def sample() -> None:
    """Sample every cluster that has instances; one that does not answer costs the others nothing."""
    for cluster in Cluster.objects.filter(instances__isnull=False).distinct():
        try:
            sampler.sample_cluster(cluster)
        except ClientError as error:
            log.warning("no sample of %s: %s", cluster.name, error)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def roll_up() -> None:
    """Roll the samples that came since the last time up to 1, 5 and 10 minutes."""
    for day in run.days_to_roll_up():
        run.rollup(day)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def expire() -> None:
    """Drop samples older than GANTRY_SAMPLES_DAYS."""
    if settings.SAMPLES_DAYS:
        days = run.drop_samples(datetime.now(UTC).date() - timedelta(days=settings.SAMPLES_DAYS))
        if days:
            log.info("samples of %d days were dropped", days)
