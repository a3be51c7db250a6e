"""What the instance pages ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings

from console.instances import queries


class InstanceForm(forms.Form):
    """Name and description: what can be changed later."""

    name = forms.CharField(label="Name", max_length=64, help_text="3 to 64 characters, unique in the region.")
    remark = forms.CharField(label="Description", max_length=256, required=False)


class CreateForm(InstanceForm):
    """A new instance."""

    cluster = forms.ChoiceField(label="Cluster")
    independent_naming = forms.TypedChoiceField(
        label="Namespace",
        choices=[
            ("true", "With its own namespace: names are unique inside the instance"),
            ("false", "Without: names stand bare on the wire and are unique across all accounts"),
        ],
        initial="true",
        coerce=lambda text: text == "true",
        widget=forms.RadioSelect,
    )
    max_send_tps = forms.IntegerField(label="Messages sent per second, at most", min_value=1, initial=1000)
    max_receive_tps = forms.IntegerField(label="Messages received per second, at most", min_value=1, initial=1000)
    topic_capacity = forms.IntegerField(
        label="Topics, at most", min_value=1, required=False, help_text="Empty for no limit."
    )
    field_order = [
        "name",
        "remark",
        "cluster",
        "independent_naming",
        "max_send_tps",
        "max_receive_tps",
        "topic_capacity",
    ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(c.name, c.name) for c in queries.clusters(settings.REGION)]
        self.fields["cluster"].choices = choices  # type: ignore[attr-defined]
