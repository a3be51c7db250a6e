"""Consumer groups by which pipelines read topics: each is one reader's, since two would share out its messages.

An inflow task holds its group for as long as it is there. A SQL job holds those of the version that runs, from its
start to its end: jobs that take turns may name the same group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.utils.translation import gettext as _

from analytics.pipelines.plan import Plan, Source
from brokercore.names import wrap
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.pipelines import event_logs, starts
from console.pipelines.event_logs import Holder
from console.pipelines.models import BUSY, Kind, Pipeline, Version
from console.web.errors import Refused
from console.web.languages import gettext_lazy

_CALLED = {Kind.JOB: gettext_lazy("SQL job"), Kind.INFLOW: gettext_lazy("inflow task")}


class Place(NamedTuple):
    """A group: the addresses of its name servers, however they are written, and its name on the wire."""

    addresses: frozenset[str]
    name: str


class Taken(NamedTuple):
    """A source whose group another pipeline reads by, and which one that is."""

    source: Source
    reader: Pipeline

    @property
    def sentence(self) -> str:
        """What is wrong with it, without a full stop."""
        called = _CALLED[Kind(self.reader.kind)]
        group = self.source.options["consumerGroup"]
        return _("the %(called)s %(name)s reads by the group %(group)s; a group is for one task or job only") % {
            "called": called,
            "name": self.reader.name,
            "group": group,
        }


def taken(actor: Actor, plan: Plan, holder: Holder | None, *kinds: Kind) -> list[Taken]:
    """The sources of a plan whose groups are held by others than the `holder`, of these kinds."""
    wanted = [(source, _place(actor, source)) for source in _topics(plan)]
    if not wanted:
        return []
    held = list(_held(actor, holder, kinds))
    return [Taken(source, reader) for source, place in wanted for reader, other in held if place == other]


def require_free(actor: Actor, plan: Plan, holder: Holder, field: str = "") -> None:
    """Raise Refused when a group of the plan is another reader's; `field` is what that is about.

    Within a transaction: until it ends no other pipeline of the account takes a group.
    """
    if not _topics(plan):
        return
    Tenant.objects.select_for_update().filter(pk=actor.tenant.pk).first()
    for found in taken(actor, plan, holder, *Kind):
        raise Refused("GROUP_HELD", f"{found.sentence[:1].upper()}{found.sentence[1:]}.", field)


def _held(actor: Actor, holder: Holder | None, kinds: tuple[Kind, ...]) -> Iterator[tuple[Pipeline, Place]]:
    # What is being deleted reads until it has stopped.
    others = Pipeline.objects.filter(tenant=actor.tenant, kind__in=kinds).select_related("version", "started_version")
    for pipeline in others.defer("draft", "version__text", "started_version__text"):
        if holder is not None and event_logs.holder_of(pipeline).key == holder.key:
            continue
        version = pipeline.version if pipeline.kind == Kind.INFLOW else _running(pipeline)
        for source in _topics(_plan(version)):
            yield pipeline, _place(actor, source)


def _running(job: Pipeline) -> Version | None:
    return job.started_version if job.state in BUSY else None


def _plan(version: Version | None) -> Plan | None:
    try:
        return None if version is None else Plan.from_json(version.plan)
    except ValueError:  # of another version of the product: it does not run
        return None


def _topics(plan: Plan | None) -> list[Source]:
    return [] if plan is None else [source for source in plan.sources if source.connector == "mq"]


def _place(actor: Actor, source: Source) -> Place:
    options = source.options
    namespace = str(options.get("instanceID", ""))
    if "accessId" in options:
        addresses = str(options.get("endpoint", ""))
    else:
        topic = starts.find_topic(actor, wrap(namespace, str(options["topic"])))
        addresses = "" if topic is None else topic.instance.cluster.namesrv
    return Place(_plain(addresses), wrap(namespace, str(options["consumerGroup"])))


def _plain(addresses: str) -> frozenset[str]:
    parts = addresses.replace(",", ";").split(";")
    return frozenset(part.strip().lower().removeprefix("http://").rstrip("/") for part in parts if part.strip())
