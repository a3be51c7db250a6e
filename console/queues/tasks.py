"""The sampler's beat."""

from __future__ import annotations

import logging

from celery import shared_task

from brokercore.smq.client import QueueServiceUnavailable
from console.accounts.models import Tenant
from console.queues import samples

log = logging.getLogger(__name__)


@shared_task  # type: ignore[untyped-decorator]  # Celery has no types
def sample() -> None:
    """Count the queues of all accounts."""
    try:
        samples.sample(Tenant.objects.filter(enabled=True).order_by("pk"))
    except QueueServiceUnavailable as error:
        log.warning("no sample of the queues: %s", error)
