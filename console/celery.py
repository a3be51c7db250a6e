"""The Celery application: queue `default` for broker work, `spark` for what needs the JVM, `pipelines` for SQL jobs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task
from celery.signals import beat_init, task_postrun, task_prerun, worker_init, worker_ready
from celery.states import SUCCESS
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from console.settings import redis_url
from console.web.after_commit import after_commit
from console.web.checks import require_ready
from console.web.figures import TASK_SECONDS, TASKS


class Channel(redis.Channel):
    """A channel that can say that its connection is closed."""

    def _connparams(self, asynchronous: bool = False) -> Any:
        # A worker that lost its connection closes it, and then gives back what it has not acknowledged. kombu looks
        # for the address then, which is gone with the connection (AttributeError); Redis has kept these messages.
        if self.connection.client is None:
            raise RedisConnectionError("The connection to Redis was closed.")
        return super()._connparams(asynchronous)  # type: ignore[no-untyped-call]


class Transport(redis.Transport):
    """A transport to which a Redis that takes no writes (a full disk: MISCONF; OOM; READONLY) is one that is away.

    What kombu does not count among its `connection_errors` passes as an error of the program, and Celery then ends the
    worker once its tasks have ended: a Spark worker takes no other statements until then, and its JVM starts anew.
    """

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, ResponseError)


def install() -> None:
    """Serve addresses that begin with redis and rediss."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")


install()
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
        "console.pipelines.tasks.look": {"queue": "pipelines"},
        "console.inflow.tasks.try_query": {"queue": "pipelines"},
    },
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_schedule={
        "sample": {"task": "console.metrics.tasks.sample", "schedule": 10.0, "options": {"expires": 9}},
        "queues-sample": {"task": "console.queues.tasks.sample", "schedule": 30.0, "options": {"expires": 29}},
        "roll-up": {"task": "console.metrics.tasks.roll_up", "schedule": 300.0, "options": {"expires": 290}},
        "samples-expire": {"task": "console.metrics.tasks.expire", "schedule": 3600.0, "options": {"expires": 3500}},
        "results-expire": {"task": "console.sql.tasks.expire", "schedule": 3600.0, "options": {"expires": 3500}},
        "outbox-sweep": {"task": "console.outbox.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "events-expire": {"task": "console.outbox.tasks.expire", "schedule": 3600.0, "options": {"expires": 3500}},
        "changes-sweep": {"task": "console.sql.tasks.tell_changes", "schedule": 30.0, "options": {"expires": 29}},
        "query-sweep": {"task": "console.sql.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "pipelines-sweep": {"task": "console.pipelines.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "pipelines-expire": {
            "task": "console.pipelines.tasks.expire",
            "schedule": 3600.0,
            "options": {"expires": 3500},
        },
        "tracking-expire": {
            "task": "console.tracking.tasks.expire",
            "schedule": 3600.0,
            "options": {"expires": 3500},
        },
        "alarms": {"task": "console.alarms.tasks.evaluate", "schedule": 15.0, "options": {"expires": 14}},
        "alarms-expire": {"task": "console.alarms.tasks.expire", "schedule": 3600.0, "options": {"expires": 3500}},
        "storage-count": {"task": "console.sql.tasks.count_storage", "schedule": 60.0, "options": {"expires": 50}},
        "archive-sweep": {"task": "console.archive.tasks.sweep", "schedule": 10.0, "options": {"expires": 9}},
        "drift-sweep": {"task": "console.drift.tasks.sweep_all", "schedule": 300.0, "options": {"expires": 290}},
        "adoption-sweep": {"task": "console.adoption.tasks.sweep", "schedule": 10.0, "options": {"expires": 9}},
        "adoption-names": {"task": "console.adoption.tasks.names", "schedule": 60.0, "options": {"expires": 50}},
        "adoption-rules": {"task": "console.adoption.tasks.rules", "schedule": 10.0, "options": {"expires": 30}},
        "cluster-sweep": {"task": "console.cluster.tasks.sweep", "schedule": 5.0, "options": {"expires": 4}},
        "cluster-repair": {"task": "console.cluster.tasks.repair", "schedule": 60.0, "options": {"expires": 50}},
        "sessions-clear": {
            "task": "console.accounts.tasks.clear_sessions",
            "schedule": 3600.0,
            "options": {"expires": 3500},
        },
        "audit-from-servers": {
            "task": "console.audit.tasks.move_from_servers",
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
        require_ready()
    except ImproperlyConfigured as error:
        raise SystemExit(str(error)) from error


@beat_init.connect  # type: ignore[untyped-decorator]
def sample_at_once(**_: Any) -> None:
    """Ask for the first sample at the start: the schedule's first turn comes ten seconds later."""
    after_commit(app.send_task, "console.metrics.tasks.sample", expires=60, retry=False)


@worker_ready.connect  # type: ignore[untyped-decorator]
@beat_init.connect  # type: ignore[untyped-decorator]
def tell_the_launcher(**_: Any) -> None:
    """Touch GANTRY_READY_FILE: the process runner waits for it. The Spark worker touches its own when warm."""
    file = os.environ.get("GANTRY_READY_FILE")
    if file and os.environ.get("GANTRY_WARM_SPARK") != "true":
        Path(file).touch()


@task_prerun.connect  # type: ignore[untyped-decorator]
def begin_to_measure(task: Task, **_: Any) -> None:
    """Note when the task began."""
    task.request.begun = time.perf_counter()


@task_postrun.connect  # type: ignore[untyped-decorator]
def count_task(task: Task, state: str | None = None, **_: Any) -> None:
    """Count a task that has ended, and the time that it took."""
    TASKS.labels(task.name, "success" if state == SUCCESS else "failure").inc()
    begun = getattr(task.request, "begun", None)
    if begun is not None:
        TASK_SECONDS.labels(task.name).observe(time.perf_counter() - begun)
