"""What the console's processes count of themselves for Prometheus (docs/operate/monitoring.md).

Each process counts in files of its own in the folder that PROMETHEUS_MULTIPROC_DIR names, and whoever is asked adds
them up; without the folder a process counts in its memory, for nobody. The values of labels are names of ours: views,
tasks, results. Nothing that a client can choose is one.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable

import prometheus_client.values
from django.http import HttpRequest, HttpResponse

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_UNKNOWN = "none"


def _this_process() -> str:
    """Processes on several machines may share the folder and have the same number. The library splits at `_`."""
    return f"{hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]}-{os.getpid()}"


if os.environ.get(FOLDER):
    # Metrics take what this name means at the time they are made.
    prometheus_client.values.ValueClass = prometheus_client.values.MultiProcessValue(_this_process)  # type: ignore[no-untyped-call]

RESPONSES = prometheus_client.Counter(
    "gantry_web_responses", "Answers of the console, by view and HTTP status", ["view", "status"]
)
REQUEST_SECONDS = prometheus_client.Histogram(
    "gantry_web_request_seconds",
    "Time from a request that is there whole, and whose turn it is, to the head of its answer",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
VIEW_SECONDS = prometheus_client.Summary("gantry_web_view_seconds", "The same time, by view", ["view"])
TURNED_AWAY = prometheus_client.Counter(
    "gantry_web_turned_away", "Requests that were refused before the console looked at them, by HTTP status", ["status"]
)
TASKS = prometheus_client.Counter(
    "gantry_tasks", "Tasks that workers have ended, by result: success or failure", ["task", "result"]
)
TASK_SECONDS = prometheus_client.Summary("gantry_task_seconds", "Time that they took", ["task"])
SQL_STATEMENTS = prometheus_client.Counter(
    "gantry_sql_statements", "Statements that the MySQL endpoint has answered, by result: ok or refused", ["result"]
)
SQL_STATEMENT_SECONDS = prometheus_client.Histogram(
    "gantry_sql_statement_seconds",
    "Time that they took, their rows not sent yet",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60),
)


class FiguresMiddleware:
    """Counts every request that Django answers, by the view that answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.perf_counter()
        response = self.get_response(request)
        seconds = time.perf_counter() - begun
        match = request.resolver_match
        view = (match.view_name if match is not None else "") or _UNKNOWN
        RESPONSES.labels(view, response.status_code).inc()
        VIEW_SECONDS.labels(view).observe(seconds)
        REQUEST_SECONDS.observe(seconds)
        return response
