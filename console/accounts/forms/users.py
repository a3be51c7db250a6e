"""What the pages of users ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms

from console.accounts import queries
from console.accounts.models import Policy, Tenant


class PolicyChoice(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Boxes to tick, each with what the policy allows."""

    def label_from_instance(self, obj: Policy) -> str:
        return f"{obj.name}: {obj.description}" if obj.description else obj.name


class PoliciesForm(forms.Form):
    """The policies of a user."""

    policies = PolicyChoice(
        label="Policies",
        queryset=Policy.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Without a policy a user may do nothing.",
    )

    def __init__(self, *args: Any, tenant: Tenant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["policies"].queryset = queries.policies(tenant)  # type: ignore[attr-defined]


class PasswordForm(forms.Form):
    """A first password, chosen by whoever administers the user."""

    password = forms.CharField(
        label="First password",
        max_length=32,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="10 to 32 characters of at least two of: letters, digits, special characters. "
        "It must be changed at the next sign-in.",
    )


class UserForm(PoliciesForm, PasswordForm):
    """A new RAM user."""

    name = forms.CharField(
        label="Name",
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text="Letters, digits, dots, - or _. The user signs in as name@account.",
    )
    field_order = ["name", "password", "policies"]
