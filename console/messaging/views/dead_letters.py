"""Dead letters of an instance and of a group; sending them again."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from console.instances import access as instances
from console.messaging import bodies, dead_letters, services
from console.messaging.forms import RangeForm
from console.messaging.views.messages import download, page_number
from console.metrics.queries import dead_letter_counts
from console.topics import access as topics
from console.topics.models import Group
from console.topics.queries import visible_groups
from console.web import htmx
from console.web.errors import Refused
from console.web.http import Request


@require_GET
def index(request: Request, instance_id: str) -> HttpResponse:
    """The groups of the instance with the number of letters of each, as last sampled."""
    instance = instances.instance(request, instance_id, "mq:QueryGroup")
    counts, age_seconds = dead_letter_counts(instance)
    groups = visible_groups(request.actor, instance)
    rows = [(group, counts.get(group.physical_name, 0)) for group in groups]
    rows.sort(key=lambda row: -row[1])
    context = {"instance": instance, "rows": rows, "age_seconds": age_seconds}
    return render(request, "messaging/dead_letter_index.html", context)


@require_GET
def listing(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """The letters of a group by the time they died, newest first."""
    group = topics.group(request, instance_id, group_id, "mq:QueryMessage")
    form = RangeForm(request.GET if "range" in request.GET else {"range": "3d"})
    context: dict[str, Any] = {"instance": group.instance, "group": group, "form": form}
    if form.is_valid():
        try:
            context |= _page(request, group, form)
        except Refused as refusal:
            form.add_error(None, refusal.message)
    if not form.is_valid():
        return htmx.invalid(
            request,
            "messaging/_dead_letters.html" if htmx.is_fragment(request) else "messaging/dead_letters.html",
            context,
        )
    return htmx.page(request, "messaging/dead_letters.html", "messaging/_dead_letters.html", context)


@require_GET
def letter(request: Request, instance_id: str, group_id: str, reference: str) -> HttpResponse:
    """One letter with everything known of it."""
    group = topics.group(request, instance_id, group_id, "mq:QueryMessage")
    found = dead_letters.find(group, reference)
    if found is None:
        raise Http404("no such dead letter")
    if "download" in request.GET:
        return download(found.record)
    context = {
        "instance": group.instance,
        "group": group,
        "message": found.record,
        "body": bodies.view(found.record.body, request.GET.get("body", "")),
        "resends": dead_letters.resends(group, [found.record]).get(found.record.offset_message_id, []),
    }
    return htmx.page(request, "messaging/dead_letter.html", "messaging/_body.html", context)


@require_POST
def resend(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Send the ticked letters to the group again; answers with a result for each."""
    group = topics.group(request, instance_id, group_id, "mq:ResendDeadLetter")
    references = request.POST.getlist("letter")
    context: dict[str, Any] = {"instance": group.instance, "group": group}
    try:
        if not references:
            raise Refused("BIZ_FIELD_CHECK_INVALID", "Tick the letters to send again.")
        results = services.resend_dead_letters(request.actor, group, references)
    except Refused as refusal:
        context["refusal"] = refusal.message
        return htmx.invalid(request, _results_template(request), context)
    letters = [result.letter for result in results if result.letter]
    noted = dead_letters.resends(group, letters)
    marks = [(letter.position, noted.get(letter.offset_message_id, [])) for letter in letters]
    context |= {"results": results, "marks": marks}
    return htmx.page(request, "messaging/resent.html", "messaging/_resent.html", context)


def _results_template(request: Request) -> str:
    return "messaging/_resent.html" if htmx.is_fragment(request) else "messaging/resent.html"


def _page(request: Request, group: Group, form: RangeForm) -> dict[str, Any]:
    if task_id := request.GET.get("task"):
        page = dead_letters.next_page(request.actor, group, task_id, page_number(request))
    else:
        begin_ms, end_ms = form.cleaned_data["begin_ms"], form.cleaned_data["end_ms"]
        found = dead_letters.search(request.actor, group, begin_ms, end_ms)
        if found is None:
            return {"never": True}
        page = found
    noted = dead_letters.resends(group, page.messages)
    return {"page": page, "letters": [(m, noted.get(m.offset_message_id, [])) for m in page.messages]}
