"""What the platform's pages ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms

from console.accounts.models import Organization, Tenant
from console.platform import queries


class FilterForm(forms.Form):
    """All optional; what is not valid is not applied."""

    q = forms.CharField(
        label="Search",
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Name or ID of the account"}),
    )
    organization = forms.ChoiceField(label="Organization", required=False)
    enabled = forms.ChoiceField(
        label="State", required=False, choices=[("", "Any state"), ("true", "Enabled"), ("false", "Disabled")]
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Any organization"), *queries.organization_choices()]
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

    organization = forms.ChoiceField(label="Organization")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["organization"].choices = queries.organization_choices()  # type: ignore[attr-defined]

    def clean_organization(self) -> Organization | None:
        """The row of the choice."""
        return queries.organization(int(self.cleaned_data["organization"]))


class AccountForm(OrganizationChoice):
    """A new tenant account. Its administrator's first password is drawn, not chosen."""

    name = forms.CharField(
        label="Name",
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text="2 to 32 lower-case letters, digits, - or _. Its users sign in as name@account; it never changes.",
    )
    field_order = ["name", "organization"]


class NameForm(forms.Form):
    """The name of an organization or a resource set."""

    name = forms.CharField(label="Name", max_length=64, widget=forms.TextInput(attrs={"autocomplete": "off"}))


class OrganizationForm(NameForm):
    """A new organization, and where."""

    parent = forms.ChoiceField(label="Below", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Nothing: a level-1 organization"), *queries.organization_choices()]
        self.fields["parent"].choices = choices  # type: ignore[attr-defined]

    def clean_parent(self) -> Organization | None:
        """The row of the choice."""
        chosen = self.cleaned_data["parent"]
        return queries.organization(int(chosen)) if chosen else None


class KeyForm(forms.Form):
    """The account that a new AccessKey of an organization acts for."""

    tenant = forms.ModelChoiceField(
        label="Acts for the account", queryset=Tenant.objects.none(), to_field_name="name", empty_label=None
    )

    def __init__(self, *args: Any, organization: Organization, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].queryset = queries.accounts_of(organization)  # type: ignore[attr-defined]


class ConfirmForm(forms.Form):
    """A dangerous act: the name must be typed."""

    typed = forms.CharField(max_length=64, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}))

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["typed"].label = f"Type {name} to confirm"
        self._name = name

    def clean_typed(self) -> str:
        """Exactly the name."""
        typed: str = self.cleaned_data["typed"].strip()
        if typed != self._name:
            raise forms.ValidationError(f"Type {self._name} to confirm.")
        return typed
