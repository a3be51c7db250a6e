"""Logs of events that pipelines read, which stand above: whose they are, and which consumer group reads which.

A consumer group has one client. A pipeline that reads by a group holds it; another one is refused it until it is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.web.errors import Refused
from console.web.provided import Provided

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
    #: How its database is reached, and which one that is.
    access_method: str = ""
    instance: str = ""


class Sources(Protocol):
    """What is to be known of the sources of an account."""

    def sources(self, actor: Actor) -> list[Source]:
        """Those that the actor may read."""

    def hold(self, actor: Actor, source_id: str, group: str, *, account: str, password: str, holder: str) -> None:
        """Let the holder, a pipeline's name, read by the group. Without a change of the holder no password is asked.

        Raises Refused for a group that there is not or that another one holds (field `source.group`), and for a wrong
        account or password (fields `account`, `password`).
        """

    def release(self, tenant: Tenant, holder: str) -> None:
        """What the holder holds is free."""


sources = Provided[Sources](f"{__name__}.sources", "console.inflow")


def require_source(actor: Actor, source_id: str) -> Source:
    """The source. Raises Refused for one that there is not, or that the actor may not read."""
    found = next((one for one in sources.get().sources(actor) if one.id == source_id), None)
    if found is None:
        raise Refused("SOURCE_NOT_FOUND", f"There is no change tracking task {source_id}.", "source.task")
    return found
