"""HTTP endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from analytics.inflow import task_sinks
from analytics.inflow.task_sinks import DEFAULT_TIMEOUT, MOST_BATCH, MOST_TIMEOUT
from console.accounts.actor import Actor
from console.inflow.sinks.shape import PLAIN, Destination, Document
from console.web.languages import gettext_lazy


class EndpointDestination(Destination):
    """A server that takes events by POST."""

    kind = task_sinks.HTTP
    title = gettext_lazy("HTTP endpoint")
    unit = "request"
    fields = (
        "sink_url", "sink_mode", "sink_content_type", "sink_headers", "sink_batch", "sink_timeout", "sink_ordered",
    )  # fmt: skip
    required = ("sink_url",)
    places = {
        "url": "sink_url", "mode": "sink_mode", "contentType": "sink_content_type", "headers": "sink_headers",
        "batch": "sink_batch", "timeout": "sink_timeout", "ordered": "sink_ordered",
    }  # fmt: skip
    hint = gettext_lazy(
        "Requests are signed with the account's key, as those to functions are. 2xx is delivered; 408, 425, 429, 5xx "
        "and faults of the connection are tried again; any other answer fails the event."
    )

    def made(self, actor: Actor, sink: Document) -> dict[str, forms.Field]:
        return {
            "sink_url": forms.CharField(
                label=_("Address of the endpoint"),
                required=False,
                max_length=2048,
                widget=forms.TextInput(attrs=PLAIN | {"placeholder": "https://hooks.example.com/orders"}),
            ),
            "sink_mode": forms.ChoiceField(
                label=_("Request"),
                required=False,
                choices=[
                    ("structured", _("CloudEvents, structured: the event as JSON")),
                    ("binary", _("CloudEvents, binary: attributes in headers, data as the body")),
                    ("body", _("the message body alone")),
                ],
            ),
            "sink_content_type": forms.CharField(
                label=_("Content type"),
                required=False,
                max_length=255,
                widget=forms.TextInput(attrs=PLAIN | {"placeholder": "application/json"}),
                help_text=_("Of the body, or of the data that the body below is built as; empty for JSON."),
            ),
            "sink_headers": forms.CharField(
                label=_("Headers"),
                required=False,
                max_length=128 * 1024,
                widget=forms.Textarea(
                    attrs=PLAIN
                    | {
                        "class": "font-monospace",
                        "rows": 2,
                        "placeholder": "authorization: Bearer ${secret_values.hooks}",
                    }
                ),
                help_text=_("One a line, name: value. A value may have ${secret_values.name}."),
            ),
            "sink_batch": forms.IntegerField(
                label=_("Events of a request"),
                required=False,
                min_value=1,
                max_value=MOST_BATCH,
                help_text=_("1 to %(most_batch)s; with more than 1, or empty for it, a request is a JSON array.")
                % {"most_batch": MOST_BATCH},
            ),
            "sink_timeout": forms.IntegerField(
                label=_("Time limit (seconds)"),
                required=False,
                min_value=1,
                max_value=MOST_TIMEOUT,
                help_text=_("For an answer; 1 to %(most_timeout)s, empty for %(default_timeout)s.")
                % {"most_timeout": MOST_TIMEOUT, "default_timeout": DEFAULT_TIMEOUT},
            ),
            "sink_ordered": forms.BooleanField(
                label=_("Keep the order of changes of one primary key"),
                required=False,
                help_text=_("Each waits for the answer to the one before it."),
            ),
        }

    def initial(self, actor: Actor, sink: Document) -> dict[str, Any]:
        found = {field: sink.get(name) for name, field in self.places.items()}
        headers = sink.get("headers")
        told = headers.items() if isinstance(headers, Mapping) else ()
        return found | {"sink_headers": "\n".join(f"{name}: {value}" for name, value in told)}

    def document(self, actor: Actor, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        found: dict[str, Any] = {"url": told.get("sink_url", "")}
        for name in ("mode", "contentType", "batch", "timeout", "ordered"):
            if value := told.get(self.places[name]):
                found[name] = value
        lines = [line.partition(":") for line in told.get("sink_headers", "").splitlines() if line.strip()]
        if lines:
            found["headers"] = {name.strip(): value.strip() for name, _unused, value in lines}
        return found

    def named(self, sink: Document) -> str:
        """Without the query, in which there may be a key."""
        return str(sink.get("url") or "").partition("?")[0]
