"""The lists of topics and groups. Rates come from the sampler's snapshot, never from the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import django_tables2 as tables
from django.db.models import QuerySet
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from brokercore.names import DEAD_LETTER_PREFIX, dead_letter_topic, group_of
from console.instances.models import Instance
from console.topics.live import GroupHour, Rates, figure, rates
from console.topics.models import Group, Topic
from console.web import exports
from console.web.htmx import HtmxRequest
from console.web.languages import gettext_lazy, pgettext_lazy
from console.web.paging import CellColumn, FetchedRows, FigureColumn, ListTable, column
from console.web.templatetags.gantry import number
from console.web.templatetags.sparks import spark

_NUMBER, _SPARK = column("num-cell"), column("spark-cell")
#: Left out where a table has no room for it: the thing's own page has it, and so has a card.
_WIDE = column("wide-cell")
_CREATED = "{% load gantry %}{% time record.created_at 'date' %}"


def _dead_letters(figures: Rates, group: str) -> int | None:
    return figures.stored.get(dead_letter_topic(group), 0 if figures.sampled_at else None)


def sortable_topics(request: HtmxRequest, instance: Instance, found: QuerySet[Topic]) -> QuerySet[Topic] | FetchedRows:
    """The rows of a list of topics: where it is sorted by a figure, with that figure of all of them."""
    return _sortable(
        request, found, {what: partial(figure.get(), instance.cluster, what) for what in ("in_tps", "stored")}
    )


def sortable_groups(request: HtmxRequest, instance: Instance, found: QuerySet[Group]) -> QuerySet[Group] | FetchedRows:
    """As `sortable_topics`, of groups."""
    figures: dict[str, Callable[[], dict[str, float]]] = {
        what: partial(figure.get(), instance.cluster, what) for what in ("out_tps", "backlog")
    }
    return _sortable(request, found, figures | {"dead_letters": lambda: _letters(instance)})


def _letters(instance: Instance) -> dict[str, float]:
    """Dead letters by group."""
    stored = figure.get()(instance.cluster, "stored")
    return {group_of(topic): number for topic, number in stored.items() if topic.startswith(DEAD_LETTER_PREFIX)}


def _sortable(
    request: HtmxRequest, found: QuerySet[Any], figures: Mapping[str, Callable[[], dict[str, float]]]
) -> QuerySet[Any] | FetchedRows:
    sorted_by = {column.removeprefix("-") for column in request.GET.getlist("sort")}
    wanted = {column: figures[column]() for column in figures if column in sorted_by}
    return FetchedRows(found, "physical_name", wanted) if wanted else found


def _used_by(group: Group) -> str:
    """As the list has it in a badge: templates/topics/_shared_cell.html."""
    if group.shared:
        return _("All users")
    return _("Its creator") if group.creator and not group.creator.is_tenant_admin else _("Account only")


class _Rated(ListTable):
    """`rates` and `hours` are those of the page that is shown."""

    def __init__(self, *args: Any, instance: Instance, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance = instance
        self.rates = Rates(None, {}, {}, {}, {})
        self.hours: Mapping[str, Any] = {}


class TopicTable(_Rated):
    """Name, type, mode and what flows in."""

    name = CellColumn(template_name="topics/_topic_cell.html", verbose_name=gettext_lazy("Topic"))
    order_type = CellColumn(template_name="topics/_type_cell.html", verbose_name=gettext_lazy("Message type"))
    perm = CellColumn(template_name="topics/_perm_cell.html", verbose_name=gettext_lazy("Mode"))
    queues = tables.Column(verbose_name=gettext_lazy("Queues"), attrs=_NUMBER)
    in_tps = FigureColumn(gettext_lazy("In, messages/s"))
    hour = tables.Column(verbose_name="1 h", empty_values=(), orderable=False, attrs=_SPARK)
    stored = FigureColumn(pgettext_lazy("count", "Stored"))
    created_at = CellColumn(_CREATED, verbose_name=gettext_lazy("Created"), attrs=_WIDE)

    class Meta:
        order_by = "name"

    file_columns = (
        "topic", "remark", "message_type", "mode", "queues", "in_messages_per_second", "stored", "created_at",
    )  # fmt: skip

    def measure(self, records: Sequence[Topic]) -> None:
        self.rates = rates(self.instance.cluster, topics=[topic.physical_name for topic in records])

    def file_row(self, record: Topic) -> tuple[object, ...]:
        return (
            record.name,
            record.remark,
            record.get_order_type_display(),
            record.get_perm_display(),
            record.queues,
            exports.figure(self.rates.in_tps.get(record.physical_name)),
            exports.figure(self.rates.stored.get(record.physical_name)),
            exports.moment(record.created_at),
        )

    def render_in_tps(self, record: Topic) -> SafeString:
        return number(self.rates.in_tps.get(record.physical_name))

    def render_hour(self, record: Topic) -> SafeString:
        return spark(self.hours.get(record.physical_name, ()), "blue")

    def render_stored(self, record: Topic) -> SafeString:
        return number(self.rates.stored.get(record.physical_name))


class GroupTable(_Rated):
    """Group ID, what it consumes and how far it is behind."""

    group_id = CellColumn(template_name="topics/_group_cell.html", verbose_name=gettext_lazy("Group ID"))
    read_enabled = CellColumn(template_name="topics/_reading_cell.html", verbose_name=gettext_lazy("Consumption"))
    shared = CellColumn(template_name="topics/_shared_cell.html", verbose_name=gettext_lazy("Used by"))
    out_tps = FigureColumn(gettext_lazy("Out, messages/s"))
    backlog = FigureColumn(gettext_lazy("Backlog"))
    hour = tables.Column(verbose_name="1 h", empty_values=(), orderable=False, attrs=_SPARK)
    dead_letters = FigureColumn(gettext_lazy("Dead letters"))
    created_at = CellColumn(_CREATED, verbose_name=gettext_lazy("Created"), attrs=_WIDE)

    class Meta:
        order_by = "group_id"

    file_columns = (
        "group", "remark", "consumption", "used_by", "out_messages_per_second", "backlog", "dead_letters", "created_at",
    )  # fmt: skip

    def measure(self, records: Sequence[Group]) -> None:
        names = [group.physical_name for group in records]
        self.rates = rates(self.instance.cluster, topics=[dead_letter_topic(name) for name in names], groups=names)

    def file_row(self, record: Group) -> tuple[object, ...]:
        return (
            record.group_id,
            record.remark,
            _("Enabled") if record.read_enabled else _("Stopped"),
            _used_by(record),
            exports.figure(self.rates.out_tps.get(record.physical_name)),
            exports.figure(self.rates.backlog.get(record.physical_name)),
            exports.figure(_dead_letters(self.rates, record.physical_name)),
            exports.moment(record.created_at),
        )

    @property
    def standing(self) -> set[str]:
        """Physical names of the groups for which messages wait and that consume none, as far as that is known."""
        return {name for name, waiting in self.rates.backlog.items() if waiting and self.rates.out_tps.get(name) == 0}

    def render_out_tps(self, record: Group) -> SafeString:
        return number(self.rates.out_tps.get(record.physical_name))

    def render_backlog(self, record: Group) -> SafeString:
        return number(self.rates.backlog.get(record.physical_name))

    def render_hour(self, record: Group) -> SafeString:
        hour: GroupHour | None = self.hours.get(record.physical_name)
        return spark(hour.backlog if hour else (), "red" if record.physical_name in self.standing else "secondary")

    def render_dead_letters(self, record: Group) -> SafeString:
        return number(_dead_letters(self.rates, record.physical_name))


class SharedByMeTable(tables.Table):  # type: ignore[misc]
    """What the account shared: topic, receiver, right, since when."""

    topic = CellColumn(
        template_name="grants/_topic_cell.html", verbose_name=gettext_lazy("Topic"), order_by=("topic__name", "pk")
    )
    receiver = CellColumn(
        template_name="grants/_receiver_cell.html",
        verbose_name=gettext_lazy("Shared with"),
        order_by=("tenant__name", "user__username"),
    )
    relation = CellColumn(template_name="grants/_relation_cell.html", verbose_name=gettext_lazy("Right"))
    created_at = CellColumn(_CREATED, verbose_name=gettext_lazy("Since"))
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

    topic = CellColumn(
        template_name="grants/_topic_cell.html", verbose_name=gettext_lazy("Topic"), order_by=("topic__name", "pk")
    )
    owner = CellColumn(
        template_name="grants/_owner_cell.html",
        verbose_name=gettext_lazy("Owner"),
        order_by="topic__instance__tenant__name",
    )
    relation = CellColumn(template_name="grants/_relation_cell.html", verbose_name=gettext_lazy("Right"))
    created_at = CellColumn(_CREATED, verbose_name=gettext_lazy("Since"))
    actions = CellColumn(
        template_name="grants/_use_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "topic"
