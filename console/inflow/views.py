"""The list of inflow tasks, the wizard that makes and changes one, and the pages of one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from analytics.inflow.webhook import Webhook
from console.accounts import saved_views
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.feeds import queries as feeds
from console.inflow import access, figures, offers, providers, queries, services
from console.inflow import journey as journeys
from console.inflow.documents import source_of
from console.inflow.forms import PARTS, STEPS, TaskForm, field_of, step_of
from console.inflow.tables import TaskTable
from console.pipelines import pages, room, samples, starts
from console.pipelines import queries as pipelines
from console.pipelines.models import BUSY, Pipeline
from console.tracking import access as tracking
from console.web import deletion, forms, htmx, streams
from console.web.errors import Refused
from console.web.paging import configured, search_text

_ACTIONS = {"update": access.UPDATE, "delete": access.DELETE, "start": access.START, "stop": access.STOP}


@streams.part
@require_GET
@saved_views.opens_with_default("inflow_TaskTable")
def task_list(request: Request) -> HttpResponse:
    tenant = access.tasks(request, access.QUERY)
    text = search_text(request)
    table = configured(request, TaskTable(queries.tasks(tenant, text)))
    table.may = partial(_may, request)
    table.nows = samples.latest([row.record.pk for row in table.paginated_rows])
    context = {
        "table": table,
        "q": text,
        "may_create": access.may(request.actor, access.CREATE),
        "may_register": tracking.may(request.actor, tracking.CREATE),
    }
    if not htmx.is_fragment(request):
        context |= _invitation(request, tenant)
    return htmx.page(request, "inflow/list.html", "inflow/_list.html", context)


def task_create(request: Request) -> HttpResponse:
    """The wizard: a task is made and started, or tried (`mode=try`), which is for who has no scripts."""
    access.tasks(request, access.CREATE, request.POST.get("name", "").strip() or "*")
    form = TaskForm(request.POST if request.method == "POST" else None, actor=request.actor)
    trial = _trial(request, form)
    if form.is_valid() and trial is None:
        with _refusals_at_places(form):
            made = services.create(
                actor=request.actor,
                document=form.document,
                login=form.login,
            )
            address, key = services.new_webhook(actor=request.actor, pipeline=made)
            if address:
                return _webhook(request, made, address, key)
            messages.success(request, _("The task %(made)s is starting.") % {"made": made.name})
            return redirect("inflow.detail", made.name)
    return forms.show(request, "inflow/wizard.html", form, _wizard(request, form, trial))


def task_update(request: Request, name: str) -> HttpResponse:
    """The wizard of a task that is there: one that runs goes on with the new version, where it was."""
    task = access.task(request, name, access.UPDATE)
    before = services.document_of(task)
    form = TaskForm(request.POST if request.method == "POST" else None, actor=request.actor, document=before)
    trial = _trial(request, form)
    if form.is_valid() and trial is None:
        with _refusals_at_places(form):
            services.change(
                actor=request.actor,
                pipeline=task,
                document=form.document,
                login=form.login,
            )
            messages.success(request, _("The task %(name)s is saved.") % {"name": name})
            return redirect("inflow.detail", name)
    return forms.show(request, "inflow/wizard.html", form, _wizard(request, form, trial) | {"task": task})


@require_POST
def journey(request: Request) -> HttpResponse:
    """What the form leads to, as far as it is filled in, while one types."""
    document = None
    if name := request.GET.get("task", ""):
        document = services.document_of(access.task(request, name, access.UPDATE))
    else:
        access.tasks(request, access.CREATE, request.POST.get("name", "").strip() or "*")
    form = TaskForm(request.POST, actor=request.actor, document=document)
    form.is_valid()
    trial = _travelled(request, form, calls=request.POST.get("mode") == "try")
    return render(request, "inflow/_journey.html", {"form": form, "trial": trial})


@require_GET
def task_detail(request: Request, name: str) -> HttpResponse:
    task = access.task(request, name, access.QUERY)
    return render(request, "inflow/detail.html", _live(request, task) | _feed(request, task))


@streams.part
@require_GET
def task_live(request: Request, name: str) -> HttpResponse:
    """What of the page changes by itself."""
    task = access.task(request, name, access.QUERY)
    return render(request, "inflow/_live.html", _live(request, task) | {"is_refresh": True})


@streams.part
@require_GET
def task_statistics(request: Request, name: str) -> HttpResponse:
    task = access.task(request, name, access.QUERY)
    ranges, seconds = pages.ranges(request)
    points = samples.counted(task.pk, seconds)
    context = _about(request, task, "statistics") | {
        "ranges": ranges,
        "points": points,
        "rows": figures.rows(points)[:200],
        "curves": figures.curves(points, seconds),
    }
    return htmx.page(request, "inflow/statistics.html", "inflow/_statistics.html", context)


@require_GET
def task_log(request: Request, name: str) -> HttpResponse:
    """The log; with a cursor the lines behind it, which htmx puts below those that are there."""
    task = access.task(request, name, access.QUERY)
    context = _about(request, task, "log") | pages.log(request, task)
    return htmx.page(request, "inflow/log.html", "pipelines/_log_more.html", context)


@require_GET
def task_versions(request: Request, name: str) -> HttpResponse:
    task = access.task(request, name, access.QUERY)
    return render(request, "inflow/versions.html", _about(request, task, "versions") | pages.versions(task))


@require_GET
def task_version(request: Request, name: str, number: int) -> HttpResponse:
    """A version, and what differs from the one before it, or from the one that was chosen."""
    task = access.task(request, name, access.QUERY)
    context = _about(request, task, "versions") | pages.version(request, task, number)
    return render(request, "inflow/version.html", context)


@require_POST
def task_webhook(request: Request, name: str) -> HttpResponse:
    """A new address of a webhook, or a new key: the answer carries it, this once."""
    task = access.task(request, name, access.UPDATE)
    is_key = request.POST.get("part") == services.KEY
    try:
        made = services.renew_webhook(
            actor=request.actor, pipeline=task, part=services.KEY if is_key else services.ADDRESS
        )
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("inflow.detail", name)
    return _webhook(request, task, *(("", made) if is_key else (made, "")))


def task_enable(request: Request, name: str) -> HttpResponse:
    """Ask, and let the task go on where it stopped, or with `anew` begin where its document says."""
    task = access.task(request, name, access.START)
    anew = "anew" in request.GET
    act = partial(services.begin, actor=request.actor, pipeline=task, anew=anew)
    return _confirmed(request, task, ("anew", _("Begin anew")) if anew else ("enable", _("Enable")), act)


def task_pause(request: Request, name: str) -> HttpResponse:
    """Ask, and stop the task."""
    task = access.task(request, name, access.STOP)
    return _confirmed(request, task, ("pause", _("Pause")), lambda: services.pause(actor=request.actor, pipeline=task))


def task_delete(request: Request, name: str) -> HttpResponse:
    task = access.task(request, name, access.DELETE)
    warning = _("Its versions, its position and its log are deleted with it; messages that it has delivered stay.")
    if task.state in BUSY:
        warning = _("It is %(task)s, and stops: what it has begun is delivered. %(warning)s") % {
            "task": _(queries.state_of(task)).lower(),
            "warning": warning,
        }
    wanted = deletion.Deletion(
        kind=_("inflow task"), name=name, warning=warning, cancel_url=reverse("inflow.detail", args=[name])
    )

    def act() -> None:
        services.delete(actor=request.actor, pipeline=task)
        messages.success(request, _("The task %(name)s is deleted.") % {"name": name})

    return deletion.confirm(request, wanted, act, ("inflow.list",))


def _invitation(request: Request, tenant: Tenant) -> dict[str, Any]:
    """A task that waits for its first start, if the visitor may start it."""
    task = queries.unstarted(tenant)
    if task is None or not access.may(request.actor, access.START, task.name):
        return {}
    return {"waits": task, "waiting": queries.summary(task.draft)}


def _confirmed(request: Request, task: Pipeline, step: tuple[str, str], act: Callable[[], None]) -> HttpResponse:
    """A dialog, or a page, with the one button; on POST the act, whose refusal stands there. `step`: key and verb."""
    error = ""
    if request.method == "POST":
        try:
            act()
            return htmx.done(request, "inflow.detail", task.name)
        except Refused as refused:
            error = refused.message
        except PermissionDenied as denied:
            error = forms.not_allowed(denied)
    context = _about(request, task, "overview") | {"step": step[0], "verb": step[1], "error": error}
    response = htmx.page(request, "inflow/confirm.html", "inflow/_confirm_dialog.html", context)
    response.status_code = 422 if error else 200
    return response


def _may(request: Request, name: str) -> dict[str, bool]:
    """What the visitor may do with the task of a name."""
    return {word: access.may(request.actor, action, name) for word, action in _ACTIONS.items()}


def _about(request: Request, task: Pipeline, tab: str) -> dict[str, Any]:
    """The task, the tab that is open, and what the visitor may do with it; templates of pipelines call it a job."""
    standing = queries.standing(task, samples.latest([task.pk]).get(task.pk))
    return {
        "task": task,
        "job": task,
        "tab": tab,
        "may": _may(request, task.name),
        "is_busy": task.state in BUSY,
        "may_begin_anew": task.started_version_id is not None and task.state not in BUSY,
        "standing": standing,
    }


def _live(request: Request, task: Pipeline) -> dict[str, Any]:
    now = samples.latest([task.pk]).get(task.pk)
    ran = pipelines.running_version(task)
    summary = queries.summary(task.version.text if task.version else task.draft)
    return _about(request, task, "overview") | {
        "now": now,
        "waiting": now.waiting if now is not None and task.state in BUSY else (),
        "waits_for": pipelines.waits_for(task),
        "lake_notice": room.notice(task),
        "ran_version": ran,
        "summary": summary,
        "source_trouble": queries.source_trouble(request.actor, summary.document),
        "events": pipelines.events(task)[: pages.MOST_SHOWN],
    }


def _webhook(request: Request, task: Pipeline, address: str, key: str) -> HttpResponse:
    """What is shown once."""
    found = request.build_absolute_uri(address) if address else ""
    context = _about(request, task, "overview") | {"address": found, "key": key}
    return render(request, "inflow/webhook.html", context | {"command": queries.command_of(task, found)})


def _feed(request: Request, task: Pipeline) -> dict[str, Any]:
    """Of a task whose source has a log of the task's own."""
    feed = feeds.feed(task.tenant, task.name)
    if feed is None:
        return {}
    source = source_of(services.document_of(task))
    provider = providers.of(source)
    context: dict[str, Any] = {
        "feed": feed,
        "stored": feeds.range_of(feed),
        "times": provider.due(feed.told, timezone.now()),
        "received": [queries.received(one) for one in provider.recent_of(request.actor, source, task.name)],
    }
    return context | ({"hook": Webhook.read(feed.told)} if feed.kind == feeds.WEBHOOK else {})


