"""Pages of archives: one tab of a topic, and the list of the account's archives."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access as accounts
from console.archive import access, queries, services
from console.archive.models import TopicArchive
from console.archive.tables import ArchiveTable
from console.topics.models import Topic
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.http import Request
from console.web.paging import configured, search_text


@require_GET
def topic(request: Request, instance_id: str, name: str) -> HttpResponse:
    found = access.topic(request, instance_id, name)
    return render(request, "archive/topic.html", _context(request, found))


@require_GET
def state(request: Request, instance_id: str, name: str) -> HttpResponse:
    found = access.topic(request, instance_id, name)
    return render(request, "archive/_state.html", _context(request, found))


@require_POST
def start(request: Request, instance_id: str, name: str) -> HttpResponse:
    found = access.topic(request, instance_id, name)
    try:
        services.start(actor=request.actor, topic=found)
    except Refused as refused:
        messages.error(request, refused.message)
    return htmx.done(request, "archive.topic", instance_id, name)


@require_GET
def index(request: Request) -> HttpResponse:
    accounts.service(request, "dla", access.ARCHIVE)
    text = search_text(request)
    context = {"table": configured(request, ArchiveTable(queries.archives(request.actor, text))), "q": text}
    return htmx.page(request, "archive/index.html", "archive/_list.html", context)


@require_POST
def hourly(request: Request, number: int) -> HttpResponse:
    archive = access.archive(request, number)
    try:
        services.set_hourly(actor=request.actor, archive=archive, hourly=request.POST.get("hourly") == "on")
    except Refused as refused:
        messages.error(request, refused.message)
    return htmx.done(request, *_page_of(archive))


def delete(request: Request, number: int) -> HttpResponse:
    archive = access.archive(request, number)
    name = archive.physical_name.rpartition("%")[2]
    wanted = deletion.Deletion(
        kind="archive",
        name=name,
        warning=f"{archive.messages:,} archived messages are deleted. What the broker has dropped since is gone then.",
        cancel_url=reverse(_page_of(archive)[0], args=_page_of(archive)[1:]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete(actor=request.actor, archive=archive), _page_of(archive)
    )


def _context(request: Request, found: Topic) -> dict[str, Any]:
    archive = queries.archive_of(request.actor, found)
    table = f"mq.`{found.physical_name}`"
    recent = "store_time > current_timestamp() - interval 1 day"
    return {
        "instance": found.instance,
        "topic": found,
        "tab": "archive",
        "archive": archive,
        "table": table,
        "statement": f"select tag, count(*) from {table} where {recent} group by tag",  # noqa: S608  shown only
    }


def _page_of(archive: TopicArchive) -> tuple[str, ...]:
    """Where the archive is shown: on its topic's page, as long as there is one."""
    if archive.topic is None:
        return ("archive.index",)
    return "archive.topic", archive.topic.instance.instance_id, archive.topic.name
