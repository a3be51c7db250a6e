"""Lists of alarms: rules, who is told, and what happened."""

from __future__ import annotations

import django_tables2 as tables

from console.alarms.models import Alarm, Recipient, Rule
from console.web.paging import CellColumn, column

_NUMBER = column("num-cell num")


class RuleTable(tables.Table):  # type: ignore[misc]
    """Name, condition, whether it fires, and who is told."""

    name = CellColumn(template_name="alarms/_rule_cell.html", verbose_name="Rule")
    condition = CellColumn(template_name="alarms/_condition_cell.html", verbose_name="Condition", orderable=False)
    severity = CellColumn(
        '{% include "alarms/_severity.html" with severity=record.severity word=record.get_severity_display %}',
        verbose_name="Severity",
    )
    firing = CellColumn(template_name="alarms/_firing_cell.html", verbose_name="State")

    class Meta:
        model = Rule
        fields = ()
        order_by = "name"


class AlarmTable(tables.Table):  # type: ignore[misc]
    """What fired, when, and until when."""

    sentence = CellColumn(template_name="alarms/_alarm_cell.html", verbose_name="Alarm", orderable=False)
    severity = CellColumn(
        '{% include "alarms/_severity.html" with severity=record.severity word=record.get_severity_display %}',
        verbose_name="Severity",
    )
    fired_at = CellColumn("{% load gantry %}{% time record.fired_at %}", verbose_name="Fired")
    ended_at = CellColumn(template_name="alarms/_ended_cell.html", verbose_name="Ended", orderable=False)

    class Meta:
        model = Alarm
        fields = ()
        order_by = "-fired_at"


class RecipientTable(tables.Table):  # type: ignore[misc]
    """Who can be told, and what became of the last notice."""

    name = CellColumn(template_name="alarms/_recipient_cell.html", verbose_name="Recipient")
    kind = CellColumn("{{ record.get_kind_display }}", verbose_name="By")
    used = tables.Column(verbose_name="Rules", attrs=_NUMBER)
    last = CellColumn(template_name="alarms/_last_cell.html", verbose_name="Last notice", orderable=False)
    act = CellColumn(template_name="alarms/_recipient_actions.html", verbose_name="", orderable=False)

    class Meta:
        model = Recipient
        fields = ()
        order_by = "name"
