"""Who ended an engine: pipelines share one, and whoever ends it takes the others along.

An end that nobody asked for is laid to all that had only begun in it (a death). Who was among them SUSPECT_AFTER times
in a row is a suspect and begins apart: first in an engine that is new, with nothing else beginning meanwhile. If that
one ends too it is certain whose doing it is, and after MOST_DEATHS in a row the pipeline has failed. Whoever has run
soundly begins anew with none.

An engine that somebody ended from outside is laid to nobody, nor is one that could not be started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from console.accounts.models import Tenant
from console.audit import record as audit
from console.pipelines.models import Pipeline

#: Whose queries ran for so long is not what ends an engine as soon as it runs.
SOUND_AFTER = timedelta(seconds=60)
#: What takes so long to start is not either, or all others would wait for it.
BELIEVED_AFTER = 2 * SOUND_AFTER
#: One death may be chance; after two in a row it is looked whose doing they are.
SUSPECT_AFTER = 2
#: So many deaths, of which those behind SUSPECT_AFTER are certain, are enough.
MOST_DEATHS = 5
#: How long a suspect waits for an empty worker, before one takes it that has none but sound pipelines.
PATIENCE = timedelta(seconds=60)

CLEARED = "It has run soundly while nothing else began beside it: that the engine ended was not its doing."
APART = "It begins while no other job does, since its engine has ended soon after it had begun."


@dataclass(frozen=True, slots=True)
class _Starter:
    """Who started a pipeline, for the trail; there or not by now."""

    name: str
    own_tenant: Tenant
    source_ip: str
    request_id: str
    access_key_id: str = ""
    channel: str = "sql"


def told(reason: str, deaths: int) -> str:
    """The reason of a loss, with what follows of so many deaths."""
    if deaths < SUSPECT_AFTER:
        return reason
    if deaths < MOST_DEATHS:
        return f"{reason} That was {deaths} times in a row soon after it had begun, so it begins alone the next time."
    return (
        f"Its engine ended {deaths} times in a row soon after it had begun, at last with no other job beginning beside "
        "it. It is not tried again: most likely it needs more memory than the engine has."
    )


def deaths_at_start(pipeline: Pipeline) -> int:
    """What a start that somebody asks for begins with: a suspect is one still, and the same version has one try."""
    is_same = pipeline.started_version_id == pipeline.version_id
    return min(pipeline.deaths, MOST_DEATHS - 1 if is_same else SUSPECT_AFTER)


def record(pipeline: Pipeline, reason: str) -> None:
    """Write down in the trail of its account that it has failed by deaths."""
    starter = _Starter(pipeline.requester, pipeline.tenant, pipeline.source_ip, str(pipeline.pk))
    detail = {"reason": reason}
    audit.record(starter, f"pipelines.{pipeline.kind}.run", pipeline.name, result="failed", detail=detail)
