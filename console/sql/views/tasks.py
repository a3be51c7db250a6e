"""The list of tasks, and one task with its 27 columns and its file."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from console.sql import access, downloads, services, task_queries
from console.sql.tables import TaskTable
from console.sql.views import panes
from console.sql.views.files import attachment
from console.web import htmx
from console.web.errors import Refused
from console.web.http import Request
from console.web.paging import CappedPaginator, configured, search_text


@require_GET
def tasks(request: Request) -> HttpResponse:
    access.pages(request)
    text, status = search_text(request), request.GET.get("status", "")
    found = task_queries.search(request.actor, text, status)
    table = configured(request, TaskTable(found), paginator_class=CappedPaginator)
    context = {"table": table, "q": text, "status": status, "statuses": task_queries.STATUSES}
    return htmx.page(request, "sql/tasks.html", "sql/_tasks.html", context)


@require_GET
def task(request: Request, task_id: str) -> HttpResponse:
    found = access.task(request, task_id)
    return render(request, "sql/task.html", panes.context(request, found))


@require_GET
def state(request: Request, task_id: str) -> HttpResponse:
    """What changes while a task runs; tells htmx to stop once nothing does any more."""
    found = access.task(request, task_id)
    context = panes.context(request, found)
    return render(request, "sql/_state.html", context, status=200 if context["moving"] else panes.STOP_POLLING)


@require_POST
def cancel(request: Request, task_id: str) -> HttpResponse:
    """Stop it; the editor's pane is told at once, a page is loaded anew."""
    found = access.task(request, task_id)
    services.cancel(request.actor, found)
    if htmx.is_fragment(request) and request.htmx.target == f"run-{task_id}-pane":
        return render(request, "sql/_pane.html", panes.context(request, found))
    return htmx.done(request, "sql.task", task_id)


@require_POST
def again(request: Request, task_id: str) -> HttpResponse:
    """Submit the same statement once more."""
    found = access.task(request, task_id)
    try:
        new = services.submit(request.actor, found.command, found.table_schema, parameters=tuple(found.parameters))
    except Refused as refused:
        messages.error(request, refused.message)
        return htmx.done(request, "sql.task", task_id)
    return htmx.done(request, "sql.task", new.pk)


@require_POST
def send_again(request: Request, task_id: str) -> HttpResponse:
    """Send the failed notification once more."""
    found = access.task(request, task_id)
    if not services.send_notification_again(request.actor, found):
        messages.error(request, "There is no failed notification of this task.")
    return htmx.done(request, "sql.task", task_id)


@require_GET
def download(request: Request, task_id: str) -> StreamingHttpResponse:
    found = access.task(request, task_id)
    return csv_response(found.result_file, found.pk)


@login_not_required
@require_GET
def fetch(request: Request, token: str) -> StreamingHttpResponse:
    """The file behind an address that sql/download of the API gave out."""
    found = downloads.task_of(token)
    if found is None:
        raise Http404("the address has expired")
    return csv_response(found.result_file, found.pk)


def csv_response(location: str, task_id: str) -> StreamingHttpResponse:
    """The result file as a download; 404 when the task has none, or none any more, 503 when the lake is away."""
    if not location:
        raise Http404("the task has no result")
    return attachment(location, f"{task_id}.csv", "text/csv; charset=utf-8")
