"""What the instance pages ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.accounts.models import ResourceSet, Tenant
from console.accounts.organizations import resource_sets
from console.instances import queries
from console.instances.models import DEFAULT_TPS
from console.web import regions
from console.web.languages import gettext_lazy
from console.web.regions import Region


def _rate(label: str) -> forms.IntegerField:
    return forms.IntegerField(label=label, min_value=1, max_value=2**31 - 1, initial=DEFAULT_TPS)


class SetChoice(forms.ModelChoiceField):  # type: ignore[type-arg]
    """Resource sets, each with the organization it is in."""

    def label_from_instance(self, obj: ResourceSet) -> str:
        return _("%(name)s / %(obj)s (ID %(obj2)s)") % {"name": obj.organization.name, "obj": obj.name, "obj2": obj.pk}


class InstanceForm(forms.Form):
    """What can be changed later."""

    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=64, help_text=gettext_lazy("3 to 64 characters, unique in the region.")
    )
    remark = forms.CharField(
        label=gettext_lazy("Description"),
        max_length=256,
        required=False,
        help_text=gettext_lazy("What others read in lists, up to 256 characters."),
    )
    resource_set = SetChoice(
        label=gettext_lazy("Resource set"),
        queryset=ResourceSet.objects.none(),
        required=False,
        empty_label=gettext_lazy("None"),
    )
    max_send_tps = _rate(gettext_lazy("Messages sent per second, at most"))
    max_receive_tps = _rate(gettext_lazy("Messages received per second, at most"))

    def __init__(self, *args: Any, tenant: Tenant, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["resource_set"].queryset = resource_sets(tenant.organization)  # type: ignore[attr-defined]


class CreateForm(InstanceForm):
    """A new instance. Where there are several regions it is asked for its region, of which the cluster must be."""

    region = forms.ChoiceField(label=gettext_lazy("Region"))
    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"))
    independent_naming = forms.TypedChoiceField(
        label=gettext_lazy("Namespace"),
        choices=[
            ("true", gettext_lazy("With its own namespace: names are unique inside the instance")),
            ("false", gettext_lazy("Without: names have no prefix and are unique across all accounts")),
        ],
        initial="true",
        coerce=lambda text: text == "true",
        widget=forms.RadioSelect,
    )
    topic_capacity = forms.IntegerField(
        label=gettext_lazy("Topics, at most"),
        min_value=1,
        required=False,
        help_text=gettext_lazy("Empty for no limit."),
    )
    field_order = [
        "name",
        "remark",
        "resource_set",
        "region",
        "cluster",
        "independent_naming",
        "max_send_tps",
        "max_receive_tps",
        "topic_capacity",
    ]

    def __init__(self, *args: Any, tenant: Tenant, places: list[Region], **kwargs: Any) -> None:
        """`places` are the regions in which the visitor may make an instance."""
        super().__init__(*args, tenant=tenant, **kwargs)
        if regions.are_several():
            self.fields["region"].choices = [(one.id, one.label) for one in places]  # type: ignore[attr-defined]
            grouped = [(one.label, [(c.name, c.name) for c in queries.clusters(one.id)]) for one in places]
            choices: list[Any] = [group for group in grouped if group[1]]
        else:
            del self.fields["region"]
            choices = [(c.name, c.name) for c in queries.clusters()]
        self.fields["cluster"].choices = choices  # type: ignore[attr-defined]
