"""The sources of inflow tasks: change tracking tasks, and their consumer groups.

To read one takes `dts:QueryTrackingTask` on it, and `dts:QueryTrackingEvents`: a topic shows what stands in its rows.
"""

from __future__ import annotations

from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.pipelines.event_logs import NORMAL, Holder, Login, Source, require_source
from console.tracking import access, queries, services
from console.tracking.models import State, TrackingTask
from console.web.errors import Refused


class TrackingTasks:
    """`console.pipelines.event_logs.Sources`."""

    def sources(self, actor: Actor) -> list[Source]:
        """Those that the actor may read, by name."""
        return [_source(task) for task in queries.tasks(actor.tenant) if _may_read(actor, task)]

    def source(self, actor: Actor, source_id: str) -> Source | None:
        """One of them."""
        task = queries.task(actor.tenant, source_id)
        return _source(task) if task is not None and _may_read(actor, task) else None

    def hold(self, actor: Actor, source_id: str, group: str, login: Login, holder: Holder) -> None:
        """Let the holder be the one client of the group. Who holds it already needs no password."""
        require_source(actor, source_id)
        task = queries.task(actor.tenant, source_id)
        found = queries.group(task, group) if task is not None else None
        if found is None:
            raise Refused(
                "GROUP_NOT_FOUND",
                _("%(source_id)s has no consumer group %(group)s.") % {"source_id": source_id, "group": group},
                "group",
            )
        if found.holder != holder.key:
            services.require_password(group=found, account=login.account, password=login.password)
        services.hold_group(group=found, holder=holder.key, name=holder.name)

    def release(self, tenant: Tenant, holder: Holder) -> None:
        """What the holder holds is free."""
        for group in queries.held(tenant, holder.key):
            services.release_group(group=group, holder=holder.key)

    def reached(self, holder: str, sequence: int) -> None:
        """Its group has read so far."""
        services.note_reached(holder=holder, sequence=sequence)


def _may_read(actor: Actor, task: TrackingTask) -> bool:
    return access.may(actor, access.QUERY, task.task_id) and access.may(actor, access.EVENTS, task.task_id)


def _source(task: TrackingTask) -> Source:
    return Source(
        task.task_id,
        f"{task.name} ({task.task_id})",
        task.log,
        task.first_ms,
        task.last_ms,
        tuple(queries.groups(task).values_list("name", flat=True)),
        NORMAL if task.is_normal else task.word,
        _trouble(task),
        shows_events=True,
        access_method=_("%(kind)s at %(host)s:%(port)s")
        % {"kind": task.get_kind_display(), "host": task.host, "port": task.port},
        instance=task.database,
    )


def _trouble(task: TrackingTask) -> str:
    """What is kept already is delivered meanwhile."""
    if task.is_normal:
        return ""
    said = {
        State.FAILED: task.sentence,
        State.PAUSED: _("No change is kept until it is resumed."),
        State.DELETING: _("It is being deleted."),
    }.get(State(task.state), _("No change is kept until a process captures it."))
    return _("The change tracking task %(task)s is %(word)s. %(said)s") % {
        "task": task.name,
        "word": task.word,
        "said": said,
    }
