"""Pages of change tracking: the list, and a task with what is wrong, how far it is, and its newest events."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from analytics.errors import AnalyticsError
from console.accounts import saved_views
from console.accounts.http import Request
from console.tracking import access, queries, retention, services
from console.tracking.forms import ConnectionForm, EditForm, GroupForm, ResumeForm, TaskForm
from console.tracking.models import Kind, TrackingTask
from console.tracking.tables import TrackingTable
from console.web import deletion, forms, htmx, streams
from console.web.paging import configured, search_text

_ACTIONS = {
    "update": access.UPDATE,
    "delete": access.DELETE,
    "pause": access.PAUSE,
    "resume": access.RESUME,
    "events": access.EVENTS,
    "create_group": access.CREATE_GROUP,
    "delete_group": access.DELETE_GROUP,
}
#: After these a capture cannot go on where it was.
_LOST = frozenset({"SLOT_LOST", "LOG_PURGED", "LOG_UNREADABLE", "SLOT_OTHER"})


@streams.part
@require_GET
@saved_views.opens_with_default("tracking_TrackingTable")
def task_list(request: Request) -> HttpResponse:
    tenant = access.tasks(request, access.QUERY)
    text = search_text(request)
    context = {
        "table": configured(request, TrackingTable(queries.tasks(tenant, text))),
        "q": text,
        "may_create": access.may(request.actor, access.CREATE),
    }
    return htmx.page(request, "tracking/list.html", "tracking/_list.html", context)


def task_create(request: Request) -> HttpResponse:
    access.tasks(request, access.CREATE)
    form = TaskForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            name = form.cleaned_data["name"]
            task = services.create(actor=request.actor, name=name, kind=form.chosen_kind, **form.values)
            return redirect("tracking.detail", task.task_id)
    return forms.show(request, "tracking/create.html", form, {"try_url": reverse("tracking.try")})


@require_POST
def task_try(request: Request) -> HttpResponse:
    access.tasks(request, access.CREATE)
    return _tried(request, ConnectionForm(request.POST), None)


@require_POST
def task_test(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.UPDATE)
    return _tried(request, EditForm(request.POST, task=task), task)


@require_GET
def task_detail(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.QUERY)
    context = _about(request, task) | {"groups": queries.groups(task)}
    return render(request, "tracking/detail.html", context)


@streams.part
@require_GET
def task_live(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.QUERY)
    return render(request, "tracking/_live.html", _about(request, task) | {"is_refresh": True})


@require_GET
def task_events(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.EVENTS)
    context = _about(request, task)
    try:
        context["events"] = queries.recent(task)
    except AnalyticsError as error:
        context["trouble"] = error.user_message
    return htmx.page(request, "tracking/events.html", "tracking/_events.html", context)


def task_update(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.UPDATE)
    form = EditForm(request.POST if request.method == "POST" else None, task=task)
    if form.is_valid():
        with forms.refusals_on(form):
            services.change(actor=request.actor, task=task, name=form.cleaned_data["name"], **form.values)
            messages.success(request, _("The task %(name)s is changed.") % {"name": form.cleaned_data["name"]})
            return redirect("tracking.detail", task_id)
    context = _about(request, task) | {"try_url": reverse("tracking.test", args=[task_id])}
    return forms.show(request, "tracking/update.html", form, context)


@require_POST
def task_pause(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.PAUSE)
    with forms.refusals_told(request):
        services.pause(actor=request.actor, task=task)
    return htmx.done(request, "tracking.detail", task_id)


@require_POST
def task_resume(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.RESUME)
    form = ResumeForm(request.POST)
    with forms.refusals_told(request):
        services.resume(actor=request.actor, task=task, anew=form.is_valid() and form.cleaned_data["anew"])
    return htmx.done(request, "tracking.detail", task_id)


def task_delete(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.DELETE)
    warning = _("Its log and its consumer groups are deleted with it.")
    if task.kind == Kind.POSTGRESQL:
        warning += _(
            " So are the slot and the publication %(slot)s in the database. If it cannot be reached "
            "within two minutes, they stay, and the slot keeps its log: SELECT "
            "pg_drop_replication_slot('%(slot)s'); DROP PUBLICATION IF EXISTS \"%(slot)s\""
        ) % {"slot": task.slot}
    cancel_url = reverse("tracking.detail", args=[task_id])
    wanted = deletion.Deletion(kind=_("change tracking task"), name=task.name, warning=warning, cancel_url=cancel_url)
    return deletion.confirm(
        request, wanted, lambda: services.delete(actor=request.actor, task=task), ("tracking.list",)
    )


def group_create(request: Request, task_id: str) -> HttpResponse:
    task = access.task(request, task_id, access.CREATE_GROUP)
    form = GroupForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            services.create_group(actor=request.actor, task=task, **form.cleaned_data)
            messages.success(request, _("The consumer group %(name)s is ready.") % {"name": form.cleaned_data["name"]})
            return redirect("tracking.detail", task_id)
    return forms.show(request, "tracking/create_group.html", form, _about(request, task))


def group_delete(request: Request, task_id: str, name: str) -> HttpResponse:
    task, group = access.group(request, task_id, name, access.DELETE_GROUP)
    warning = (
        _("%(holder_name)s reads by it.") % {"holder_name": group.read_by}
        if group.holder
        else _("Nothing reads by it.")
    )
    cancel_url = reverse("tracking.detail", args=[task_id])
    wanted = deletion.Deletion(kind=_("consumer group"), name=name, warning=warning, cancel_url=cancel_url)

    def act() -> None:
        services.delete_group(actor=request.actor, task=task, group=group)

    return deletion.confirm(request, wanted, act, ("tracking.detail", task_id))


def _tried(request: Request, form: ConnectionForm, task: TrackingTask | None) -> HttpResponse:
    """What a test of the form's connection finds; what is wrong with the form itself stands there too."""
    context: dict[str, Any] = {}
    if form.is_valid():
        with forms.refusals_on(form):
            kind = form.chosen_kind
            context["faults"] = services.test(actor=request.actor, kind=kind, task=task, **form.values)
    return forms.show_part(request, "tracking/tested.html", "tracking/_tested.html", form, context)


def _about(request: Request, task: TrackingTask) -> dict[str, Any]:
    """What every page of one task shows, and what the visitor may do with it."""
    may = {word: access.may(request.actor, action, task.task_id) for word, action in _ACTIONS.items()}
    slow = queries.kept_for(task)
    return {"task": task, "may": may, "is_lost": task.code in _LOST, "kept_for": slow, "times": retention.TIMES}
