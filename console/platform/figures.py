"""`/metrics` of the console: what its processes have counted, and what waits in its database and in Redis.

See docs/operate/monitoring.md. Broker and queue service have figures of their own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import redis
from django.conf import settings
from django.db import DatabaseError, connections
from django.db.models import Count
from django.utils import timezone
from kombu.exceptions import OperationalError
from prometheus_client import CollectorRegistry, make_wsgi_app, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from console.alarms import prometheus
from console.alarms import queries as alarms
from console.instances.models import Cluster
from console.metrics.store import Store
from console.outbox.models import Notification, NotificationStatus
from console.pipelines.models import Pipeline
from console.rights.limits import open_sql_connections
from console.settings import redis_url
from console.sql.models import QueryTask, TaskStatus
from console.web.figures import FOLDER

log = logging.getLogger(__name__)

#: Whoever asks more often gets the same answer again, seconds.
FRESH_S = 5.0
#: A client has so long to ask, seconds; so many are answered at a time.
_REQUEST_S, _TOGETHER = 5.0, 8
#: Queues of Celery that the workers read.
_CELERY_QUEUES = ("default", "spark", "pipelines")
_UNANSWERED = (DatabaseError, RedisError, OperationalError)


class Installation(Collector):
    """What waits now, of all accounts together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Metric] = []
        self._until = 0.0

    def describe(self) -> list[Metric]:
        """Nothing beforehand: asking costs queries."""
        return []

    def collect(self) -> Iterator[Metric]:
        """As found at most FRESH_S ago. What cannot be asked now is left out, and `gantry_console_ready` is 0."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._found = list(_asked())
                self._until = time.monotonic() + FRESH_S
            yield from self._found


def _asked() -> Iterator[Metric]:
    ready = True
    for ask in (_outbox, _statements, _pipelines, _samples, _alarms, _queues):
        try:
            yield from ask()
        except _UNANSWERED as error:
            ready = False
            log.warning("figures of the console cannot be read: %s", error)
    yield GaugeMetricFamily(
        "gantry_console_ready", "1 while the console's database and Redis answer", value=float(ready)
    )


def _outbox() -> Iterator[Metric]:
    waiting = Notification.objects.filter(status__in=[NotificationStatus.PENDING, NotificationStatus.SENDING])
    now = timezone.now()
    oldest = waiting.filter(due_at__lte=now).order_by("created_at").values_list("created_at", flat=True).first()
    yield GaugeMetricFamily("gantry_outbox_waiting", "Notifications that are not delivered yet", value=waiting.count())
    yield GaugeMetricFamily(
        "gantry_outbox_oldest_seconds",
        "Age of the oldest of them that is due; 0: none is",
        value=(now - oldest).total_seconds() if oldest else 0.0,
    )
    failed = Notification.objects.filter(status=NotificationStatus.FAILURE).count()
    yield GaugeMetricFamily("gantry_outbox_failed", "Notifications that were given up, as long as kept", value=failed)


def _statements() -> Iterator[Metric]:
    metric = GaugeMetricFamily("gantry_sql_tasks", "Statements that wait or run, by state", labels=["state"])
    counted = dict.fromkeys((TaskStatus.QUEUED, TaskStatus.RUNNING), 0) | dict(
        QueryTask.objects.filter(status__in=[TaskStatus.QUEUED, TaskStatus.RUNNING])
        .values_list("status")
        .annotate(Count("pk"))
    )
    for state, count in counted.items():
        metric.add_metric([state.lower()], count)
    yield metric
    yield GaugeMetricFamily(
        "gantry_sql_connections", "Connections that are signed in at the MySQL endpoint", value=open_sql_connections()
    )


def _pipelines() -> Iterator[Metric]:
    metric = GaugeMetricFamily("gantry_pipelines", "SQL jobs and inflow tasks, by state", labels=["state"])
    for state, count in Pipeline.objects.order_by().values_list("state").annotate(Count("pk")):
        metric.add_metric([state.lower()], count)
    yield metric


def _samples() -> Iterator[Metric]:
    metric = GaugeMetricFamily(
        "gantry_samples_age_seconds", "Time since the positions of a cluster were last read", labels=["cluster"]
    )
    for name in Cluster.objects.values_list("name", flat=True):
        latest = Store(name).latest()
        if latest is not None:
            metric.add_metric([name], max(0.0, time.time() - latest.at_ms / 1000))
    yield metric


def _alarms() -> Iterator[Metric]:
    metric = GaugeMetricFamily(
        prometheus.FIRING, "Alarms that fire, by account and number of the rule", labels=["tenant", "rule"]
    )
    for (uid, number), count in alarms.firing_by_rule().items():
        metric.add_metric([uid, str(number)], count)
    yield metric
    last = alarms.last_round_ms()
    if last is not None:
        age = max(0.0, time.time() - last / 1000)
        yield GaugeMetricFamily(prometheus.AGE, "Time since the alarm rules were evaluated last", value=age)


def _queues() -> Iterator[Metric]:
    metric = GaugeMetricFamily("gantry_celery_waiting", "Tasks that wait for a worker, by queue", labels=["queue"])
    with redis.Redis.from_url(redis_url(1), socket_timeout=2, socket_connect_timeout=2) as celery:
        for queue in _CELERY_QUEUES:
            metric.add_metric([queue], int(celery.llen(queue)))
    yield metric


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S

    def log_message(self, *_: Any) -> None:
        """Who asks every few seconds fills no log."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a request, a few at a time: a further connection is closed at once."""

    daemon_threads = True
    _places = threading.BoundedSemaphore(_TOGETHER)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place and the database's connection back, however it ended."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            connections.close_all()
            self._places.release()

    def handle_error(self, *_: Any) -> None:
        """A client that left."""


def serve() -> None:
    """Answer on GANTRY_CONSOLE_METRICS_PORT in threads of this process, if that is set and the processes count.

    Raises OSError when the port is in use.
    """
    if not settings.CONSOLE_METRICS_PORT or not os.environ.get(FOLDER):
        return
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(Installation())
    host, port = settings.CONSOLE_METRICS_HOST, settings.CONSOLE_METRICS_PORT
    server = make_server(host, port, make_wsgi_app(registry), server_class=_Server, handler_class=_Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
