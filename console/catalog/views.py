"""Pages of the lake: buckets, their folders and files, and tables over them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from analytics.errors import LakeError
from analytics.lake import Place
from console.accounts.http import Request
from console.catalog import access, bucket_rules, buckets, definitions
from console.catalog.file_downloads import attachment
from console.catalog.forms import BucketForm, RuleForm, TableForm, UploadForm
from console.catalog.models import Bucket
from console.catalog.tables import BucketTable, EntryTable, RuleTable
from console.web import deletion, forms, htmx
from console.web.paging import configured, search_text


@require_GET
def index(request: Request) -> HttpResponse:
    access.pages(request)
    text = search_text(request)
    found = [bucket for bucket in buckets.visible(request.actor) if text.lower() in bucket.name]
    context = {"table": configured(request, BucketTable(buckets.usage(request.actor, found))), "q": text}
    return htmx.page(request, "catalog/index.html", "catalog/_buckets.html", context)


def create(request: Request) -> HttpResponse:
    access.pages(request)
    form = BucketForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            bucket = buckets.create(request.actor, form.cleaned_data["name"])
            messages.success(
                request,
                _("Bucket %(bucket)s is ready. Upload files, or create a table in it.") % {"bucket": bucket.name},
            )
            return htmx.done(request, "sql.bucket", bucket.name)
    return forms.show(request, "catalog/create.html", form)


@require_GET
def bucket(request: Request, name: str) -> HttpResponse:
    folder = request.GET.get("folder", "").strip("/")
    found, place = access.place(request, name, buckets.READ, folder)
    form = UploadForm(initial={"folder": place.key})
    context = _context(request, found, place)
    return forms.show_part(request, "catalog/bucket.html", "catalog/_entries.html", form, context)


def delete(request: Request, name: str) -> HttpResponse:
    found = access.bucket(request, name, buckets.DELETE)
    wanted = deletion.Deletion(
        kind=_("bucket"),
        name=name,
        warning=_("All files in it are deleted. A bucket that still has tables or schemas cannot be deleted."),
        cancel_url=reverse("sql.bucket", args=[name]),
    )
    return deletion.confirm(request, wanted, lambda: buckets.delete(request.actor, found), ("sql.buckets",))


@require_POST
def upload(request: Request, name: str) -> HttpResponse:
    folder = request.POST.get("folder", "").strip("/")
    found, place = access.place(request, name, buckets.WRITE, folder)
    form = UploadForm(request.POST, request.FILES)
    if form.is_valid():
        with forms.refusals_on(form):
            for file in form.cleaned_data["content"]:
                buckets.upload(request.actor, place, file.name, file, file.size)
            count = len(form.cleaned_data["content"])
            messages.success(
                request,
                ngettext("%(count)s file uploaded.", "%(count)s files uploaded.", count) % {"count": count},
            )
            return _to_folder(request, place)
    return forms.show(request, "catalog/bucket.html", form, _context(request, found, place))


@require_GET
def download(request: Request, name: str, key: str) -> StreamingHttpResponse:
    _unused, place = access.place(request, name, buckets.READ, key)
    return attachment(place, place.name)


def delete_file(request: Request, name: str, key: str) -> HttpResponse:
    _unused, place = access.place(request, name, buckets.WRITE, key)
    wanted = deletion.Deletion(
        kind=_("file"),
        name=place.name,
        warning=_("Tables over its folder lose the rows that are in it."),
        cancel_url=f"{reverse('sql.bucket', args=[name])}?{urlencode({'folder': place.folder.key})}",
    )
    return deletion.confirm(request, wanted, lambda: buckets.delete_file(request.actor, place), ("sql.bucket", name))


def rules(request: Request, name: str) -> HttpResponse:
    """The rules by which the bucket tells queues of its files; on POST add one."""
    found = access.bucket(request, name, bucket_rules.CHANGE if request.method == "POST" else bucket_rules.READ)
    form = RuleForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        with forms.refusals_on(form, denials_on="queue"):
            rule = bucket_rules.create(request.actor, found, **form.cleaned_data)
            messages.success(
                request,
                _("The rule %(rule)s is active: the queue %(queue)s receives its events.")
                % {"rule": rule.name, "queue": rule.queue},
            )
            return htmx.done(request, "sql.bucket_rules", name)
    table = configured(request, RuleTable(bucket_rules.states(found)))
    context = {"bucket": found, "table": table}
    return forms.show_part(request, "catalog/rules.html", "catalog/_rules.html", form, context)


def delete_rule(request: Request, name: str, rule: str) -> HttpResponse:
    found = access.rule(request, name, rule, bucket_rules.CHANGE)
    wanted = deletion.Deletion(
        kind=_("rule"),
        name=rule,
        warning=_("The queue %(queue)s is told of no further changes. Events that wait are still delivered.")
        % {"queue": found.queue},
        cancel_url=reverse("sql.bucket_rules", args=[name]),
    )
    return deletion.confirm(
        request, wanted, lambda: bucket_rules.delete(request.actor, found), ("sql.bucket_rules", name)
    )


@require_POST
def send_again(request: Request, name: str, rule: str) -> HttpResponse:
    """Try the events of a rule that were given up for another day."""
    found = access.rule(request, name, rule, bucket_rules.CHANGE)
    count = bucket_rules.send_again(request.actor, found)
    messages.success(
        request,
        ngettext(
            "%(count)s event of %(rule)s will be sent again.", "%(count)s events of %(rule)s will be sent again.", count
        )
        % {"count": count, "rule": rule},
    )
    return htmx.done(request, "sql.bucket_rules", name)


def table(request: Request, name: str) -> HttpResponse:
    """Propose the definition of a table over a folder; on POST carry it out as it is written by then."""
    folder = request.GET.get("folder", "").strip("/")
    _unused, place = access.place(request, name, buckets.READ, folder)
    context: dict[str, Any] = {"bucket": name, "folder": folder}
    if request.method != "POST":
        context |= _proposal(request, place)
        return render(request, "catalog/table.html", context)
    form = TableForm(request.POST)
    if form.is_valid():
        with forms.refusals_on(form, denials_on="text"):
            made = definitions.carry_out(request.actor, form.cleaned_data["text"])
            messages.success(request, _("The table %(made)s is ready. Query it in the editor.") % {"made": made})
            return _to_folder(request, place)
    return forms.show(request, "catalog/table.html", form, context)


def _proposal(request: Request, place: Place) -> dict[str, Any]:
    proposal: dict[str, Any] = {}
    with forms.refusals_in(proposal, "problem", denials=True):
        proposal["form"] = TableForm(initial={"text": definitions.propose(request.actor, place)})
    return proposal


def _context(request: Request, found: Bucket, place: Place) -> dict[str, Any]:
    context: dict[str, Any] = {
        "bucket": found,
        "folder": place.key,
        "location": place.as_folder,
        "crumbs": _crumbs(place.key),
        "tables": buckets.tables_over(request.actor, place.as_folder),
    }
    try:
        rows = buckets.entries(place)
    except LakeError as error:
        return context | {"problem": error.user_message}
    return context | {"table": configured(request, EntryTable(rows))}


def _crumbs(folder: str) -> list[tuple[str, str]]:
    """Name and path of each folder on the way."""
    parts = folder.split("/") if folder else []
    return [(part, "/".join(parts[: number + 1])) for number, part in enumerate(parts)]


def _to_folder(request: Request, place: Place) -> HttpResponse:
    response = htmx.done(request, "sql.bucket", place.bucket)
    header = "HX-Redirect" if request.htmx else "Location"
    response[header] = f"{reverse('sql.bucket', args=[place.bucket])}?{urlencode({'folder': place.key})}"
    return response
