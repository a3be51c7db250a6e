"""Pages of a group's dead letters: found, looked at, sent again, put aside, taken away as a file."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import reswap, retarget

from brokercore.client.errors import ClientError
from console.accounts import saved_views
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.audit import record as audit
from console.messaging import dead_letters, letter_filters, records, services
from console.messaging.dead_letters import Noted
from console.messaging.forms import LetterForm
from console.messaging.queries import MAX_PAGE_SIZE, MAX_PAGES, TimePage
from console.messaging.records import MessageRecord
from console.messaging.services import ResendResult
from console.messaging.status import clients_of
from console.messaging.views import download, page_number
from console.topics import access as topics
from console.topics.models import Group
from console.topics.names import shown_name
from console.web import exports, forms, htmx
from console.web.errors import Refused

MOST = MAX_PAGES * MAX_PAGE_SIZE
"""Letters of one search that can be reached: sent again as a whole, or in one file."""
_CHANGE = "mq:ResendDeadLetter"
_DEFAULT = {"range": "3d"}


@require_GET
@saved_views.opens_with_default("messaging_Letters")
def index(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """The letters of a group by the time they died, newest first, or those with an id."""
    group = topics.group(request, instance_id, group_id, "mq:QueryMessage")
    form = LetterForm(_DEFAULT | request.GET.dict())
    context: dict[str, Any] = {"instance": group.instance, "group": group, "most": MOST}
    if form.is_valid():
        with forms.refusals_on(form):
            context |= _listed(request, group, form)
            context["retries"] = letter_filters.retries_of(group)
    return forms.show_part(request, "messaging/dead_letters.html", "messaging/_dead_letters.html", form, context)


@require_GET
def letter(request: Request, instance_id: str, group_id: str, reference: str) -> HttpResponse:
    """One letter with everything known of it and what it was at first; `preview` for a panel beside the list."""
    group = topics.group(request, instance_id, group_id, "mq:QueryMessage")
    found = dead_letters.find(group, reference)
    if found is None:
        raise Http404("no such dead letter")
    record = found.record
    if "download" in request.GET:
        return download(record)
    retries = letter_filters.retries_of(group)
    context: dict[str, Any] = {
        "instance": group.instance,
        "group": group,
        "message": record,
        "body": records.view(record.body, request.GET.get("body", "")),
        "noted": dead_letters.noted(group, [record])[record.offset_message_id],
        "retries": retries,
        "used_up": letter_filters.used_up(record.reconsume_times, retries),
        "error": dead_letters.told_error(record),
    }
    if "preview" in request.GET and htmx.is_fragment(request):
        return htmx.page(request, "messaging/dead_letter.html", "messaging/_letter_preview.html", context)
    if not htmx.is_fragment(request):
        original = dead_letters.original(request.actor, group, record)
        context |= {"original": original, "differences": _differences(original.record, record)}
    return htmx.page(request, "messaging/dead_letter.html", "messaging/_body.html", context)


@require_POST
def resend(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Send the chosen letters to the group again: asks first, then answers with a result for each."""
    group = topics.group(request, instance_id, group_id, _CHANGE)
    return _changed(request, group, "resend")


