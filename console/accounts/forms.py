"""What the pages of users, groups, policies and single sign-on ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from brokercore.policy import examine
from console.accounts import queries
from console.accounts.models import Policy, SingleSignOn, Tenant, UserGroup
from console.accounts.queries import UserFilter
from console.accounts.services import MAX_SESSION_S, MIN_SESSION_S
from console.web.languages import gettext_lazy

#: Boxes to tick at once; whatever else there is can be attached on the user's own page.
BOXES = 50
_SELECTED = format_html(" {}", "selected")

_SHOWN_PROBLEMS = 10
_NAME_BOX = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}


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
        return f"{obj.name}: {obj.shown_description}" if obj.description else obj.name


class PasswordForm(forms.Form):
    """A first password, drawn or chosen by whoever administers the user."""

    password = forms.CharField(
        label=gettext_lazy("First password"),
        max_length=32,
        strip=False,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy(
            "Leave it empty to generate one, which is shown once. Or enter 10 to 32 characters of at "
            "least two of: letters, digits, special characters. It must be changed at the first "
            "sign-in."
        ),
    )


class NamesForm(forms.Form):
    """What a user is called."""

    display_name = forms.CharField(
        label=gettext_lazy("Display name"),
        max_length=150,
        required=False,
        help_text=gettext_lazy("The name of the person or program, for people to read."),
    )


class ProfileForm(NamesForm):
    """What can be changed about a user."""

    email = forms.EmailField(
        label=gettext_lazy("E-mail address"),
        max_length=254,
        required=False,
        help_text=gettext_lazy("For information only: Gantry sends no mail."),
    )


class UserForm(NamesForm, PasswordForm):
    """A new RAM user."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=gettext_lazy("Letters, digits, dots, - or _. The user signs in as name@account."),
    )
    groups = forms.ModelMultipleChoiceField(
        label=gettext_lazy("User groups"),
        queryset=UserGroup.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    policies = PolicyChoice(
        label=gettext_lazy("Policies"),
        queryset=Policy.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Without a policy, of its own or of a group, a user may do nothing."),
    )
    field_order = ["name", "display_name", "password", "groups", "policies"]

    def __init__(self, *args: Any, tenant: Tenant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self.fields["policies"], queries.policies(tenant))
        _offer(self.fields["groups"], queries.groups(tenant))
        if not self.fields["groups"].choices:  # type: ignore[attr-defined]
            del self.fields["groups"]


class UserFilterForm(forms.Form):
    """What narrows the list of users. All optional; what is not valid is not applied and says so."""

    q = forms.CharField(
        label=gettext_lazy("Search"),
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": gettext_lazy("Name or user ID")}),
    )
    signed_in = forms.ChoiceField(
        label=gettext_lazy("Signed in"),
        required=False,
        choices=[
            ("", gettext_lazy("At any time")),
            ("lately", gettext_lazy("In the last 30 days")),
            ("earlier", gettext_lazy("Longer ago")),
            ("never", gettext_lazy("Never")),
        ],
    )
    state = forms.ChoiceField(
        label=gettext_lazy("Status"),
        required=False,
        choices=[
            ("", gettext_lazy("Any")),
            ("enabled", gettext_lazy("Enabled")),
            ("disabled", gettext_lazy("Disabled")),
        ],
    )
    mfa = forms.ChoiceField(
        label=gettext_lazy("MFA"),
        required=False,
        choices=[
            ("", gettext_lazy("Any")),
            ("bound", gettext_lazy("Device bound")),
            ("unbound", gettext_lazy("No device")),
            ("required", gettext_lazy("Required")),
        ],
    )
    group = forms.CharField(label=gettext_lazy("In group"), required=False, widget=NameSelect)
    policy = forms.CharField(label=gettext_lazy("With policy"), required=False, widget=NameSelect)

    def __init__(self, *args: Any, tenant: Tenant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        groups = self._named("group", queries.group_choices(tenant))
        self.fields["group"].widget.choices = [("", _("Any")), *groups]
        policies = self._named("policy", queries.policy_choices(tenant))
        self.fields["policy"].widget.choices = [("", _("Any")), ("-", _("Without any policy")), *policies]

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
            _("%(help_text)s These are the first %(boxes)s; the others are on the user's own page.")
            % {"help_text": field.help_text, "boxes": BOXES}
        ).strip()


class GroupForm(forms.Form):
    """Name and purpose of a user group."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=gettext_lazy("Letters, digits, dots or -."),
    )
    description = forms.CharField(label=gettext_lazy("Description"), max_length=256, required=False)


class DocumentField(forms.CharField):
    """A policy (or trust policy) as JSON text; cleaned to the document. Every problem names its line."""

    def __init__(self, *, trust: bool = False, **more: Any) -> None:
        attrs = {"rows": 18, "wrap": "off", "spellcheck": "false", "autocomplete": "off", "class": "policy-text"}
        super().__init__(strip=False, widget=forms.Textarea(attrs=attrs), **more)
        self.trust = trust

    def clean(self, value: Any) -> Any:
        """The document. Raises ValidationError with a sentence a problem."""
        found = examine(super().clean(value), trust=self.trust)
        if found.problems:
            raise ValidationError([str(problem) for problem in found.problems[:_SHOWN_PROBLEMS]])
        return found.document


class PolicyForm(forms.Form):
    """What a custom policy says."""

    description = forms.CharField(label=gettext_lazy("Description"), max_length=256, required=False)
    document = DocumentField(label=gettext_lazy("Document"))


class NewPolicyForm(PolicyForm):
    """A new custom policy."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=128,
        widget=forms.TextInput(attrs=_NAME_BOX),
        help_text=gettext_lazy("Letters, digits and hyphens."),
    )
    field_order = ["name", "description", "document"]


