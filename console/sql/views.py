"""Pages of async SQL: the editor, the tasks, one task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from analytics import run as engine
from analytics.errors import LakeError
from console.outbox.models import NotificationStatus
from console.outbox.routing import UndeliverableError, endpoint_of, instance_of
from console.sql import access, hints, queries, services
from console.sql.forms import EditorForm
from console.sql.models import QueryTask
from console.sql.tables import TaskTable
from console.topics.models import Group, Topic
from console.web import htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text

#: Rows that the page of a task shows.
PREVIEW_ROWS = 100
RECENT = 5
#: htmx stops to poll when it gets this status.
_STOP_POLLING = 286
_CHUNK_BYTES = 256 * 1024


def editor(request: Request) -> HttpResponse:
    access.pages(request)
    schemas = queries.readable_schemas(request.actor)
    form = EditorForm(request.POST or None, tenant=request.actor.tenant, schemas=list(schemas))
    if request.method == "POST" and form.is_valid():
        try:
            task = services.submit(request.actor, form.cleaned_data["text"], form.cleaned_data["schema"])
        except Refused as refused:
            add_refusal(form, refused)
        except PermissionDenied as denied:
            form.add_error("schema", f"Not allowed: {denied}.")
        else:
            return htmx.done(request, "sql.task", task.pk)
    context = {"form": form, "schemas": schemas, "recent": queries.visible_tasks(request.actor)[:RECENT]}
    if form.is_bound:
        return render(
            request, "sql/_form.html" if htmx.is_fragment(request) else "sql/editor.html", context, status=422
        )
    return render(request, "sql/editor.html", context)


@require_POST
def hint(request: Request) -> HttpResponse:
    """The statement with the hint in front that the chosen topic and group make."""
    access.pages(request)
    schemas = list(queries.readable_schemas(request.actor))
    topic = _chosen(Topic.objects.select_related("instance__cluster"), request, "topic")
    group = _chosen(Group.objects.select_related("instance"), request, "group")
    data = request.POST.copy()
    form = EditorForm(data, tenant=request.actor.tenant, schemas=schemas)
    if topic is None or group is None or topic.instance_id != group.instance_id:
        form.is_valid()
        form.errors.clear()
        form.add_error("group", "Choose a topic and a group of the same instance.")
        return htmx.invalid(request, "sql/_statement.html", {"form": form})
    written = hints.written(topic.name, group.group_id, endpoint_of(topic.instance))
    try:
        statement = hints.split(data.get("text", "")).statement
    except hints.HintError:
        statement = data.get("text", "")
    data["text"] = f"{written}\n{statement}"
    form = EditorForm(initial=data.dict(), tenant=request.actor.tenant, schemas=schemas)
    return render(request, "sql/_statement.html", {"form": form})


def _chosen(rows: Any, request: Request, name: str) -> Any:
    value = request.POST.get(name, "")
    return rows.filter(instance__tenant=request.actor.tenant, pk=value).first() if value.isdecimal() else None


@require_GET
def tasks(request: Request) -> HttpResponse:
    access.pages(request)
    text = search_text(request)
    found = queries.visible_tasks(request.actor).filter(command__icontains=text)
    context = {"table": configured(request, TaskTable(found)), "q": text}
    return htmx.page(request, "sql/tasks.html", "sql/_tasks.html", context)


@require_GET
def task(request: Request, task_id: str) -> HttpResponse:
    found = access.task(request, task_id)
    return render(request, "sql/task.html", _context(found))


@require_GET
def state(request: Request, task_id: str) -> HttpResponse:
    """What changes while a task runs; tells htmx to stop once nothing does any more."""
    found = access.task(request, task_id)
    context = _context(found)
    return render(request, "sql/_state.html", context, status=200 if context["moving"] else _STOP_POLLING)


@require_POST
def cancel(request: Request, task_id: str) -> HttpResponse:
    services.cancel(request.actor, access.task(request, task_id))
    return htmx.done(request, "sql.task", task_id)


@require_GET
def download(request: Request, task_id: str) -> StreamingHttpResponse:
    found = access.task(request, task_id)
    try:
        if not found.result_file:
            raise LakeError("the task has no result")
        file = engine.open_result(found.result_file)
    except LakeError as error:
        raise Http404(error.user_message) from error
    response = StreamingHttpResponse(_chunks(file), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{found.pk}.csv"'
    return response


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """The file piece by piece, read in threads: a result can be larger than memory."""
    read = sync_to_async(file.read, thread_sensitive=False)
    with file:
        while piece := await read(_CHUNK_BYTES):
            yield piece


def _context(task: QueryTask) -> dict[str, Any]:
    notification = task.notification
    unsent = notification is not None and notification.status not in (
        NotificationStatus.SUCCESS,
        NotificationStatus.FAILURE,
    )
    context: dict[str, Any] = {
        "task": task,
        "record": task,
        "row": queries.row_of(task),
        "moving": not task.ended or unsent,
        "preview_rows": PREVIEW_ROWS,
    }
    return context | _preview(task) | _message(task)


def _preview(task: QueryTask) -> dict[str, Any]:
    if not task.result_file:
        return {}
    try:
        columns, rows = engine.preview_result(task.result_file, PREVIEW_ROWS)
    except LakeError as error:
        return {"preview_error": error.user_message}
    return {"columns": columns, "rows": rows}


def _message(task: QueryTask) -> dict[str, Any]:
    """Where the notification can be looked at."""
    notification = task.notification
    if notification is None or not notification.message_id:
        return {}
    try:
        instance = instance_of(task.tenant, notification.endpoint)
    except UndeliverableError:
        return {}
    return {"message_instance": instance, "message_topic": notification.topic.removeprefix(f"{instance.instance_id}%")}