@require_POST
def discard(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Put the chosen letters aside, or with `back` among the others; answers with a result for each."""
    group = topics.group(request, instance_id, group_id, _CHANGE)
    return _changed(request, group, "restore" if request.POST.get("back") else "discard")


@require_POST
def resend_all(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Send all letters of a search again, a page of them a request: asks first, then goes on by itself."""
    group = topics.group(request, instance_id, group_id, _CHANGE)
    topics.require_group(request.actor, "mq:QueryMessage", group)
    context: dict[str, Any] = {"instance": group.instance, "group": group, "all": True, "most": MOST}
    context["shown"] = request.POST.getlist("shown")[:MAX_PAGE_SIZE]
    task_id = request.POST.get("task", "")
    with forms.refusals_in(context, "refusal"):
        if not task_id:
            context |= _asked_for_all(request, group)
            return htmx.page(request, "messaging/resend_ask.html", "messaging/_resend_ask.html", context)
        number, counts = _posted_number(request, "page", 1), _counts(request)
        page = dead_letters.next_page(request.actor, group, task_id, number)
        noted = dead_letters.noted(group, page.messages)
        chosen = [one for one in page.messages if not noted[one.offset_message_id].sent]
        results = services.resend_dead_letters(request.actor, group, [str(one.position) for one in chosen])
        failed = sum(bool(result.error) for result in results)
        counts["sent"] += len(results) - failed
        counts["failed"] += failed
        counts["left"] += len(page.messages) - len(chosen)
        context |= {"page": page, "next": number + 1, "counts": counts, "done": sum(counts.values())}
        context |= _marked(request, group, results)
    return _answer(request, "messaging/resent_all.html", "messaging/_resent_all.html", context)


@require_GET
def export(request: Request, instance_id: str, group_id: str, form: str) -> StreamingHttpResponse:
    """The letters that the list's filters find as a file, at most MOST of them. Who took them away is audited."""
    group = topics.group(request, instance_id, group_id, "mq:QueryMessage")
    if form not in _FORMATS:
        raise Http404("no such format")
    filters = LetterForm(_DEFAULT | request.GET.dict())
    if not filters.is_valid():
        raise Http404("no such search")
    write, content_type = _FORMATS[form]
    first = _first_page(request, group, filters)
    audit.record(
        request.actor,
        "messaging.dead_letter.export",
        group.physical_name,
        detail={"format": form, "filters": {name: value for name, value in request.GET.items() if value}},
    )
    lines = write(_rows(request, group, first))
    name = f"dead-letters-{group.group_id}-{timezone.now():%Y%m%dT%H%M%SZ}.{form}"
    return exports.download(request, lines, content_type, name)


def _listed(request: Request, group: Group, form: LetterForm) -> dict[str, Any]:
    if message_id := form.cleaned_data["message_id"].strip():
        found = dead_letters.by_id(group, message_id)
        return {"letters": _with_notes(group, found), "by_id": message_id}
    if task_id := request.GET.get("task"):
        page = dead_letters.next_page(request.actor, group, task_id, page_number(request))
    else:
        begun = _search(request, group, form)
        if begun is None:
            return {"never": True}
        page = begun
    filters = {name for name, value in form.wanted().items() if value and name != "state"}
    return {"page": page, "letters": _with_notes(group, page.messages), "filtered": bool(filters)}


def _search(request: Request, group: Group, form: LetterForm, page_size: int = 20) -> TimePage | None:
    begin_ms, end_ms = form.cleaned_data["begin_ms"], form.cleaned_data["end_ms"]
    return dead_letters.search(request.actor, group, begin_ms, end_ms, page_size=page_size, wanted=form.wanted())


def _with_notes(group: Group, letters: list[MessageRecord]) -> list[tuple[MessageRecord, Noted]]:
    noted = dead_letters.noted(group, letters)
    return [(one, noted[one.offset_message_id]) for one in letters]


_ACTS: dict[str, Callable[[Actor, Group, list[str]], list[ResendResult]]] = {
    "resend": services.resend_dead_letters,
    "discard": services.discard_dead_letters,
    "restore": partial(services.discard_dead_letters, back=True),
}


def _changed(request: Request, group: Group, verb: str) -> HttpResponse:
    references = request.POST.getlist("letter")
    context: dict[str, Any] = {"instance": group.instance, "group": group, "verb": verb}
    with forms.refusals_in(context, "refusal"):
        if not references:
            raise Refused("BIZ_FIELD_CHECK_INVALID", _("Select the dead letters first."))
        if verb == "resend" and not request.POST.get("confirmed"):
            context |= {"references": references, "count": len(references), "shown": request.POST.getlist("shown")}
            context |= _online(group)
            context["again"] = _sent_before(group, references)
            return htmx.page(request, "messaging/resend_ask.html", "messaging/_resend_ask.html", context)
        context |= _marked(request, group, _ACTS[verb](request.actor, group, references))
    return _answer(request, "messaging/resent.html", "messaging/_resent.html", context)


def _answer(request: Request, template: str, part: str, context: dict[str, Any]) -> HttpResponse:
    """Results stand above the list, whatever asked for them; the dialog has done its work."""
    response = htmx.page(request, template, part, context)
    response.status_code = 422 if "refusal" in context else 200
    if not htmx.is_fragment(request):
        return response
    if "page" not in context or context["next"] == 2 or "refusal" in context:
        response = reswap(retarget(response, "#resent"), "outerHTML")
    return htmx.telling(response, "closeDialog")


def _marked(request: Request, group: Group, results: list[ResendResult]) -> dict[str, Any]:
    """The results, and the new marks of those letters that the page has in its list (`shown`)."""
    shown = set(request.POST.getlist("shown"))
    letters = [result.letter for result in results if result.letter and str(result.letter.position) in shown]
    return {"results": results, "marks": _with_notes(group, letters)}


def _asked_for_all(request: Request, group: Group) -> dict[str, Any]:
    """Begins the search that is then sent page by page: its end stands, whatever dies meanwhile."""
    form = LetterForm(_DEFAULT | request.POST.dict())
    if not form.is_valid():
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("Correct the filters first."))
    page = _search(request, group, form, MAX_PAGE_SIZE)
    if page is None or not page.total:
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("There is no dead letter in this range."))
    asked = {"task": page.task_id, "count": page.total, "filtered": any(form.wanted().values())}
    if not page.has_next:
        # All of them are known, so the question says what will be done, not what at most.
        found = _with_notes(group, page.messages)
        before = sum(noted.sent for _letter, noted in found)
        asked |= {"filtered": False, "count": len(found) - before, "before": before, "none": len(found) == before}
    return asked | _online(group)