def _wizard(request: Request, form: TaskForm, trial: journeys.Journey | None) -> dict[str, Any]:
    if trial is None:
        trial = _travelled(request, form) if form.is_bound else _first(request, form)
    return {
        "trial": trial,
        "steps": list(STEPS.items()),
        "step": form.step if form.is_bound and form.errors else request.POST.get("step", "source"),
        "topics": offers.offered_topics(request.actor),
        "queues": offers.offered_queues(request.actor),
        "function_key": starts.function_key(request.actor.tenant),
        "wrong_steps": {step_of(name) for name in form.errors} if form.is_bound else set(),
    }


def _trial(request: Request, form: TaskForm) -> journeys.Journey | None:
    """What the form leads to, where that is what was asked for."""
    if not form.is_bound or request.POST.get("mode") != "try":
        return None
    form.is_valid()
    return _travelled(request, form, calls=True)


def _travelled(request: Request, form: TaskForm, *, calls: bool = False) -> journeys.Journey:
    sample = form.cleaned_data.get("sample", "") if hasattr(form, "cleaned_data") else ""
    trial = journeys.travel(
        actor=request.actor,
        document=form.document,
        sample=sample,
        calls=calls,
        networks=settings.SMQ_PUSH_ALLOW,
    )
    trial.errors = {_label(form, place): sentence for place, sentence in trial.errors.items()}
    return trial


def _first(request: Request, form: TaskForm) -> journeys.Journey:
    """Of a form that nobody has sent yet."""
    return journeys.travel(actor=request.actor, document=form.unsent)


def _label(form: TaskForm, place: str) -> str:
    """What the field of a place is called."""
    name = field_of(place, form.chosen, form.destination)
    found = form.fields.get(name)
    if found is None:
        return place
    part = PARTS.get(name.partition("_")[0])
    return f"{part}, {found.label}" if part and found.label != part else str(found.label)


def _refusals_at_places(form: TaskForm) -> AbstractContextManager[None, bool]:
    """A refusal stands at the field of the place in the document that it is about."""
    return forms.refusals_at(form, lambda refused: form.add_place_error(refused.field, refused.message))
