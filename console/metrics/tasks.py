"""The sampler's beat and the roll-up of samples, which runs on the Spark worker."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.conf import settings
from django.core.cache import cache

from analytics import retention
from analytics.errors import LakeError
from analytics.samples import rollup
from brokercore.client.errors import ClientError
from console.celery import app
from console.instances.models import Cluster
from console.metrics import sampler

#: What no worker had time for until the next turn is left out, s.
_SAMPLE_EXPIRES_S = 9
log = logging.getLogger(__name__)
#: Two workers on two machines would each remove what the other made; one that was killed blocks it for so long, s.
_ROLLING_UP, _LONGEST_ROLLUP_S = "gantry:metrics:rolling-up", 1800


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def sample() -> None:
    """Ask the workers to sample every cluster that has instances, each for itself: none waits for one that is away."""
    for number in Cluster.objects.filter(instances__isnull=False).distinct().values_list("pk", flat=True):
        app.send_task("console.metrics.tasks.sample_cluster", [number], expires=_SAMPLE_EXPIRES_S, retry=False)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def sample_cluster(number: int) -> None:
    """Sample one cluster, unless another worker does; one that does not answer has a gap."""
    cluster = Cluster.objects.filter(pk=number).first()
    if cluster is None:
        return
    try:
        sampler.sample_cluster(cluster)
    except (ClientError, LakeError) as error:
        log.warning("no sample of %s: %s", cluster.name, error)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def roll_up() -> None:
    """Roll the samples that came since the last time up to 1, 5 and 10 minutes; in one worker at a time."""
    if not cache.add(_ROLLING_UP, True, timeout=_LONGEST_ROLLUP_S):
        return
    try:
        for day in rollup.days_to_roll_up():
            rollup.rollup(day)
    finally:
        cache.delete(_ROLLING_UP)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def expire() -> None:
    """Drop samples older than GANTRY_SAMPLES_DAYS."""
    if settings.SAMPLES_DAYS:
        days = retention.drop_samples(datetime.now(UTC).date() - timedelta(days=settings.SAMPLES_DAYS))
        if days:
            log.info("samples of %d days were dropped", days)
