"""The editor's form."""

from __future__ import annotations

from typing import Any, cast

from django import forms

from console.accounts.models import Tenant
from console.sql.queries import notification_targets
from console.sql.services import LONGEST_STATEMENT


class EditorForm(forms.Form):
    """A statement with its schema, and what the hint template fills in."""

    schema = forms.ChoiceField(label="Schema")
    text = forms.CharField(
        label="Statement",
        max_length=LONGEST_STATEMENT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 12, "class": "editor", "spellcheck": "false", "autocapitalize": "off"}),
    )
    topic = forms.ChoiceField(label="Topic", required=False)
    group = forms.ChoiceField(label="Producer group", required=False)

    def __init__(self, *args: Any, tenant: Tenant, schemas: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        topics, groups = notification_targets(tenant)
        self._choose("schema", [(name, name) for name in schemas])
        self._choose("topic", [(str(t.pk), f"{t.instance.name} / {t.name}") for t in topics])
        self._choose("group", [(str(g.pk), f"{g.instance.name} / {g.group_id}") for g in groups])

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        cast(forms.ChoiceField, self.fields[name]).choices = choices
