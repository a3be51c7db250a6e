"""The lists of topics and groups. Rates come from the sampler's snapshot, never from the broker."""

from __future__ import annotations

from typing import Any

import django_tables2 as tables
from django.utils.safestring import SafeString

from brokercore.names import dead_letter_topic
from console.instances.models import Instance
from console.topics.live import Rates
from console.topics.models import Group, Topic
from console.web.paging import CellColumn, column
from console.web.templatetags.gantry import number

_NUMBER = column("num-cell")
_CREATED = "{% load gantry %}{% time record.created_at 'date' %}"


class _Rated(tables.Table):  # type: ignore[misc]
    """`rates` are those of the page that is shown."""

    def __init__(self, *args: Any, instance: Instance, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance = instance
        self.rates = Rates(None, {}, {}, {}, {})


class TopicTable(_Rated):
    """Name, type, mode and what flows in."""

    name = CellColumn(template_name="topics/_topic_cell.html", verbose_name="Topic")
    order_type = CellColumn(template_name="topics/_type_cell.html", verbose_name="Message type")
    perm = CellColumn(template_name="topics/_perm_cell.html", verbose_name="Mode")
    queues = tables.Column(verbose_name="Queues", attrs=_NUMBER)
    in_tps = tables.Column(verbose_name="In, messages/s", empty_values=(), orderable=False, attrs=_NUMBER)
    stored = tables.Column(verbose_name="Stored", empty_values=(), orderable=False, attrs=_NUMBER)
    created_at = CellColumn(_CREATED, verbose_name="Created")

    class Meta:
        order_by = "name"

    def render_in_tps(self, record: Topic) -> SafeString:
        return number(self.rates.in_tps.get(record.physical_name))

    def render_stored(self, record: Topic) -> SafeString:
        return number(self.rates.stored.get(record.physical_name))


class GroupTable(_Rated):
    """Group ID, what it consumes and how far it is behind."""

    group_id = CellColumn(template_name="topics/_group_cell.html", verbose_name="Group ID")
    read_enabled = CellColumn(template_name="topics/_reading_cell.html", verbose_name="Consumption")
    shared = CellColumn(template_name="topics/_shared_cell.html", verbose_name="Used by")
    out_tps = tables.Column(verbose_name="Out, messages/s", empty_values=(), orderable=False, attrs=_NUMBER)
    backlog = tables.Column(verbose_name="Backlog", empty_values=(), orderable=False, attrs=_NUMBER)
    dead_letters = tables.Column(verbose_name="Dead letters", empty_values=(), orderable=False, attrs=_NUMBER)
    created_at = CellColumn(_CREATED, verbose_name="Created")

    class Meta:
        order_by = "group_id"

    def render_out_tps(self, record: Group) -> SafeString:
        return number(self.rates.out_tps.get(record.physical_name))

    def render_backlog(self, record: Group) -> SafeString:
        return number(self.rates.backlog.get(record.physical_name))

    def render_dead_letters(self, record: Group) -> SafeString:
        return number(
            self.rates.stored.get(dead_letter_topic(record.physical_name), 0 if self.rates.sampled_at else None)
        )


class SharedByMeTable(tables.Table):  # type: ignore[misc]
    """What the account shared: topic, receiver, right, since when."""

    topic = CellColumn(template_name="grants/_topic_cell.html", verbose_name="Topic", order_by=("topic__name", "pk"))
    receiver = CellColumn(
        template_name="grants/_receiver_cell.html",
        verbose_name="Shared with",
        order_by=("tenant__name", "user__username"),
    )
    relation = CellColumn(template_name="grants/_relation_cell.html", verbose_name="Right")
    created_at = CellColumn(_CREATED, verbose_name="Since")
    actions = CellColumn(
        template_name="grants/_revoke_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "topic"


class TopicGrantTable(SharedByMeTable):
    """The grants of one topic."""

    topic = None  # type: ignore[assignment]

    class Meta:
        order_by = "receiver"


class SharedWithMeTable(tables.Table):  # type: ignore[misc]
    """What other accounts (or the own one) shared with the visitor."""

    topic = CellColumn(template_name="grants/_topic_cell.html", verbose_name="Topic", order_by=("topic__name", "pk"))
    owner = CellColumn(
        template_name="grants/_owner_cell.html", verbose_name="Owner", order_by="topic__instance__tenant__name"
    )
    relation = CellColumn(template_name="grants/_relation_cell.html", verbose_name="Right")
    created_at = CellColumn(_CREATED, verbose_name="Since")
    actions = CellColumn(
        template_name="grants/_use_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "topic"
