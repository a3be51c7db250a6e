"""What the pages of adoption ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.accounts.models import Organization, Tenant
from console.adoption.models import Kind
from console.adoption.patterns import MOST
from console.adoption.queries import Choice
from console.web.languages import gettext_lazy

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_KINDS = [
    ("", gettext_lazy("Topics and groups")),
    (Kind.TOPIC, gettext_lazy("Topics")),
    (Kind.GROUP, gettext_lazy("Groups")),
]
NEW = "+"
"""Stands for an account that is made."""


class ChoiceForm(forms.Form):
    """Names by pattern."""

    include = forms.CharField(
        label=gettext_lazy("Names"),
        required=False,
        max_length=MOST,
        widget=forms.TextInput(attrs=_PLAIN | {"type": "search", "placeholder": "orders, or payments-*"}),
    )
    exclude = forms.CharField(
        label=gettext_lazy("But not"),
        required=False,
        max_length=MOST,
        widget=forms.TextInput(attrs=_PLAIN | {"type": "search", "placeholder": "*-test*"}),
    )
    kind = forms.ChoiceField(label=gettext_lazy("Kind"), required=False, choices=_KINDS)

    def choice(self, keys: list[str]) -> Choice:
        """What was chosen; a value that is not valid chooses nothing by itself."""
        self.is_valid()
        given = self.cleaned_data
        return Choice(given.get("include", ""), given.get("exclude", ""), given.get("kind", ""), tuple(keys))


class TargetForm(forms.Form):
    """Whose the names will be."""

    account = forms.ChoiceField(label=gettext_lazy("Account"))
    new_account = forms.CharField(
        label=gettext_lazy("Name of the new account"),
        required=False,
        max_length=32,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("For a new account only. Its administrator's first password is shown once."),
    )
    organization = forms.ModelChoiceField(
        label=gettext_lazy("Organization of the new account"),
        required=False,
        queryset=Organization.objects.order_by("name"),
    )
    instance_name = forms.CharField(
        label=gettext_lazy("Name of the instance"),
        required=False,
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("Of the instance without namespace, where the account has none on this cluster yet."),
    )

    def __init__(self, *args: Any, accounts: list[Tenant], may_create: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(account.name, account.name) for account in accounts]
        if may_create:
            choices.append((NEW, _("A new account")))
        else:
            del self.fields["new_account"], self.fields["organization"]
        self.fields["account"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """A new account has a name and an organization."""
        given: dict[str, Any] = super().clean() or {}
        if given.get("account") == NEW:
            for field in ("new_account", "organization"):
                if not given.get(field):
                    self.add_error(field, _("A new account needs it."))
        return given


class RuleForm(forms.Form):
    """A new rule."""

    include = forms.CharField(
        label=gettext_lazy("Names that belong to the account"),
        max_length=MOST,
        widget=forms.TextInput(attrs=_PLAIN | {"placeholder": "payments-*"}),
        help_text=gettext_lazy("* stands for any characters, ? for one. Several patterns are separated by spaces."),
    )
    exclude = forms.CharField(
        label=gettext_lazy("But not"), required=False, max_length=MOST, widget=forms.TextInput(attrs=_PLAIN)
    )
    kind = forms.ChoiceField(label=gettext_lazy("Kind"), required=False, choices=_KINDS)
    account = forms.ChoiceField(label=gettext_lazy("Account"))

    def __init__(self, *args: Any, accounts: list[Tenant], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["account"].choices = [(a.name, a.name) for a in accounts]  # type: ignore[attr-defined]
