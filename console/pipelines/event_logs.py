"""Logs of events that pipelines read, which stand above: whose they are, and which consumer group reads which.

A consumer group has one client. A pipeline that reads by a group holds it; another one is refused it until it is free.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from django.utils.translation import gettext as _

from analytics.pipelines.reports import Reached
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.pipelines.models import Pipeline
from console.web.errors import Refused
from console.web.provided import Provided

_TOLD_S = 10.0
"""How often a source is told how far it was read, s."""
NORMAL = "Normal"
"""The state of a source from which a task can be made."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of events. Times are epoch ms, None while there is no event."""

    id: str
    title: str
    #: The folder of its event log, `oss://bucket/folder/`.
    log: str
    first_ms: int | None = None
    last_ms: int | None = None
    #: Names of its consumer groups.
    groups: tuple[str, ...] = ()
    #: NORMAL, or what it is else, in its own words.
    state: str = NORMAL
    #: Why no new event comes from it now, as sentences; empty while events may come.
    trouble: str = ""
    #: Whether the actor may see events of it: rows of a database stand in them.
    shows_events: bool = False
    #: How its database is reached, and which one that is.
    access_method: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """Account and password of a consumer group, as somebody typed them."""

    account: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Holder:
    """What reads by a group: its key, which is nobody else's, and what it is called."""

    key: str
    name: str


class Sources(Protocol):
    """What is to be known of the sources of an account."""

    def sources(self, actor: Actor) -> list[Source]:
        """Those that the actor may read, by their titles."""

    def source(self, actor: Actor, source_id: str) -> Source | None:
        """One of them; None where there is none, or the actor may not read it."""

    def hold(self, actor: Actor, source_id: str, group: str, login: Login, holder: Holder) -> None:
        """Let the holder be the one client of the group.

        Raises Refused for a group that there is not or that another one holds (field `group`), and for a wrong account
        or password (field `password`).
        """

    def release(self, tenant: Tenant, holder: Holder) -> None:
        """What the holder holds is free."""

    def reached(self, holder: str, sequence: int) -> None:
        """What has this key is done with the event of a number and all before: others may be removed for it."""


sources = Provided[Sources](f"{__name__}.sources", "console.inflow")


def holder_of(pipeline: Pipeline) -> Holder:
    """A task, as what reads by a group."""
    return Holder(_key(pipeline.pk), f"The inflow task {pipeline.name}")


def _key(pipeline_id: int) -> str:
    return f"inflow-{pipeline_id}"


class Progress:
    """Tells the source of a running pipeline from time to time how far it was read."""

    def __init__(self, pipeline_id: int) -> None:
        self._holder = _key(pipeline_id)
        self._told = -1
        self._due = 0.0

    def tell(self, reached: Reached | None, *, last: bool = False) -> None:
        """Tell it, when it is time or the `last` one. Raises Error of the database, and tells it again then."""
        if reached is None or reached.sequence == self._told or (time.monotonic() < self._due and not last):
            return
        sources.get().reached(self._holder, reached.sequence)
        self._told, self._due = reached.sequence, time.monotonic() + _TOLD_S


def require_source(actor: Actor, source_id: str) -> Source:
    """The source. Raises Refused for one that there is not, or that the actor may not read."""
    found = sources.get().source(actor, source_id)
    if found is None:
        raise Refused(
            "SOURCE_NOT_FOUND",
            _("There is no change tracking task %(source_id)s.") % {"source_id": source_id},
            "source.task",
        )
    return found
