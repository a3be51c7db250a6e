"""What every page of one job shows."""

from __future__ import annotations

from typing import Any

from console.accounts.http import Request
from console.jobs import access
from console.jobs import queries as job_queries
from console.jobs.tables import live_point
from console.pipelines import queries, room, samples
from console.pipelines.models import BUSY, Pipeline

_ACTIONS = {
    "update": access.UPDATE,
    "delete": access.DELETE,
    "start": access.START,
    "stop": access.STOP,
    "delete_savepoint": access.DELETE_SAVEPOINT,
}


def about(request: Request, job: Pipeline, tab: str) -> dict[str, Any]:
    """The job, the tab that is open, and what the visitor may do with it."""
    may = {word: access.may(request.actor, action, job.name) for word, action in _ACTIONS.items()}
    return {"job": job, "tab": tab, "may": may, "is_busy": job.state in BUSY}


def live(request: Request, job: Pipeline) -> dict[str, Any]:
    """State, numbers and the graph of operators as of now."""
    now = samples.latest([job.pk]).get(job.pk)
    ran = queries.running_version(job)
    return about(request, job, "overview") | {
        "now": now,
        "point": live_point(job, now),
        "graph": job_queries.graph(job, now, ran),
        "ran_version": ran,
        "is_stale": job.state in BUSY and job.version is not None and ran not in (None, job.version.number),
        "lake_notice": room.notice(job),
        "waiting": now.waiting if now is not None and job.state in BUSY else (),
        "waits_for": queries.waits_for(job),
        "connectors": now.report.connectors if now is not None else {},
    }
