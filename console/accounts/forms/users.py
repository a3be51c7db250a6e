"""What the pages of users ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.accounts import queries, user_queries
from console.accounts.models import Policy, Tenant, UserGroup
from console.accounts.user_queries import UserFilter

#: Boxes to tick at once; whatever else there is can be attached on the user's own page.
BOXES = 50
_SELECTED = format_html(" {}", "selected")


class NameSelect(forms.Select):
    """A list of names, written without a template for each of its hundreds of options."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        options = format_html_join(
            "",
            '<option value="{}"{}>{}</option>',
            ((key, _SELECTED if str(key) == (value or "") else "", label) for key, label in self.choices),
        )
        attributes = flatatt(self.build_attrs(self.attrs, {"name": name} | (attrs or {})))
        return format_html("<select{}>{}</select>", attributes, options)


class PolicyChoice(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Boxes to tick, each with what the policy allows."""

    def label_from_instance(self, obj: Policy) -> str:
        return f"{obj.name}: {obj.description}" if obj.description else obj.name


class PasswordForm(forms.Form):
    """A first password, drawn or chosen by whoever administers the user."""

    password = forms.CharField(
        label="First password",
        max_length=32,
        strip=False,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Leave it empty to have one drawn and shown once. Or choose 10 to 32 characters of at least two of: "
        "letters, digits, special characters. It must be changed at the first sign-in.",
    )


class NamesForm(forms.Form):
    """What a user is called."""

    display_name = forms.CharField(
        label="Display name", max_length=150, required=False, help_text="Of the person or the program, for people."
    )


class ProfileForm(NamesForm):
    """What can be changed about a user."""

    email = forms.EmailField(
        label="E-mail address", max_length=254, required=False, help_text="For people. Gantry sends no mail."
    )


class UserForm(NamesForm, PasswordForm):
    """A new RAM user."""

    name = forms.CharField(
        label="Name",
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text="Letters, digits, dots, - or _. The user signs in as name@account.",
    )
    groups = forms.ModelMultipleChoiceField(
        label="User groups", queryset=UserGroup.objects.none(), required=False, widget=forms.CheckboxSelectMultiple
    )
    policies = PolicyChoice(
        label="Policies",
        queryset=Policy.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Without a policy, its own or of a group, a user may do nothing.",
    )
    field_order = ["name", "display_name", "password", "groups", "policies"]

    def __init__(self, *args: Any, tenant: Tenant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self.fields["policies"], queries.policies(tenant))
        _offer(self.fields["groups"], user_queries.groups(tenant))
        if not self.fields["groups"].choices:  # type: ignore[attr-defined]
            del self.fields["groups"]


class UserFilterForm(forms.Form):
    """What narrows the list of users. All optional; what is not valid is not applied and says so."""

    q = forms.CharField(
        label="Search",
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Name or user ID"}),
    )
    signed_in = forms.ChoiceField(
        label="Signed in",
        required=False,
        choices=[("", "At any time"), ("lately", "In the last 30 days"), ("earlier", "Longer ago"), ("never", "Never")],
    )
    state = forms.ChoiceField(
        label="Status", required=False, choices=[("", "Any"), ("enabled", "Enabled"), ("disabled", "Disabled")]
    )
    mfa = forms.ChoiceField(
        label="MFA",
        required=False,
        choices=[("", "Any"), ("bound", "Device bound"), ("unbound", "No device"), ("required", "Required")],
    )
    group = forms.CharField(label="In group", required=False, widget=NameSelect)
    policy = forms.CharField(label="With policy", required=False, widget=NameSelect)

    def __init__(self, *args: Any, tenant: Tenant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        groups = self._named("group", user_queries.group_choices(tenant))
        self.fields["group"].widget.choices = [("", "Any"), *groups]
        policies = self._named("policy", user_queries.policy_choices(tenant))
        self.fields["policy"].widget.choices = [("", "Any"), ("-", "Without any policy"), *policies]

    @property
    def wanted(self) -> UserFilter:
        """The filters that are valid."""
        self.is_valid()
        named = ("signed_in", "state", "mfa", "group", "policy")
        values = {name: self.cleaned_data.get(name, "") for name in named}
        return UserFilter(text=self.cleaned_data.get("q", ""), **values)

    def _named(self, field: str, names: list[str]) -> list[tuple[str, str]]:
        """Choices of names. A page may link to one that is not among the first."""
        given = str(self.data.get(field, ""))
        return [(name, name) for name in dict.fromkeys([*names, *([given] if given not in ("", "-") else [])])]


def _offer(field: Any, rows: Any) -> None:
    """Take any of the rows, and show boxes for the first of them."""
    field.queryset = rows
    shown = list(rows[: BOXES + 1])
    field.choices = [(row.pk, field.label_from_instance(row)) for row in shown[:BOXES]]
    if len(shown) > BOXES:
        field.help_text = (
            f"{field.help_text} These are the first {BOXES}; the others are on the user's own page.".strip()
        )
