"""Pages of archives: one tab of a topic, and the list of the account's archives."""

from __future__ import annotations

from typing import Any

import django_tables2 as tables
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access as accounts
from console.accounts.http import Request
from console.archive import access, queries, services
from console.archive.models import TopicArchive
from console.topics.models import Topic
from console.topics.names import apart
from console.web import deletion, forms, htmx, streams
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, column, configured, search_text
from console.web.templatetags.gantry import byte_size, number

_NUMBER = column("num-cell")


class ArchiveTable(tables.Table):  # type: ignore[misc]
    """Topic, state and size of each archive."""

    physical_name = CellColumn(template_name="archive/_topic_cell.html", verbose_name=gettext_lazy("Topic"))
    status = CellColumn(template_name="archive/_status.html", verbose_name=gettext_lazy("State"))
    messages = tables.Column(verbose_name=gettext_lazy("Messages"), attrs=_NUMBER)
    size = tables.Column(verbose_name=gettext_lazy("Size"), attrs=_NUMBER)
    ended_at = CellColumn(
        "{% load gantry %}{% if record.ended_at %}{% ago record.ended_at %}{% else %}–{% endif %}",
        verbose_name=gettext_lazy("Last run"),
    )
    delete = CellColumn(
        template_name="archive/_delete_cell.html", verbose_name="", orderable=False, attrs=column("actions-cell")
    )

    class Meta:
        order_by = "physical_name"

    def render_messages(self, record: TopicArchive) -> SafeString:
        return number(record.messages)

    def render_size(self, record: TopicArchive) -> SafeString:
        return byte_size(record.size)


@require_GET
def topic(request: Request, instance_id: str, name: str) -> HttpResponse:
    found = access.topic(request, instance_id, name)
    return render(request, "archive/topic.html", _context(request, found))


@streams.part
@require_GET
def state(request: Request, instance_id: str, name: str) -> HttpResponse:
    found = access.topic(request, instance_id, name)
    return render(request, "archive/_state.html", _context(request, found))


@require_POST
def start(request: Request, instance_id: str, name: str) -> HttpResponse:
    found = access.topic(request, instance_id, name)
    with forms.refusals_told(request):
        services.start(actor=request.actor, topic=found)
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
    with forms.refusals_told(request):
        services.set_hourly(actor=request.actor, archive=archive, hourly=request.POST.get("hourly") == "on")
    return htmx.done(request, *_page_of(archive))


def delete(request: Request, number: int) -> HttpResponse:
    archive = access.archive(request, number)
    _unused, name = apart(archive.physical_name)
    wanted = deletion.Deletion(
        kind=_("archive"),
        name=name,
        warning=_(
            "%(messages)s archived messages are deleted. Those that the broker has dropped in the meantime are lost."
        )
        % {"messages": f"{archive.messages:,}"},
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
