"""What a pipeline may do once its account may store nothing more in the lake (docs/operate/limits.md).

What runs is told and goes on: it has taken messages of others, which wait for nobody's deletions. What writes files of
its own to the lake ends at its last checkpoint, once that much more than the limit is there.
"""

from __future__ import annotations

import time

from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError
from analytics.pipelines.plan import Plan
from console.accounts.models import Tenant
from console.catalog import storage
from console.pipelines import lifecycle, queries
from console.pipelines.lifecycle import Lease
from console.pipelines.models import BUSY, Pipeline
from console.web.errors import Refused
from console.web.text import in_words

#: How often it is looked, and how often all that the account has is counted anew while a job of its runs, seconds.
LOOK_S, COUNT_S = 30.0, 300.0
#: Beyond this part of the limit a job that writes files ends.
MOST_OVER = 1.1
FULL, HAS_ROOM = "lake full", "lake has room"


def require_for_start(tenant: Tenant) -> None:
    """Raise Refused when the account may store nothing more: the state of what starts would have no room."""
    if reason := storage.why_no_room(tenant):
        raise Refused(storage.NO_ROOM, reason)


def notice(pipeline: Pipeline) -> str:
    """What a pipeline that runs was told when the lake became full; empty when it has room, or nobody runs it."""
    events = pipeline.events.filter(kind__in=(FULL, HAS_ROOM), fence=pipeline.fence)
    told = events.first() if pipeline.state in BUSY else None
    return told.sentence if told is not None and told.kind == FULL else ""


def require_for_savepoint(pipeline: Pipeline) -> None:
    """Raise Refused when a copy of the state of what runs has no room."""
    pipeline.refresh_from_db(fields=["fence", "worker"])
    if not pipeline.worker:  # nobody would keep one
        return
    try:
        size = lake.size_of(f"{queries.location_of(pipeline)}run-{pipeline.fence:08}")
    except LakeError:
        size = 0
    if reason := storage.why_no_room(pipeline.tenant, max(size, 1)):
        raise Refused(
            storage.NO_ROOM,
            _(
                "There is no room for a savepoint of %(size)s, so stop %(pipeline)s without one, or make "
                "room: %(reason)s"
            )
            % {"size": in_words(size), "pipeline": pipeline.name, "reason": reason},
            "with_savepoint",
        )


class Watch:
    """Looks after one pipeline that runs, and says when the lake has become full, and when there is room again."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._due = 0.0
        self._counted = time.monotonic()
        self._is_full = False

    def look(self, plan: Plan) -> tuple[str, Refused | None]:
        """What its log is told of a change, and why it must end. Raises LeaseLost, and Error without a database."""
        now = time.monotonic()
        if now < self._due:
            return "", None
        self._due = now + LOOK_S
        tenant = Tenant.objects.get(uid=self._lease.account)
        if now - self._counted >= COUNT_S:
            self._counted = now
            storage.changed(tenant)
        reason = storage.why_no_room(tenant)
        if reason and _writes_files(plan) and storage.is_far_beyond(tenant, MOST_OVER):
            return "", Refused(
                storage.NO_ROOM, _("It writes files to the lake, which is full: %(reason)s") % {"reason": reason}
            )
        if bool(reason) == self._is_full:
            return "", None
        self._is_full = bool(reason)
        sentence = "There is room in the lake again."
        if reason:
            sentence = f"{reason} This job goes on; until there is room no job starts, and no savepoint is kept."
        lifecycle.note(self._lease, FULL if reason else HAS_ROOM, sentence)
        return sentence, None


def _writes_files(plan: Plan) -> bool:
    return any(sink.connector == "filesystem" for sink in plan.sinks)
