"""Lists of alarms: rules, who is told, and what happened."""

from __future__ import annotations

import django_tables2 as tables

from console.alarms.models import Alarm, Recipient, Rule
from console.web.languages import gettext_lazy, pgettext_lazy
from console.web.paging import CellColumn, NamedTable, column

_NUMBER = column("num-cell num")


class RuleTable(NamedTable):
    """Name, condition, whether it fires, and who is told."""

    name = CellColumn(template_name="alarms/_rule_cell.html", verbose_name=gettext_lazy("Rule"))
    condition = CellColumn(
        template_name="alarms/_condition_cell.html", verbose_name=gettext_lazy("Condition"), orderable=False
    )
    severity = CellColumn(
        '{% include "alarms/_severity.html" with severity=record.severity word=record.get_severity_display %}',
        verbose_name=gettext_lazy("Severity"),
    )
    firing = CellColumn(template_name="alarms/_firing_cell.html", verbose_name=gettext_lazy("State"))

    class Meta:
        model = Rule
        fields = ()
        order_by = "name"


class AlarmTable(NamedTable):
    """What fired, when, and until when."""

    sentence = CellColumn(template_name="alarms/_alarm_cell.html", verbose_name=gettext_lazy("Alarm"), orderable=False)
    severity = CellColumn(
        '{% include "alarms/_severity.html" with severity=record.severity word=record.get_severity_display %}',
        verbose_name=gettext_lazy("Severity"),
    )
    fired_at = CellColumn("{% load gantry %}{% time record.fired_at %}", verbose_name=gettext_lazy("Fired"))
    ended_at = CellColumn(template_name="alarms/_ended_cell.html", verbose_name=gettext_lazy("Ended"), orderable=False)

    class Meta:
        model = Alarm
        fields = ()
        order_by = "-fired_at"


class RecipientTable(tables.Table):  # type: ignore[misc]
    """Who can be told, and what became of the last notice."""

    name = CellColumn(template_name="alarms/_recipient_cell.html", verbose_name=gettext_lazy("Recipient"))
    kind = CellColumn("{{ record.get_kind_display }}", verbose_name=pgettext_lazy("way of sending", "By"))
    used = tables.Column(verbose_name=gettext_lazy("Rules"), attrs=_NUMBER)
    last = CellColumn(template_name="alarms/_last_cell.html", verbose_name=gettext_lazy("Last notice"), orderable=False)
    act = CellColumn(template_name="alarms/_recipient_actions.html", verbose_name="", orderable=False)

    class Meta:
        model = Recipient
        fields = ()
        order_by = "name"
