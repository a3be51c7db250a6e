"""What the page of a cluster asks for. The rules are those of `console.cluster.registry`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.cluster.registry import OF_SETTINGS, Wanted, wanted_of
from console.instances.models import AccessControl, Cluster
from console.web import regions
from console.web.languages import gettext_lazy

_ACCESS_CONTROL = {
    AccessControl.NONE: gettext_lazy("Leave users and lists of the brokers as they are"),
    AccessControl.ACL2: gettext_lazy(
        "ACL 2.0: make a user and a list there for each AccessKey that has something on the cluster"
    ),
    AccessControl.ACL1: gettext_lazy(
        "ACL 1.0: make an account there for each AccessKey that has something on the cluster"
    ),
}


def _secret(label: str, **options: Any) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "spellcheck": "false"}),
        **options,
    )


def _pem(label: str, **options: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off", "class": "font-monospace"})
    return forms.CharField(label=label, required=False, max_length=65_536, widget=widget, **options)


class ClusterForm(forms.Form):
    """How a cluster is reached, and what may be done there. Secrets are asked for and never shown."""

    region = forms.ChoiceField(
        label=gettext_lazy("Region"),
        help_text=gettext_lazy("Instances go with their cluster; nothing changes there."),
    )
    namesrv = forms.CharField(
        label=gettext_lazy("Name servers"),
        max_length=255,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "placeholder": "10.0.0.5:9876"}),
        help_text=gettext_lazy("host:port, several separated by ;. They are asked in turn until one answers."),
    )
    access_key_id = forms.CharField(
        label=gettext_lazy("AccessKey"),
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Of the account with which the console works there; empty where the brokers ask nobody."
        ),
    )
    access_key_secret = _secret(
        gettext_lazy("Secret"), max_length=256, help_text=gettext_lazy("Stored encrypted, and never shown again.")
    )
    tls = forms.BooleanField(label=gettext_lazy("Name servers and brokers are reached over TLS"), required=False)
    authority = _pem(
        gettext_lazy("Certificates of the authority"),
        help_text=gettext_lazy("PEM. Empty: those that this system trusts."),
    )
    certificate = _pem(
        gettext_lazy("Client certificate"),
        help_text=gettext_lazy("PEM, with its chain. Only where brokers ask for one."),
    )
    key = _pem(
        gettext_lazy("Private key of the client certificate"),
        help_text=gettext_lazy("PEM without a password. Stored encrypted."),
    )
    proxy = forms.CharField(
        label=gettext_lazy("gRPC proxy"),
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "placeholder": "10.0.0.7:8081"}),
        help_text=gettext_lazy("host:port of the cluster's own proxy, told to clients."),
    )
    access_control = forms.ChoiceField(label=gettext_lazy("Rights on the brokers"), widget=forms.RadioSelect)
    read_only = forms.BooleanField(
        label=gettext_lazy("Read-only: the console shows everything and changes nothing on this cluster"),
        required=False,
    )

    def __init__(self, *args: Any, cluster: Cluster | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = {str(value): label for value, label in _ACCESS_CONTROL.items()}
        if regions.are_several():
            self.fields["region"].choices = [(one.id, one.label) for one in regions.regions()]  # type: ignore[attr-defined]
        else:
            del self.fields["region"]
        if cluster is not None:
            for name in OF_SETTINGS.intersection(self.fields) if cluster.from_settings else ():
                del self.fields[name]
            if cluster.embedded:
                del self.fields["access_control"]
            elif cluster.from_settings:
                label = _("Found out: a user and a list for each AccessKey, where the brokers have ACL 2.0")
                choices = {str(AccessControl.AUTOMATIC): label} | choices
            if cluster.secret_encrypted and "access_key_secret" in self.fields:
                self.fields["access_key_secret"].help_text = _("Empty: the secret stays as it is.")
            if cluster.key_encrypted and "key" in self.fields:
                self.fields["key"].help_text = _("Empty: the key stays as it is.")
        if "access_control" in self.fields:
            self.fields["access_control"].choices = list(choices.items())  # type: ignore[attr-defined]

    def wanted(self, cluster: Cluster | None = None) -> Wanted:
        """The valid values; of what is not asked for, those of the cluster."""
        known = wanted_of(cluster) if cluster is not None else Wanted()
        values = {one.name: self.cleaned_data.get(one.name, getattr(known, one.name)) for one in fields(Wanted)}
        return Wanted(**values)


class AddForm(ClusterForm):
    """A new cluster."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=gettext_lazy("A letter, then letters, digits, dots, - and _. It never changes."),
    )
    field_order = ["name"]
