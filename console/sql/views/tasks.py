"""The list of tasks, and one task with its 27 columns and its file."""

from __future__ import annotations

import django_tables2 as tables
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from console import statements
from console.accounts import downloads, saved_views
from console.accounts.actor import Actor, dla_resource
from console.accounts.http import Request
from console.catalog import access as catalog_access
from console.catalog.file_downloads import attachment
from console.sql import access, queries, results, services
from console.sql.models import QueryTask, TaskStatus
from console.sql.views import panes
from console.web import bulk, exports, forms, htmx
from console.web.errors import Refused
from console.web.languages import gettext_lazy
from console.web.paging import CappedPaginator, CellColumn, ListTable, column, configured, records, search_text
from console.web.templatetags.gantry import duration, number

_NUMBER = column("num-cell")


class TaskTable(ListTable):
    """Statement, state and cost; the latest first."""

    statement = CellColumn(template_name="sql/_statement_cell.html", verbose_name=gettext_lazy("Statement"))
    status = CellColumn(template_name="sql/_status.html", extra_context={"small": True})
    submitter = tables.Column(verbose_name=gettext_lazy("Submitted by"))
    create_time = CellColumn("{% load gantry %}{% ago record.create_time %}", verbose_name=gettext_lazy("Submitted"))
    elapse_time = tables.Column(verbose_name=gettext_lazy("Run time"), attrs=_NUMBER)
    row_count = tables.Column(verbose_name=gettext_lazy("Rows"), attrs=_NUMBER)
    notification = CellColumn(
        template_name="sql/_receipt.html", verbose_name=gettext_lazy("Notification"), orderable=False
    )

    class Meta:
        order_by = "-create_time"

    file_columns = (
        "task_id", "schema", "statement", "status", "submitted_by", "submitted_at", "run_time_ms", "rows",
        "notification", "message",
    )  # fmt: skip

    def file_row(self, record: QueryTask) -> tuple[object, ...]:
        told = record.notification.status if record.notification else "pending"
        return (
            record.pk,
            record.table_schema,
            record.statement,
            record.status,
            record.submitter,
            exports.moment(record.create_time),
            record.elapse_time if record.ended else "",
            record.row_count if record.result_file and not record.explain else "",
            "" if record.notify is None else told,
            record.message,
        )

    def render_elapse_time(self, record: QueryTask) -> SafeString:
        return duration(record.elapse_time if record.ended else None)

    def render_row_count(self, record: QueryTask) -> SafeString:
        return number(record.row_count if record.result_file and not record.explain else None)


@require_GET
@saved_views.opens_with_default("sql_TaskTable")
def tasks(request: Request) -> HttpResponseBase:
    catalog_access.pages(request)
    text, status = search_text(request), request.GET.get("status", "")
    found = queries.search(request.actor, text, status)
    table = configured(request, TaskTable(found), paginator_class=CappedPaginator)
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "sql.task.export", "tasks")
    table.bulk = _bar(table, found, request)
    context = {"table": table, "q": text, "status": status, "statuses": queries.STATUSES}
    return htmx.page(request, "sql/tasks.html", "sql/_tasks.html", context)


@require_POST
def cancel_many(request: Request) -> HttpResponse:
    """Cancel the statements that were chosen and run or wait still, each by itself."""
    catalog_access.pages(request)
    actor = request.actor

    def find(keys: list[str]) -> list[bulk.Thing]:
        found = queries.visible_tasks(actor).filter(pk__in=keys)
        return [bulk.Thing(one.pk, f"{one.pk}: {one.statement[:80]}", _cancel_refusal(actor, one)) for one in found]

    def every(filters: str) -> list[str]:
        asked = bulk.query_of(filters)
        text, status = str(asked.get("q", "")).strip()[:128], str(asked.get("status", ""))
        return list(_moving(queries.search(actor, text, status)).values_list("pk", flat=True)[: bulk.MOST + 1])

    def act(key: str) -> str:
        if not services.cancel(actor, access.task(request, key)):
            raise Refused("BIZ_FIELD_CHECK_INVALID", _("It has ended already."))
        return ""

    deed = bulk.Deed(
        title=_("Cancel statements"),
        question=lambda n: ngettext("Cancel %(n)s statement", "Cancel %(n)s statements", n) % {"n": n},
        back=reverse("sql.tasks"),
        find=find,
        every=every,
        act=act,
        warning=_("One that waits ends at once, one that runs as soon as its worker has stopped it."),
    )
    return bulk.answer(request, deed)


def _cancel_refusal(actor: Actor, task: QueryTask) -> str:
    if task.ended:
        return _("It has ended: %(status)s.") % {"status": task.status}
    resource = dla_resource(actor.tenant, task.table_schema)
    decision = actor.decide(services.CANCEL, resource, owner=task.tenant)
    return "" if decision.allowed else forms.not_allowed(decision.reason)


def _moving(found: QuerySet[QueryTask]) -> QuerySet[QueryTask]:
    """Those that run or wait."""
    return found.filter(status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING))


def _bar(table: TaskTable, found: QuerySet[QueryTask], request: Request) -> bulk.Bar | None:
    """What is offered for statements of the page that run or wait, and that the visitor may cancel."""
    moving = [one for one in records(table) if not _cancel_refusal(request.actor, one)]
    if not moving:
        return None
    offer = bulk.Offer(_("Cancel"), reverse("sql.cancel_many"), "player-stop")
    keys = {one.pk: one.pk for one in moving}
    return bulk.Bar([offer], keys, _moving(found).count(), request.GET.urlencode())


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
    with forms.refusals_told(request):
        parsed = statements.read(found.command)
        new = services.submit(request.actor, parsed, found.table_schema, parameters=tuple(found.parameters))
        return htmx.done(request, "sql.task", new.pk)
    return htmx.done(request, "sql.task", task_id)


@require_POST
def send_again(request: Request, task_id: str) -> HttpResponse:
    """Send the failed notification once more."""
    found = access.task(request, task_id)
    if not services.send_notification_again(request.actor, found):
        messages.error(request, _("There is no failed notification of this task."))
    return htmx.done(request, "sql.task", task_id)


@require_GET
def download(request: Request, task_id: str) -> StreamingHttpResponse:
    found = access.task(request, task_id)
    return csv_response(found.result_file, found.pk)


@login_not_required
@require_GET
def fetch(request: Request, token: str) -> StreamingHttpResponse:
    """The file behind an address that sql/download of the API gave out."""
    found = results.task_of(token)
    if found is None:
        raise Http404("the address has expired")
    return csv_response(found.result_file, found.pk)


def csv_response(location: str, task_id: str) -> StreamingHttpResponse:
    """The result file as a download; 404 when the task has none, or none any more, 503 when the lake is away."""
    if not location:
        raise Http404("the task has no result")
    return attachment(location, f"{task_id}.csv", "text/csv; charset=utf-8")
