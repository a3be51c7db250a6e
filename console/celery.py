"""The Celery application: queue `default` for broker work, queue `spark` for everything that needs the JVM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import beat_init, worker_init, worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from console import celery_transport
from console.settings import redis_url
from console.web.checks import require_secrets

celery_transport.install()
app = Celery("gantry")
app.conf.update(
    broker_url=redis_url(1, celery=True),
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3600},
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue="default",
    task_routes={
        "console.sql.tasks.run_query": {"queue": "spark"},
        "console.metrics.tasks.roll_up": {"queue": "spark"},
        "console.archive.tasks.run": {"queue": "spark"},
    },
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_schedule={
        "sample": {"task": "console.metrics.tasks.sample", "schedule": 10.0, "options": {"expires": 9}},
        "roll-up": {"task": "console.metrics.tasks.roll_up", "schedule": 300.0, "options": {"expires": 290}},
        "samples-expire": {"task": "console.metrics.tasks.expire", "schedule": 3600.0, "options": {"expires": 3500}},
        "results-expire": {"task": "console.sql.tasks.expire", "schedule": 3600.0, "options": {"expires": 3500}},
        "outbox-sweep": {"task": "console.outbox.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "query-sweep": {"task": "console.sql.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "storage-count": {"task": "console.sql.tasks.count_storage", "schedule": 60.0, "options": {"expires": 50}},
        "archive-sweep": {"task": "console.archive.tasks.sweep", "schedule": 10.0, "options": {"expires": 9}},
        "drift-sweep": {"task": "console.drift.tasks.sweep_all", "schedule": 300.0, "options": {"expires": 290}},
        "cluster-sweep": {"task": "console.cluster.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "cluster-repair": {"task": "console.cluster.tasks.repair", "schedule": 60.0, "options": {"expires": 50}},
        "sessions-clear": {
            "task": "console.accounts.tasks.clear_sessions",
            "schedule": 3600.0,
            "options": {"expires": 3500},
        },
        "broker-refusals": {
            "task": "console.audit.tasks.move_broker_refusals",
            "schedule": 5.0,
            "options": {"expires": 4},
        },
        "acl-repair": {"task": "console.accounts.tasks.publish_acl", "schedule": 60.0, "options": {"expires": 50}},
    },
)
app.autodiscover_tasks(lambda: settings.INSTALLED_APPS)


@worker_init.connect  # type: ignore[untyped-decorator]
@beat_init.connect  # type: ignore[untyped-decorator]
def refuse_without_secrets(**_: Any) -> None:
    """End at once: Celery would only log an exception of a signal's receiver."""
    try:
        require_secrets()
    except ImproperlyConfigured as error:
        raise SystemExit(str(error)) from error


@worker_ready.connect  # type: ignore[untyped-decorator]
@beat_init.connect  # type: ignore[untyped-decorator]
def tell_the_launcher(**_: Any) -> None:
    """Touch GANTRY_READY_FILE: the process runner waits for it. The Spark worker touches its own when warm."""
    file = os.environ.get("GANTRY_READY_FILE")
    if file and os.environ.get("GANTRY_WARM_SPARK") != "true":
        Path(file).touch()
