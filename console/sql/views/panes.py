"""What the editor and the page of a task both show: a task's state, its rows, its plan, and the left panels."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from analytics import lake
from analytics.errors import LakeError
from console.accounts.http import Request
from console.catalog import access as catalog_access
from console.catalog import schema_tree
from console.outbox.models import NotificationStatus
from console.outbox.queues import is_own
from console.outbox.routing import UndeliverableError, instance_of
from console.sql import access, plans, plots, queries, results, saved
from console.sql.forms import PlotForm
from console.sql.models import QueryTask, TaskStatus
from console.statements import hint as hints
from console.web import forms, htmx
from console.web.paging import search_text

#: htmx stops to poll when it gets this status.
STOP_POLLING = 286
#: Entries of the history and of the saved statements that a panel shows.
PANEL_ROWS = 30
#: Lines of a plan that are taken apart.
_PLAN_LINES = 5000
#: Rows of the table that says the same as the plot.
_TABLE_ROWS = 200


@require_GET
def pane(request: Request, task_id: str) -> HttpResponse:
    """The state of a task inside the editor, asked for once a second until it has ended."""
    found = access.task(request, task_id)
    shown = context(request, found) | {"announce": True}
    if request.GET.get("part") == "receipt":
        return render(request, "sql/_receipt_line.html", shown)
    response = render(request, "sql/_pane.html", shown, status=STOP_POLLING if found.ended else 200)
    if found.ended:
        response["HX-Trigger"] = "sqlEnded"
    return response


@require_GET
def rows(request: Request, task_id: str) -> HttpResponse:
    """A page of the first rows."""
    found = access.task(request, task_id)
    number = request.GET.get("page", "1")
    return render(request, "sql/_rows.html", {"task": found} | _rows(found, int(number) if number.isdecimal() else 1))


@require_GET
def panel(request: Request, name: str) -> HttpResponse:
    """Schemas, saved statements or the history."""
    catalog_access.pages(request)
    return render(request, "sql/_panel.html", {"panel": name} | panel_context(request, name))


def panel_context(request: Request, name: str) -> dict[str, Any]:
    """What a panel shows."""
    actor, text = request.actor, search_text(request)
    if name == "saved":
        found = list(saved.visible(actor, text)[: PANEL_ROWS + 1])
        kept = [(entry, saved.may_change(actor, entry)) for entry in found[:PANEL_ROWS]]
        return {"q": text, "kept": kept, "more": len(found) > PANEL_ROWS}
    if name == "history":
        status = request.GET.get("status", "")
        tasks = list(queries.mine(actor, text, status)[: PANEL_ROWS + 1])
        return {
            "q": text, "status": status, "statuses": queries.STATUSES, "history": tasks[:PANEL_ROWS],
            "more": len(tasks) > PANEL_ROWS,
        }  # fmt: skip
    return {"q": text, "tree": tree(request, text)}


def tree(request: Request, text: str) -> list[dict[str, Any]]:
    """The schemas; tables are there when something is searched, or the schema is the first one."""
    found = []
    for number, name in enumerate(schema_tree.schemas(request.actor)):
        loaded = schema_tree.tables(request.actor, name, text) if text or number == 0 else None
        if not text or (loaded and loaded.names) or text.lower() in name.lower():
            found.append({"name": name, "tables": loaded, "quoted": schema_tree.quoted(name)})
    return found


def context(request: Request, task: QueryTask) -> dict[str, Any]:
    """All that is shown of a task."""
    notification = task.notification
    unsent = notification is not None and notification.status not in (
        NotificationStatus.SUCCESS,
        NotificationStatus.FAILURE,
    )
    shown: dict[str, Any] = {
        "task": task,
        "record": task,
        "row": queries.row_of(task),
        "moving": not task.ended or unsent,
        "unsent": task.ended and unsent,
        "elapsed_ms": max(round((timezone.now() - (task.started_at or task.create_time)).total_seconds() * 1000), 0),
        "before": queries.waiting_before(task),
        "place": plans.place_of(task) if task.status == TaskStatus.FAILURE else None,
        "progress": _progress(task),
    }
    if task.result_file:
        shown |= _plan(task) if task.explain else _rows(task, 1)
    return shown | _message(task)


def _progress(task: QueryTask) -> dict[str, Any]:
    """Stages and tasks done, with a whole of at least 1 for the bars."""
    known = task.progress or {}
    told = {name: int(known.get(name) or 0) for name in ("stages", "stages_done", "tasks", "tasks_done")}
    percent = 100 * told["tasks_done"] // told["tasks"] if told["tasks"] else 0
    return told | {"percent": min(percent, 100), "known": bool(told["tasks"])}


def _rows(task: QueryTask, number: int) -> dict[str, Any]:
    try:
        return {"result": results.page_of(task, number)}
    except LakeError as error:
        return {"result_gone": results.why_gone(task, error)}


def _plan(task: QueryTask) -> dict[str, Any]:
    try:
        _, lines = lake.preview_result(task.result_file, _PLAN_LINES)
    except LakeError as error:
        return {"result_gone": results.why_gone(task, error)}
    texts = [line[0] or "" for line in lines]
    return {"plan": plans.parse(texts), "plan_text": "\n".join(texts)}


def _message(task: QueryTask) -> dict[str, Any]:
    """Where the notification can be looked at."""
    notification = task.notification
    if notification is None or not notification.message_id:
        return {}
    if notification.notify_by == hints.BY_QUEUE:
        return {"message_queue": notification.queue} if is_own(task.tenant, notification.endpoint) else {}
    try:
        instance = instance_of(task.tenant, notification.endpoint)
    except UndeliverableError:
        return {}
    return {"message_instance": instance, "message_topic": notification.topic.removeprefix(f"{instance.instance_id}%")}


@require_GET
def plot(request: Request, task_id: str) -> HttpResponse:
    """The form and the plot it asks for; the first one is a guess from the types of the columns."""
    task = access.task(request, task_id)
    page = "sql/_plot.html" if htmx.is_fragment(request) else "sql/plot.html"
    try:
        columns = plots.columns_of(task)
        form = PlotForm(request.GET if "x" in request.GET else None, columns=columns, prefix_id=task.pk)
        if form.errors:
            return forms.show(request, page, form, {"task": task})
        choice = form.choice if form.is_bound else plots.first_choice(columns)
        drawn = plots.draw(task, columns, choice)
    except LakeError as error:
        return render(request, page, {"task": task, "result_gone": error.user_message})
    form = form if form.is_bound else PlotForm(initial=PlotForm.initial_of(choice), columns=columns, prefix_id=task.pk)
    context = {
        "task": task, "form": form, "plot": drawn, "table": drawn.table[:_TABLE_ROWS],
        "left_out": max(len(drawn.table) - _TABLE_ROWS, 0), "x_name": columns[choice.x].name,
        "most_points": plots.MOST_POINTS, "chart_id": f"plot-{task.pk}",
    }  # fmt: skip
    return render(request, page, context)
