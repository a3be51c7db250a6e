"""The lists of buckets, and of what is in a folder."""

from __future__ import annotations

import django_tables2 as tables
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django_tables2.utils import A

from console.catalog.buckets import Entry, Usage
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, column
from console.web.templatetags.gantry import ago, byte_size, icon, time

_SHOWN_TABLES = 3


class BucketTable(tables.Table):  # type: ignore[misc]
    """Which buckets there are, how large, and which tables lie in them."""

    name = tables.Column(accessor="bucket__name", verbose_name=gettext_lazy("Bucket"))
    over = tables.Column(verbose_name=gettext_lazy("Tables over it"), orderable=False, empty_values=())
    size = tables.Column(verbose_name=gettext_lazy("Size"), attrs=column("num-cell"), empty_values=())
    created_at = tables.Column(accessor="bucket__created_at", verbose_name=gettext_lazy("Created"))

    class Meta:
        order_by = "name"

    def render_name(self, record: Usage) -> SafeString:
        name = record.bucket.name
        return format_html('<a class="name" href="{}">{}</a>', reverse("sql.bucket", args=[name]), name)

    def render_over(self, record: Usage) -> SafeString:
        if not record.tables:
            return format_html('<span class="text-secondary">{}</span>', _("none"))
        shown = format_html_join(", ", "<code>{}</code>", ((name,) for name in record.tables[:_SHOWN_TABLES]))
        more = len(record.tables) - _SHOWN_TABLES
        return format_html("{}{}", shown, _(" and %(more)s more") % {"more": more} if more > 0 else "")

    def render_size(self, record: Usage) -> SafeString:
        return byte_size(record.size)

    def render_created_at(self, record: Usage) -> SafeString:
        return time(record.bucket.created_at, "date")


class RuleTable(tables.Table):  # type: ignore[misc]
    """The rules of a bucket, and how their events fare."""

    name = tables.Column(accessor="rule__name", verbose_name=gettext_lazy("Rule"))
    events = CellColumn(template_name="catalog/_rule_events.html", verbose_name=gettext_lazy("Events"), orderable=False)
    queue = tables.Column(
        accessor="rule__queue", verbose_name=gettext_lazy("Queue"), linkify=("queues.detail", [A("rule__queue")])
    )
    waiting = tables.Column(verbose_name=gettext_lazy("Waiting"), attrs=column("num-cell"))
    delivered = tables.Column(verbose_name=gettext_lazy("Delivered in 24 h"), attrs=column("num-cell"))
    failed = CellColumn(template_name="catalog/_rule_failed.html", verbose_name=gettext_lazy("Failed"), orderable=False)
    actions = CellColumn(
        template_name="catalog/_rule_actions.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "name"


class EntryTable(tables.Table):  # type: ignore[misc]
    """Folders and files of a folder."""

    name = tables.Column(verbose_name=gettext_lazy("Name"))
    size = tables.Column(verbose_name=gettext_lazy("Size"), attrs=column("num-cell"), empty_values=())
    modified = tables.Column(verbose_name=gettext_lazy("Changed"), empty_values=())
    actions = CellColumn(
        template_name="catalog/_file_actions.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    def render_name(self, record: Entry) -> SafeString:
        if record.size is not None:
            return format_html('<span class="lake-file">{}{}</span>', icon("file-text"), record.name)
        bucket, _unused, key = record.location.removeprefix("oss://").partition("/")
        url = f"{reverse('sql.bucket', args=[bucket])}?{urlencode({'folder': key.strip('/')})}"
        return format_html('<a class="name lake-file" href="{}">{}{}</a>', url, icon("folder"), record.name)

    def render_size(self, record: Entry) -> SafeString | str:
        return "" if record.size is None else byte_size(record.size)

    def render_modified(self, record: Entry) -> SafeString | str:
        return ago(record.modified) if record.modified else ""
