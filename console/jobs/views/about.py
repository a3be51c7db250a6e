"""What every page of one job shows."""

from __future__ import annotations

from typing import Any

from analytics.pipelines.plan import Plan
from console.accounts.http import Request
from console.jobs import access, graph
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
        "graph": _graph(job, now, ran),
        "ran_version": ran,
        "is_stale": job.state in BUSY and job.version is not None and ran not in (None, job.version.number),
        "lake_notice": room.notice(job),
        "waiting": now.waiting if now is not None and job.state in BUSY else (),
        "waits_for": queries.waits_for(job),
        "connectors": now.report.connectors if now is not None else {},
    }


def _graph(job: Pipeline, now: samples.Now | None, ran: int | None) -> graph.Graph | None:
    """Of the version that runs or ran last; of the deployed one before the first run. None where there is none."""
    version = queries.version(job, ran) if ran is not None else job.version
    if version is None:
        return None
    try:
        plan = Plan.from_json(version.plan)
    except ValueError:  # made by another version of the product, and made anew when it is deployed
        return None
    return graph.of_plan(plan, now.report if now is not None and ran is not None else None)
