"""HTTP endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from analytics.inflow import task_sinks
from analytics.inflow.task_sinks import DEFAULT_TIMEOUT, MOST_BATCH, MOST_TIMEOUT
from console.accounts.actor import Actor
from console.inflow.sinks.shape import PLAIN, Destination, Document


class EndpointDestination(Destination):
    """A server that takes events by POST."""

    kind = task_sinks.HTTP
    title = "HTTP endpoint"
    unit = "request"
    fields = (
        "sink_url", "sink_mode", "sink_content_type", "sink_headers", "sink_batch", "sink_timeout", "sink_ordered",
    )  # fmt: skip
    required = ("sink_url",)
    places = {
        "url": "sink_url", "mode": "sink_mode", "contentType": "sink_content_type", "headers": "sink_headers",
        "batch": "sink_batch", "timeout": "sink_timeout", "ordered": "sink_ordered",
    }  # fmt: skip
    hint = "Requests are signed with the account's key, as those to functions are. 2xx is delivered; 408, 425, 429, 5xx"
    hint += " and faults of the connection are tried again; any other answer fails the event."

    def made(self, actor: Actor, sink: Document) -> dict[str, forms.Field]:
        return {
            "sink_url": forms.CharField(
                label="Address of the endpoint",
                required=False,
                max_length=2048,
                widget=forms.TextInput(attrs=PLAIN | {"placeholder": "https://hooks.example.com/orders"}),
            ),
            "sink_mode": forms.ChoiceField(
                label="Request",
                required=False,
                choices=[
                    ("structured", "CloudEvents, structured: the event as JSON"),
                    ("binary", "CloudEvents, binary: attributes in headers, data as the body"),
                    ("body", "the message body alone"),
                ],
            ),
            "sink_content_type": forms.CharField(
                label="Content type",
                required=False,
                max_length=255,
                widget=forms.TextInput(attrs=PLAIN | {"placeholder": "application/json"}),
                help_text="Of the body, or of the data that the body below is built as; empty for JSON.",
            ),
            "sink_headers": forms.CharField(
                label="Headers",
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
                help_text="One a line, name: value. A value may have ${secret_values.name}.",
            ),
            "sink_batch": forms.IntegerField(
                label="Events of a request",
                required=False,
                min_value=1,
                max_value=MOST_BATCH,
                help_text=f"1 to {MOST_BATCH}; with more than 1, or empty for it, a request is a JSON array.",
            ),
            "sink_timeout": forms.IntegerField(
                label="Time limit (seconds)",
                required=False,
                min_value=1,
                max_value=MOST_TIMEOUT,
                help_text=f"For an answer; 1 to {MOST_TIMEOUT}, empty for {DEFAULT_TIMEOUT}.",
            ),
            "sink_ordered": forms.BooleanField(
                label="Keep the order of changes of one primary key",
                required=False,
                help_text="Each waits for the answer to the one before it.",
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
            found["headers"] = {name.strip(): value.strip() for name, _, value in lines}
        return found

    def named(self, sink: Document) -> str:
        """Without the query, in which there may be a key."""
        return str(sink.get("url") or "").partition("?")[0]