def _online(group: Group) -> dict[str, Any]:
    """Who would get the letters: the clients of the group, or that nobody knows."""
    try:
        connection = clients_of(group)
    except ClientError as error:
        return {"unknown": error.user_message}
    return {"clients": [client.client_id for client in connection.connections] if connection else []}


def _sent_before(group: Group, references: list[str]) -> int:
    found = [dead_letters.find(group, one) for one in dict.fromkeys(references[: services.MAX_RESENDS])]
    letters = [one.record for one in found if one is not None]
    return sum(noted.sent for noted in dead_letters.noted(group, letters).values())


def _posted_number(request: Request, name: str, least: int) -> int:
    text = request.POST.get(name, "")
    return max(least, int(text)) if text.isdecimal() and len(text) < 6 else least


def _counts(request: Request) -> dict[str, int]:
    return {name: _posted_number(request, name, 0) for name in ("sent", "failed", "left")}


def _differences(first: MessageRecord | None, last: MessageRecord) -> list[tuple[str, str, str]]:
    """What the letter has otherwise than the message that it was: name, then, now."""
    if first is None:
        return []
    names = sorted({*first.properties, *last.properties})
    pairs = ((name, first.properties.get(name, ""), last.properties.get(name, "")) for name in names)
    return [pair for pair in pairs if pair[1] != pair[2]]


def _first_page(request: Request, group: Group, form: LetterForm) -> TimePage | list[MessageRecord]:
    if message_id := form.cleaned_data["message_id"].strip():
        return dead_letters.by_id(group, message_id)
    return _search(request, group, form, MAX_PAGE_SIZE) or []


def _rows(request: Request, group: Group, first: TimePage | list[MessageRecord]) -> Iterator[dict[str, Any]]:
    retries = letter_filters.retries_of(group)
    page = first
    while True:
        found = page if isinstance(page, list) else page.messages
        for record, noted in _with_notes(group, found):
            yield _row(group, record, noted, retries)
        if isinstance(page, list) or not page.has_next:
            return
        page = dead_letters.next_page(request.actor, group, page.task_id, page.page + 1)


def _row(group: Group, record: MessageRecord, noted: Noted, retries: int | None) -> dict[str, Any]:
    try:
        body, encoded = record.body.decode(), False
    except UnicodeDecodeError:
        body, encoded = base64.b64encode(record.body).decode(), True
    used_up = letter_filters.used_up(record.reconsume_times, retries)
    sent = [row for row in noted.resends if not row.error]
    return {
        "gave_up_at": _iso(record.stored_at_ms),
        "message_id": record.message_id,
        "place": str(record.position),
        "topic": shown_name(group.instance, record.original_topic),
        "tag": record.tag,
        "keys": list(record.keys),
        "failed_deliveries": record.reconsume_times,
        "retries_used_up": used_up,
        "sent_again_at": sent[-1].at.isoformat() if sent else None,
        "discarded": noted.discard is not None,
        "properties": record.properties,
        "body": body,
        "body_base64": encoded,
    }


def _iso(epoch_ms: int) -> str:
    return exports.moment(datetime.fromtimestamp(epoch_ms / 1000, UTC))


_COLUMNS = (
    "gave_up_at", "message_id", "place", "topic", "tag", "keys", "failed_deliveries", "retries_used_up",
    "sent_again_at", "discarded", "properties", "body", "body_base64",
)  # fmt: skip


def _as_lines(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _as_csv(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    def cells(row: dict[str, Any]) -> list[Any]:
        told = row | {"keys": " ".join(row["keys"]), "properties": json.dumps(row["properties"], ensure_ascii=False)}
        return ["" if told[name] is None else told[name] for name in _COLUMNS]

    return exports.as_csv(_COLUMNS, (cells(row) for row in rows))


_FORMATS = {"jsonl": (_as_lines, "application/x-ndjson; charset=utf-8"), "csv": (_as_csv, "text/csv; charset=utf-8")}
