"""The try-it form of one operation, made from its declaration."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.accounts.models import AccessKey
from console.openapi.reference import Parameter, Reference
from console.web import regions, zone
from console.web.moments import MomentField

REGION = "region"
PREFIX = "p"
"""Of the operation's parameters, so that none meets a field of ours."""
_LONG = 1024


class TryForm(forms.Form):
    """Key, parameters and, for what changes something, the consent."""

    def __init__(
        self,
        data: dict[str, Any] | None,
        reference: Reference,
        keys: list[AccessKey],
        initial: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        self.reference = reference
        self.fields["key"] = forms.ChoiceField(
            label=_("Sign with"),
            help_text=_("One of your own enabled AccessKeys."),
            choices=[(key.access_key_id, key.access_key_id) for key in keys],
        )
        if regions.are_several() and reference.region_required:
            self.fields[REGION] = forms.ChoiceField(
                label="_regionId",
                help_text="Nothing is found but what is in this region.",
                choices=[(one.id, one.label) for one in regions.regions()],
            )
        for parameter in reference.parameters:
            self.fields[field_name(parameter.name)] = _field(parameter)
        if reference.changes:
            self.fields["consent"] = forms.BooleanField(
                label=_("I know that this call changes something"),
                error_messages={"required": _("This operation changes something: tick the box to send it.")},
            )

    @property
    def inputs(self) -> list[forms.BoundField]:
        """The parameters' fields."""
        return [self[field_name(parameter.name)] for parameter in self.reference.parameters]

    @property
    def region(self) -> str:
        """The region to ask; empty for an operation that needs none."""
        if not self.reference.region_required:
            return ""
        return str(self.cleaned_data.get(REGION) or regions.default())

    @property
    def region_input(self) -> forms.BoundField | None:
        """The field of the region, where there is a choice."""
        return self[REGION] if REGION in self.fields else None

    def values(self) -> dict[str, str]:
        """What is sent: parameters that are filled in, as text."""
        cleaned = self.cleaned_data
        given = {p.name: cleaned.get(field_name(p.name)) for p in self.reference.parameters}
        return {name: str(value) for name, value in given.items() if value not in (None, "")}


def field_name(parameter: str) -> str:
    """The name of a parameter's field in the form."""
    return f"{PREFIX}-{parameter}"


def suggestion_list(name: str) -> str:
    """The kind of names that a parameter takes: instances, topics, groups, or empty."""
    return {"instanceid": "instances", "topic": "topics", "groupid": "groups"}.get(name.lower(), "")


def _field(parameter: Parameter) -> forms.Field:
    # The operation itself judges the values: what a caller may send, this form must be able to send.
    kept: dict[str, Any] = {"label": parameter.name, "required": False, "help_text": _help(parameter)}
    if parameter.is_time:
        return MomentField(**kept)
    if parameter.choices:
        empty = _("default (%(default)s)") % {"default": parameter.default} if parameter.default else _("not sent")
        return forms.ChoiceField(choices=[("", empty), *((c, c) for c in parameter.choices)], **kept)
    attrs: dict[str, Any] = {"autocomplete": "off", "spellcheck": "false", "placeholder": parameter.default}
    if parameter.type in ("Integer", "Float"):
        attrs["inputmode"] = "numeric"
    if parameter.name.lower() == "document":
        return forms.CharField(widget=forms.Textarea(attrs=attrs | {"rows": 6, "class": "mono"}), strip=False, **kept)
    if suggestion_list(parameter.name):
        attrs["list"] = suggestion_list(parameter.name)
    return forms.CharField(widget=forms.TextInput(attrs=attrs), max_length=_LONG, strip=False, **kept)


def _help(parameter: Parameter) -> str:
    said = [_("Required") if parameter.required else _("Optional"), parameter.description.rstrip(".")]
    if parameter.is_time:
        said.append(_("In %(current_name)s, sent as milliseconds") % {"current_name": zone.current_name()})
    elif not parameter.choices and not any(figure in parameter.description for figure in parameter.figures):
        said.append(parameter.rule[:1].upper() + parameter.rule[1:])
    return "".join(f"{part}. " for part in said if part).strip()
