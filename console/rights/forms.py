"""What the simulator asks for."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _

from brokercore.policy import Context
from console.accounts.forms import DocumentField
from console.web.languages import gettext_lazy

ME, USER, ROLE, TEXT = "me", "user", "role", "text"
_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class SimulationForm(forms.Form):
    """Who does what on which resource, from where, when and how."""

    who = forms.ChoiceField(
        label=gettext_lazy("Who"),
        choices=[
            (ME, gettext_lazy("Me")),
            (USER, "A user"),
            (ROLE, "A role"),
            (TEXT, gettext_lazy("A policy that I paste")),
        ],
        widget=forms.RadioSelect,
        initial=ME,
    )
    user = forms.CharField(
        label=gettext_lazy("User"),
        max_length=150,
        required=False,
        widget=forms.TextInput(attrs=_PLAIN | {"list": "user-names", "placeholder": "bob@account"}),
    )
    role = forms.CharField(
        label=gettext_lazy("Role"),
        max_length=64,
        required=False,
        widget=forms.TextInput(attrs=_PLAIN | {"list": "role-names"}),
    )
    document = DocumentField(label=gettext_lazy("Policy"), required=False)
    action = forms.CharField(
        label=gettext_lazy("Action"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN | {"list": "action-names", "placeholder": "mq:PUB", "class": "mono"}),
    )
    resource = forms.CharField(
        label=gettext_lazy("Resource"),
        max_length=512,
        widget=forms.TextInput(attrs=_PLAIN | {"list": "resource-names", "class": "mono"}),
        help_text=gettext_lazy(
            "An instance, topic or group from the list, or a full name: acs:service:region:account:name."
        ),
    )
    source_ip = forms.GenericIPAddressField(
        label=gettext_lazy("Source address"), required=False, unpack_ipv4=True, widget=forms.TextInput(attrs=_PLAIN)
    )
    at = forms.DateTimeField(
        label=gettext_lazy("Time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"),
        help_text=gettext_lazy("Empty means now."),
    )
    tls = forms.BooleanField(label=gettext_lazy("Over TLS"), required=False)
    mfa = forms.BooleanField(label=gettext_lazy("Signed in with a second factor"), required=False)

    def __init__(self, *args: Any, only_me: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["document"].widget.attrs["rows"] = 10
        self.only_me = only_me

    def clean(self) -> dict[str, Any]:
        """What the chosen principal needs must be there; what another one would need does not matter."""
        values = super().clean() or {}
        chosen = values.get("who")
        if chosen != TEXT:
            self.errors.pop("document", None)
        for kind, field in ((USER, "user"), (ROLE, "role"), (TEXT, "document")):
            if chosen == kind and not values.get(field) and field not in self.errors:
                self.add_error(field, _("This field is required."))
        return values

    @property
    def circumstances(self) -> Context:
        """Address, time, TLS and second factor of the request that is simulated."""
        values = self.cleaned_data
        return Context(
            values["source_ip"],
            (values["at"] or timezone.now()).astimezone(UTC),
            values["tls"],
            values["mfa"],
        )