class RoleForm(forms.Form):
    """Whom a role trusts, and for how long."""

    description = forms.CharField(label=gettext_lazy("Description"), max_length=256, required=False)
    max_session_s = forms.IntegerField(
        label=gettext_lazy("Longest session (seconds)"),
        min_value=MIN_SESSION_S,
        max_value=MAX_SESSION_S,
        initial=MAX_SESSION_S,
        help_text=gettext_lazy(
            "%(min_session_s)s (15 minutes) to %(max_session_s)s (1 hour).",
            min_session_s=MIN_SESSION_S,
            max_session_s=MAX_SESSION_S,
        ),
    )
    trust_policy = DocumentField(label=gettext_lazy("Trust policy"), trust=True)


class NewRoleForm(RoleForm):
    """A new role."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_NAME_BOX),
        help_text=gettext_lazy("Letters, digits, dots, - or _."),
    )
    field_order = ["name", "description", "max_session_s", "trust_policy"]


class AssumeForm(forms.Form):
    """Temporary keys of a role for the visitor."""

    role = forms.CharField(
        label=gettext_lazy("Role"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "mono"}),
        help_text=gettext_lazy("Its name, or for a role of another account its ARN: acs:ram::<account>:role/<name>."),
    )
    session_name = forms.CharField(
        label=gettext_lazy("Session name"),
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("2 to 32 letters, digits, dots, @, - or _. It appears in the audit trail."),
    )
    duration_s = forms.IntegerField(
        label=gettext_lazy("Duration (seconds)"),
        min_value=MIN_SESSION_S,
        max_value=MAX_SESSION_S,
        initial=MAX_SESSION_S,
        help_text=gettext_lazy(
            "%(min_session_s)s (15 minutes) up to the longest session of the role.", min_session_s=MIN_SESSION_S
        ),
    )


class SingleSignOnForm(forms.Form):
    """An account's provider. The stored secret is never shown again."""

    issuer = forms.URLField(
        label=gettext_lazy("Issuer"),
        max_length=255,
        assume_scheme="https",
        widget=forms.URLInput(attrs={"placeholder": "https://login.example.com/realms/acme", "spellcheck": "false"}),
        help_text=gettext_lazy("Address of the provider, without /.well-known/openid-configuration."),
    )
    client_id = forms.CharField(
        label=gettext_lazy("Client ID"),
        max_length=255,
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
        help_text=gettext_lazy("What the provider calls this console."),
    )
    client_secret = forms.CharField(
        label=gettext_lazy("Client secret"),
        max_length=512,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Empty for a public client."),
    )
    user_claim = forms.RegexField(
        r"\A[A-Za-z0-9_.:/-]+\Z",
        label=gettext_lazy("Claim with the user name"),
        max_length=64,
        initial="preferred_username",
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
        help_text=gettext_lazy(
            "The value bob signs in bob@account. Choose a claim that users cannot change themselves at the provider."
        ),
        error_messages={"invalid": gettext_lazy("A claim has letters, digits and . _ : / -.")},
    )
    create_users = forms.BooleanField(
        label=gettext_lazy("Create users that do not exist yet"),
        required=False,
        help_text=gettext_lazy("As RAM users without a policy: they may do nothing until you attach one."),
    )
    enabled = forms.BooleanField(
        label=gettext_lazy("Switched on"), required=False, initial=True,
        help_text=gettext_lazy("Off: nobody signs in by it, and what is set here stays."),
    )  # fmt: skip

    def __init__(self, *args: Any, row: SingleSignOn | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if row is not None and row.client_secret_encrypted:
            self.fields["client_secret"].help_text = _("A secret is stored. Leave this empty to keep it.")


class AccountForm(forms.Form):
    """Whose provider is asked."""

    account = forms.SlugField(
        label=gettext_lazy("Account"),
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "organization", "autocapitalize": "none", "autofocus": True}),
        help_text=gettext_lazy("The part after the @ of your user name."),
        error_messages={"invalid": gettext_lazy("The name of an account has letters, digits, - and _.")},
    )
