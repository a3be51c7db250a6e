"""What the pages of change tracking ask for."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.tracking.models import Kind, Tls, TrackingTask
from console.tracking.services import MOST_DAYS, Values
from console.web.languages import gettext_lazy

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_CODE = _PLAIN | {"class": "font-monospace"}


class ConnectionForm(forms.Form):
    """A database, and what of it is captured."""

    kind = forms.ChoiceField(label=gettext_lazy("Database"), choices=Kind.choices)
    host = forms.CharField(
        label=gettext_lazy("Host"),
        max_length=253,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("Name or IP address, public or one that the platform's administrator allows."),
    )
    port = forms.IntegerField(
        label=gettext_lazy("Port"),
        min_value=1,
        max_value=65_535,
        help_text=gettext_lazy("Usually 5432 for PostgreSQL, and 3306 for MySQL."),
    )
    database = forms.CharField(
        label=gettext_lazy("Name of the database"),
        max_length=63,
        required=False,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("For PostgreSQL. For MySQL the patterns below name databases."),
    )
    user = forms.CharField(
        label=gettext_lazy("Account"),
        max_length=80,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy(
            "PostgreSQL: with REPLICATION, as the owner of the tables. MySQL: with REPLICATION "
            "SLAVE, REPLICATION CLIENT and SELECT."
        ),
    )
    password = forms.CharField(
        label=gettext_lazy("Password"),
        max_length=256,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("It is stored encrypted, and never shown again."),
    )
    tables = forms.CharField(
        label=gettext_lazy("Tables"),
        max_length=16_384,
        widget=forms.Textarea(attrs=_CODE | {"rows": 3, "placeholder": "public.*"}),
        help_text=gettext_lazy("A pattern a line: schema.table, in MySQL database.table; * stands for any characters."),
    )
    tls = forms.ChoiceField(label=gettext_lazy("Connection"), choices=Tls.choices, initial=Tls.REQUIRED)
    ca = forms.CharField(
        label=gettext_lazy("Certificates of authorities"),
        required=False,
        max_length=64 * 1024,
        widget=forms.Textarea(attrs=_CODE | {"rows": 3, "placeholder": "-----BEGIN CERTIFICATE-----"}),
        help_text=gettext_lazy("PEM, for a certificate that is verified; left empty: those of this machine."),
    )
    snapshot = forms.BooleanField(
        label=gettext_lazy("Begin with the rows that are there"),
        required=False,
        help_text=gettext_lazy("Each comes once, as an event READ."),
    )
    retention_days = forms.IntegerField(
        label=gettext_lazy("Keep events, days"),
        min_value=1,
        max_value=MOST_DAYS,
        initial=7,
        help_text=gettext_lazy("1 to %(most_days)s days.", most_days=MOST_DAYS),
    )

    @property
    def values(self) -> Values:
        """What was said, as services take it."""
        said = self.cleaned_data
        return {
            "host": said["host"], "port": said["port"], "database": said["database"], "user": said["user"],
            "password": said["password"], "tables": said["tables"].split(), "tls": Tls(said["tls"]), "ca": said["ca"],
            "snapshot": said["snapshot"], "retention_days": said["retention_days"],
        }  # fmt: skip

    @property
    def chosen_kind(self) -> Kind:
        """The kind that was chosen."""
        return Kind(self.cleaned_data["kind"])


class TaskForm(ConnectionForm):
    """A new task."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN | {"autofocus": True}),
        help_text=gettext_lazy("1 to 64 letters, digits, hyphens and underscores."),
    )
    field_order = ["name"]


class EditForm(TaskForm):
    """A task that is there: its kind and its database stay what they are."""

    def __init__(self, data: Any = None, *, task: TrackingTask) -> None:
        names = ("name", "kind", "host", "port", "database", "user", "tables", "tls", "ca", "snapshot")
        initial = {name: getattr(task, name) for name in (*names, "retention_days")}
        super().__init__(data, initial=initial)
        for name in ("kind", "database"):
            self.fields[name].disabled = True
        self.fields["password"].required = False
        self.fields["password"].help_text = _(
            "Left empty, it stays; with another host, account or encryption it is typed again."
        )


class ResumeForm(forms.Form):
    """How a task goes on."""

    anew = forms.BooleanField(required=False)


class GroupForm(forms.Form):
    """A new consumer group."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN | {"autofocus": True}),
        help_text=gettext_lazy("1 to 64 letters, digits, points, hyphens and underscores."),
    )
    account = forms.CharField(
        label=gettext_lazy("Account"), max_length=64, widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("A name of your choice, with which who reads by the group signs in."),
    )  # fmt: skip
    password = forms.CharField(
        label=gettext_lazy("Password"),
        min_length=8,
        max_length=256,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("8 characters at least. Who reads by the group types it; it is never shown again."),
    )
