"""What the pages of policies and roles ask for. The rules are the services' and the grammar's."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from brokercore.policy import examine
from console.accounts.services import MAX_SESSION_S, MIN_SESSION_S

_SHOWN_PROBLEMS = 10
_NAME_BOX = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}


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

    description = forms.CharField(label="Description", max_length=256, required=False)
    document = DocumentField(label="Document")


class NewPolicyForm(PolicyForm):
    """A new custom policy."""

    name = forms.CharField(
        label="Name",
        max_length=128,
        widget=forms.TextInput(attrs=_NAME_BOX),
        help_text="Letters, digits and hyphens.",
    )
    field_order = ["name", "description", "document"]


class RoleForm(forms.Form):
    """Whom a role trusts, and for how long."""

    description = forms.CharField(label="Description", max_length=256, required=False)
    max_session_s = forms.IntegerField(
        label="Longest session (seconds)",
        min_value=MIN_SESSION_S,
        max_value=MAX_SESSION_S,
        initial=MAX_SESSION_S,
        help_text=f"{MIN_SESSION_S} (15 minutes) to {MAX_SESSION_S} (1 hour).",
    )
    trust_policy = DocumentField(label="Trust policy", trust=True)


class NewRoleForm(RoleForm):
    """A new role."""

    name = forms.CharField(
        label="Name",
        max_length=64,
        widget=forms.TextInput(attrs=_NAME_BOX),
        help_text="Letters, digits, dots, - or _.",
    )
    field_order = ["name", "description", "max_session_s", "trust_policy"]


class AssumeForm(forms.Form):
    """Temporary keys of a role for the visitor."""

    role = forms.CharField(
        label="Role",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "mono"}),
        help_text="Its name, or for a role of another account its ARN: acs:ram::<account>:role/<name>.",
    )
    session_name = forms.CharField(
        label="Session name",
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="2 to 32 letters, digits, dots, @, - or _. It stands in the audit trail.",
    )
    duration_s = forms.IntegerField(
        label="Duration (seconds)", min_value=MIN_SESSION_S, max_value=MAX_SESSION_S, initial=MAX_SESSION_S
    )
