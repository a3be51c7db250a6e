"""What there is for each kind of sink: its fields in the wizard, what must be there, and what pages call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from analytics.inflow.task import Task
from console.accounts.actor import Actor

Document = Mapping[str, Any]
PLAIN = {"autocomplete": "off", "spellcheck": "false"}
"""Attributes of an input whose value is no prose."""


class Destination:
    """A kind of sink (`analytics.inflow.task_sinks`), and what the console knows of it.

    `sink` is the part of a document; nobody has checked what stands in it.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    """As the field Service type has it."""
    unit: ClassVar[str] = "message"
    """What is delivered."""
    fields: ClassVar[tuple[str, ...]]
    """Names of the fields that the wizard has for it, in their order."""
    required: ClassVar[tuple[str, ...]]
    parts: ClassVar[tuple[str, ...]] = ("body",)
    """What is built of an event: names of METHODS."""
    places: ClassVar[Mapping[str, str]]
    """The field of each place in the document, without `sink.`."""
    hint: ClassVar[str] = ""
    """What is to be known of it, below the fields."""

    def made(self, actor: Actor, sink: Document) -> dict[str, forms.Field]:
        """Its fields; `sink` is that of the task that is changed."""
        raise NotImplementedError

    def initial(self, actor: Actor, sink: Document) -> dict[str, Any]:
        """What its fields have for a document."""
        raise NotImplementedError

    def document(self, actor: Actor, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        """The part `sink` of what was filled in, but for the kind and what is built of an event.

        `before` is that of the task that is changed, with what no field has.
        """
        raise NotImplementedError

    def require(self, actor: Actor, task: Task) -> None:
        """Raise Refused, with the place, for what cannot be written to.

        The rights are asked beside this (`console.pipelines.starts`).
        """

    def named(self, sink: Document) -> str:
        """What lists call it."""
        raise NotImplementedError
