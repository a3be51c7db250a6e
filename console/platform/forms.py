"""What the platform's pages ask for. The rules are the services'."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.accounts.models import Organization, Tenant
from console.platform import queries
from console.rights.limits import KINDS
from console.web import text as sizes
from console.web.languages import gettext_lazy

#: By the unit of a limit: its label.
_RATES = {"/s": gettext_lazy("%(what)s a second"), "/min": gettext_lazy("%(what)s a minute")}


class FilterForm(forms.Form):
    """All optional; what is not valid is not applied."""

    q = forms.CharField(
        label=gettext_lazy("Search"),
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": gettext_lazy("Name or ID of the account")}),
    )
    organization = forms.ChoiceField(label=gettext_lazy("Organization"), required=False)
    enabled = forms.ChoiceField(
        label=gettext_lazy("State"),
        required=False,
        choices=[
            ("", gettext_lazy("Any state")),
            ("true", gettext_lazy("Enabled")),
            ("false", gettext_lazy("Disabled")),
        ],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", _("Any organization")), *queries.organization_choices()]
        self.fields["organization"].choices = choices  # type: ignore[attr-defined]

    def wanted(self) -> dict[str, Any]:
        """The valid filters as arguments of `queries.accounts`."""
        self.is_valid()
        chosen, enabled = self.cleaned_data.get("organization"), self.cleaned_data.get("enabled")
        return {
            "text": self.cleaned_data.get("q", ""),
            "organization": queries.organization(int(chosen)) if chosen else None,
            "enabled": enabled == "true" if enabled else None,
        }


class OrganizationChoice(forms.Form):
    """One organization of the tree."""

    organization = forms.ChoiceField(label=gettext_lazy("Organization"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["organization"].choices = queries.organization_choices()  # type: ignore[attr-defined]

    def clean_organization(self) -> Organization | None:
        """The row of the choice."""
        return queries.organization(int(self.cleaned_data["organization"]))


class AccountForm(OrganizationChoice):
    """A new tenant account. Its administrator's first password is drawn, not chosen."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=gettext_lazy(
            "2 to 32 lower-case letters, digits, - or _. Its users sign in as name@account; it never changes."
        ),
    )
    field_order = ["name", "organization"]


class NameForm(forms.Form):
    """The name of an organization or a resource set."""

    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=64, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )


class OrganizationForm(NameForm):
    """A new organization, and where."""

    parent = forms.ChoiceField(label=gettext_lazy("Parent organization"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", _("None: a level-1 organization")), *queries.organization_choices()]
        self.fields["parent"].choices = choices  # type: ignore[attr-defined]

    def clean_parent(self) -> Organization | None:
        """The row of the choice."""
        chosen = self.cleaned_data["parent"]
        return queries.organization(int(chosen)) if chosen else None


class KeyForm(forms.Form):
    """The account that a new AccessKey of an organization acts for."""

    tenant = forms.ModelChoiceField(
        label=gettext_lazy("Acts for the account"),
        queryset=Tenant.objects.none(),
        to_field_name="name",
        empty_label=None,
    )

    def __init__(self, *args: Any, organization: Organization, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].queryset = queries.accounts_of(organization)  # type: ignore[attr-defined]


class SizeField(forms.CharField):
    """A number of bytes, as `512 MiB` or in digits; None when nothing is written."""

    def clean(self, value: Any) -> int | None:
        """Bytes. Raises ValidationError for what is no size."""
        text = super().clean(value).strip()
        if not text:
            return None
        found = re.fullmatch(r"(\d{1,16}(?:\.\d{1,6})?)\s*([A-Za-z]*)", text, re.ASCII)
        units = {name.upper(): size for name, size in sizes.UNITS.items()} | {"": 1}
        unit = units.get(found[2].upper()) if found else None
        if found is None or unit is None:
            raise forms.ValidationError(_("Write a number with B, KiB, MiB, GiB or TiB, such as 512 MiB."))
        return int(Decimal(found[1]) * unit)

    def prepare_value(self, value: Any) -> Any:
        """Bytes as the largest unit that holds them exactly."""
        if not isinstance(value, int):
            return value
        exact = (f"{value // size} {unit}" for unit, size in sizes.UNITS.items() if value and value % size == 0)
        return next(exact, "0")


class LimitsForm(forms.Form):
    """What an account may use of the embedded brokers: nothing written is the default, 0 no limit."""

    def __init__(self, *args: Any, defaults: dict[str, int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for kind in KINDS:
            field: forms.Field
            field = SizeField(required=False, max_length=24) if kind.size else forms.IntegerField(required=False)
            default = field.prepare_value(defaults[kind.name]) if defaults[kind.name] else _("no limit")
            field.label = _RATES.get(kind.unit, "%(what)s") % {"what": kind.label}
            field.widget = forms.TextInput(
                attrs={
                    "placeholder": _("Default: %(default)s") % {"default": default},
                    "autocomplete": "off",
                    "inputmode": "text",
                }
            )
            self.fields[kind.name] = field


class ConfirmForm(forms.Form):
    """A dangerous act: the name must be typed."""

    typed = forms.CharField(max_length=64, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}))

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["typed"].label = _("Type %(name)s to confirm") % {"name": name}
        self._name = name

    def clean_typed(self) -> str:
        """Exactly the name."""
        typed: str = self.cleaned_data["typed"].strip()
        if typed != self._name:
            raise forms.ValidationError(_("Type %(name)s to confirm.") % {"name": self._name})
        return typed
