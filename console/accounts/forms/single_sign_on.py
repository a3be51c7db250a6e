"""What the pages of single sign-on ask for."""

from __future__ import annotations

from typing import Any

from django import forms

from console.accounts.models import SingleSignOn


class SingleSignOnForm(forms.Form):
    """An account's provider. The stored secret is never shown again."""

    issuer = forms.URLField(
        label="Issuer",
        max_length=255,
        assume_scheme="https",
        widget=forms.URLInput(attrs={"placeholder": "https://login.example.com/realms/acme", "spellcheck": "false"}),
        help_text="Address of the provider, without /.well-known/openid-configuration.",
    )
    client_id = forms.CharField(
        label="Client ID", max_length=255, widget=forms.TextInput(attrs={"spellcheck": "false"})
    )
    client_secret = forms.CharField(
        label="Client secret",
        max_length=512,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Empty for a public client.",
    )
    user_claim = forms.RegexField(
        r"\A[A-Za-z0-9_.:/-]+\Z",
        label="Claim with the user name",
        max_length=64,
        initial="preferred_username",
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
        help_text="Its value bob signs in bob@account. Take one that people cannot change themselves at the provider.",
        error_messages={"invalid": "A claim has letters, digits and . _ : / -."},
    )
    create_users = forms.BooleanField(
        label="Create users that do not exist yet",
        required=False,
        help_text="As RAM users without a policy: they may do nothing until you attach one.",
    )
    enabled = forms.BooleanField(label="Switched on", required=False, initial=True)

    def __init__(self, *args: Any, row: SingleSignOn | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if row is not None and row.client_secret_encrypted:
            self.fields["client_secret"].help_text = "One is stored. Leave this empty to keep it."


class AccountForm(forms.Form):
    """Whose provider is asked."""

    account = forms.SlugField(
        label="Account",
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "organization", "autocapitalize": "none", "autofocus": True}),
        help_text="What stands behind the @ of your user name.",
        error_messages={"invalid": "An account's name has letters, digits, - and _."},
    )
