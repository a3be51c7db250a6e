"""Pages of the lake: buckets, their folders and files, and tables over them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from analytics import run as engine
from console.sql import access, buckets, table_proposals
from console.sql.lake_forms import BucketForm, TableForm, UploadForm
from console.sql.lake_tables import BucketTable, EntryTable
from console.sql.models import Bucket
from console.sql.views.files import attachment
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text


@require_GET
def index(request: Request) -> HttpResponse:
    access.pages(request)
    text = search_text(request)
    found = [bucket for bucket in buckets.visible(request.actor) if text.lower() in bucket.name]
    context = {"table": configured(request, BucketTable(buckets.usage(request.actor, found))), "q": text}
    return htmx.page(request, "sql/lake/index.html", "sql/lake/_buckets.html", context)


def create(request: Request) -> HttpResponse:
    access.pages(request)
    form = BucketForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            bucket = buckets.create(request.actor, form.cleaned_data["name"])
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Bucket {bucket.name} is ready. Upload files, or make a table in it.")
            return htmx.done(request, "sql.bucket", bucket.name)
    return render(request, "sql/lake/create.html", {"form": form}, status=422 if form.is_bound else 200)


@require_GET
def bucket(request: Request, name: str) -> HttpResponse:
    folder = request.GET.get("folder", "").strip("/")
    found, place = access.place(request, name, buckets.READ, folder)
    return htmx.page(request, "sql/lake/bucket.html", "sql/lake/_entries.html", _context(request, found, place))


def delete(request: Request, name: str) -> HttpResponse:
    found = access.bucket(request, name, buckets.DELETE)
    wanted = deletion.Deletion(
        kind="bucket",
        name=name,
        warning="All files in it are deleted. A bucket in which tables or schemas lie is kept.",
        cancel_url=reverse("sql.bucket", args=[name]),
    )
    return deletion.confirm(request, wanted, lambda: buckets.delete(request.actor, found), ("sql.buckets",))


@require_POST
def upload(request: Request, name: str) -> HttpResponse:
    folder = request.POST.get("folder", "").strip("/")
    found, place = access.place(request, name, buckets.WRITE, folder)
    form = UploadForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            for file in form.cleaned_data["content"]:
                buckets.upload(request.actor, place, file.name, file, file.size)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            count = len(form.cleaned_data["content"])
            messages.success(request, f"{count} file{'s' if count > 1 else ''} uploaded.")
            return _to_folder(request, place)
    return render(request, "sql/lake/bucket.html", _context(request, found, place, form), status=422)


@require_GET
def download(request: Request, name: str, key: str) -> StreamingHttpResponse:
    _, place = access.place(request, name, buckets.READ, key)
    return attachment(place, place.name)


def delete_file(request: Request, name: str, key: str) -> HttpResponse:
    _, place = access.place(request, name, buckets.WRITE, key)
    wanted = deletion.Deletion(
        kind="file",
        name=place.name,
        warning="Tables over its folder lose the rows that are in it.",
        cancel_url=f"{reverse('sql.bucket', args=[name])}?{urlencode({'folder': place.folder.key})}",
    )
    return deletion.confirm(request, wanted, lambda: buckets.delete_file(request.actor, place), ("sql.bucket", name))


def table(request: Request, name: str) -> HttpResponse:
    """Propose the definition of a table over a folder; on POST carry it out as it is written by then."""
    folder = request.GET.get("folder", "").strip("/")
    _, place = access.place(request, name, buckets.READ, folder)
    context: dict[str, Any] = {"bucket": name, "folder": folder}
    if request.method != "POST":
        context |= _proposal(request, place)
        return render(request, "sql/lake/table.html", context)
    form = TableForm(request.POST)
    if form.is_valid():
        try:
            made = table_proposals.carry_out(request.actor, form.cleaned_data["text"])
        except Refused as refused:
            add_refusal(form, refused)
        except PermissionDenied as denied:
            form.add_error("text", f"Not allowed: {denied}.")
        else:
            messages.success(request, f"The table {made} is there. Query it in the editor.")
            return _to_folder(request, place)
    return render(request, "sql/lake/table.html", context | {"form": form}, status=422)


def _proposal(request: Request, place: engine.Place) -> dict[str, Any]:
    try:
        text = table_proposals.propose(request.actor, place)
    except Refused as refused:
        return {"problem": refused.message}
    except PermissionDenied as denied:
        return {"problem": f"Not allowed: {denied}."}
    return {"form": TableForm(initial={"text": text})}


def _context(request: Request, found: Bucket, place: engine.Place, form: UploadForm | None = None) -> dict[str, Any]:
    context: dict[str, Any] = {
        "bucket": found,
        "folder": place.key,
        "location": place.as_folder,
        "crumbs": _crumbs(place.key),
        "tables": buckets.tables_over(request.actor, place.as_folder),
        "form": form or UploadForm(initial={"folder": place.key}),
    }
    try:
        rows = buckets.entries(place)
    except engine.LakeError as error:
        return context | {"problem": error.user_message}
    return context | {"table": configured(request, EntryTable(rows))}


def _crumbs(folder: str) -> list[tuple[str, str]]:
    """Name and path of each folder on the way."""
    parts = folder.split("/") if folder else []
    return [(part, "/".join(parts[: number + 1])) for number, part in enumerate(parts)]


def _to_folder(request: Request, place: engine.Place) -> HttpResponse:
    response = htmx.done(request, "sql.bucket", place.bucket)
    header = "HX-Redirect" if request.htmx else "Location"
    response[header] = f"{reverse('sql.bucket', args=[place.bucket])}?{urlencode({'folder': place.key})}"
    return response
