"""What there is for each kind of source: its fields in the wizard, what may be read, its recent events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from django import forms

from analytics.inflow.task import Task
from analytics.inflow.transform import Event
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.pipelines.event_logs import Holder, Login

Document = Mapping[str, Any]
NOBODY = Login()
PLAIN = {"autocomplete": "off", "spellcheck": "false"}
"""Attributes of an input whose value is no prose."""


@dataclass(frozen=True, slots=True)
class Recent:
    """A recent event of a source: its number or whatever orders it there, and when it came (epoch ms)."""

    sequence: int
    time_ms: int
    event: Event
    #: What a list calls it.
    title: str


class Provider:
    """A kind of source (`analytics.inflow.task_sources`), and what the console knows of it.

    `source` is the part of a document; nobody has checked what stands in it.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    """As the field Data provider has it."""
    fields: ClassVar[tuple[str, ...]]
    """Names of the fields that the wizard has for it, in their order; some are those of other kinds too."""
    required: ClassVar[tuple[str, ...]] = ()
    places: ClassVar[Mapping[str, str]] = {}
    """The field of each place in the document, without `source.`."""
    note: ClassVar[str] = ""
    """A template with what else the wizard tells below the fields; it has the context of the wizard."""

    # The wizard

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        """The fields that only this kind has; `source` is that of the task that is changed."""
        raise NotImplementedError

    def initial(self, source: Document) -> dict[str, Any]:
        """What its fields have for a document."""
        raise NotImplementedError

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        """The part `source` of what was filled in, but for the kind and for what is of every kind.

        `before` is that of the task which is changed.
        """
        raise NotImplementedError

    def unsent(self, actor: Actor) -> dict[str, Any]:
        """The part `source` of a form that nobody has sent yet, as far as it can be known."""
        return {}

    # What tasks read

    def require(self, actor: Actor, task: Task, before: Document | None) -> None:
        """Raise Refused, with the place, for what cannot be read; `before` is the document until now.

        The rights on what the pipeline reads are asked beside this (`console.pipelines.starts`).
        """

    def hold(self, actor: Actor, task: Task, before: Document | None, login: Login, holder: Holder) -> None:
        """Let the holder be the one reader, where there can be one only. Raises Refused."""

    def release(self, tenant: Tenant, holder: Holder) -> None:
        """What the holder holds is free."""

    def begun(self, tenant: Tenant, holder: Holder, since: datetime | None) -> bool:
        """The task is asked to start, as it was at `since`; whether its events are others than those of then."""
        return False

    def paused(self, tenant: Tenant, holder: Holder) -> None:
        """A user has paused the task."""

    def named(self, source: Document) -> str:
        """What lists call the source."""
        raise NotImplementedError

    def trouble(self, actor: Actor, source: Document) -> str:
        """Why no new event comes now, as sentences; empty while events may come, or the actor may not read it."""
        return ""

    # Events of it

    def recent(self, actor: Actor, source: Document) -> Sequence[Recent]:
        """The last events, the newest first; none where it cannot be read, or the actor may not see them."""
        return ()

    def formed(self, source: Document, event: Event) -> Event:
        """An event that is given, in the form that the task is about."""
        return event

    def recent_of(self, actor: Actor, source: Document, name: str) -> Sequence[Recent]:
        """The same where the source is the log of the task of this name."""
        return self.recent(actor, source)

    def due(self, source: Document, moment: datetime) -> Sequence[datetime]:
        """The next moments behind this one at which it gives an event, where that is known."""
        return ()

    def example(self, source: Document) -> Event:
        """An event as there may be one."""
        raise NotImplementedError
