"""Doing runs: claimed with a lease, in steps of a transaction each, so that one killed half way goes on.

Twice is harmless: what an instance has already counts as done. Nothing here writes to a cluster.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from brokercore.client.errors import ClientError
from console.accounts.models import Tenant
from console.adoption.models import Forgotten, Kind, Purpose, Run, RunName, State, model_of
from console.adoption.room import room
from console.adoption.unowned import OnCluster, is_kept, on_cluster
from console.audit import record as audit
from console.celery import app
from console.instances.models import Instance
from console.rights import access_table
from console.topics.as_is import group_as_is, topic_as_is
from console.topics.models import Group, Topic
from console.topics.names import unholdable
from console.web.after_commit import after_commit

log = logging.getLogger(__name__)
STEP = 500
"""Names of a transaction."""
LEASE = timedelta(seconds=30)
_HELD = "An account has this name."
_SAMPLE, _SAMPLE_EXPIRES_S = "console.metrics.tasks.sample_cluster", 60


@dataclass(frozen=True)
class _Author:
    """Who asked for the run, for the audit trail of the account that it is about."""

    name: str
    source_ip: str
    own_tenant: None = None
    access_key_id: str = ""
    channel: str = "worker"
    request_id: str = ""


def work(number: int) -> bool:
    """Do a run to its end, unless another worker does. True when this one did."""
    token = secrets.token_hex(8)
    if not _free().filter(pk=number).update(worker=token, leased_until=timezone.now() + LEASE):
        return False
    run = Run.objects.select_related("cluster", "instance__tenant", "instance__cluster").get(pk=number)
    try:
        there = on_cluster(run.cluster) if run.purpose == Purpose.ADOPT else None
    except ClientError as error:
        # It waits: the sweep asks again once the lease is given back.
        Run.objects.filter(pk=number, worker=token).update(leased_until=None, error=error.user_message[:512])
        return False
    while _step(run, token, there):
        pass
    return _ended(run, token)


def sweep() -> list[int]:
    """The runs that nobody works at: lost with their worker or message, or waiting for a cluster."""
    return list(_free().order_by("pk").values_list("pk", flat=True)[:20])


def _free() -> QuerySet[Run]:
    return Run.objects.filter(Q(leased_until=None) | Q(leased_until__lt=timezone.now()), ended_at=None)


def _held(run: Run, token: str) -> QuerySet[Run]:
    return Run.objects.filter(pk=run.pk, worker=token, ended_at=None)


@transaction.atomic
def _step(run: Run, token: str, there: OnCluster | None) -> bool:
    """The next names; False when there are none left, or another worker has the run."""
    # Renewing the lease locks the row: no other worker gets between it and what follows.
    if not _held(run, token).update(leased_until=timezone.now() + LEASE, error=""):
        return False
    rows = list(run.names.filter(state=State.WAITING)[:STEP])
    if not rows:
        return False
    for kind in Kind:
        wanted = [row for row in rows if row.kind == kind]
        if not wanted:
            continue
        if there is not None:
            _adopt(run.instance, kind, wanted, there)
        else:
            _forget(run.instance, kind, wanted)
    RunName.objects.bulk_update(rows, ["state", "reason"])
    access_table.publish_on_commit()
    return True


@transaction.atomic
def _ended(run: Run, token: str) -> bool:
    if not _held(run, token).filter(~Q(names__state=State.WAITING)).update(ended_at=timezone.now(), leased_until=None):
        return False
    detail = {
        "cluster": run.cluster.name,
        "instance": run.instance.instance_id,
        "done": run.names.filter(state=State.DONE).count(),
        "refused": run.names.filter(state=State.REFUSED).count(),
    }
    author = _Author(run.requester, run.source_ip)
    audit.record(author, f"adoption.run.{run.purpose}_end", str(run.pk), detail=detail, tenant=run.instance.tenant)
    # A cluster that nobody had anything of was not sampled so far.
    after_commit(app.send_task, _SAMPLE, [run.cluster_id], expires=_SAMPLE_EXPIRES_S, retry=False)
    return True


def _adopt(instance: Instance, kind: Kind, rows: list[RunName], there: OnCluster) -> None:
    model = model_of(kind)
    before = _holders(instance, model, [row.name for row in rows])
    # Held, so that nobody makes another one in the room that is counted here.
    Tenant.objects.select_for_update().get(pk=instance.tenant_id)
    limit = room(kind, instance.tenant, instance)
    new: list[Topic | Group] = []
    for row in rows:
        if row.name in before:
            row.reason = "" if before[row.name] == instance.pk else _HELD
        elif limit is not None and limit.left <= len(new):
            row.reason = f"{limit.sentence}."
        else:
            row.reason = _refusal(kind, row.name, there)
            if not row.reason:
                new.append(_row(instance, kind, row.name, there))
        row.state = State.REFUSED if row.reason else State.DONE
    model.objects.bulk_create(new, ignore_conflicts=True)  # type: ignore[arg-type]
    # Somebody may have made one of them in this moment: the database decides.
    kept = _holders(instance, model, [row.physical_name for row in new]) | before
    for row in rows:
        if row.state == State.DONE and kept.get(row.name) != instance.pk:
            row.state, row.reason = State.REFUSED, _HELD


def _holders(instance: Instance, model: type[Topic] | type[Group], names: list[str]) -> dict[str, int]:
    """The instance that has each of the names on the cluster."""
    held = model.objects.filter(cluster=instance.cluster_id, physical_name__in=names)
    return dict(held.values_list("physical_name", "instance_id"))


def _refusal(kind: Kind, name: str, there: OnCluster) -> str:
    if name not in there.names(kind):
        return f"The cluster has no such {kind} any more."
    if is_kept(name, there.kept):
        return "RocketMQ keeps this name for itself."
    return unholdable(name, group=kind is Kind.GROUP)


def _row(instance: Instance, kind: Kind, name: str, there: OnCluster) -> Topic | Group:
    found: Topic | Group
    if kind is Kind.TOPIC:
        found = topic_as_is(instance, name, name, there.topics[name])
    else:
        found = group_as_is(instance, name, name, there.groups[name])
        found.shared = True  # nobody made it here, so that it would be kept for its maker; policies still decide
    found.adopted = True
    return found


def _forget(instance: Instance, kind: Kind, rows: list[RunName]) -> None:
    held = model_of(kind).objects.filter(instance=instance, physical_name__in=[row.name for row in rows])
    names = set(held.values_list("physical_name", flat=True))
    Forgotten.objects.bulk_create(
        [Forgotten(cluster=instance.cluster, kind=kind, name=name) for name in names], ignore_conflicts=True
    )
    held.delete()
    for row in rows:
        row.state = State.DONE if row.name in names else State.REFUSED
        row.reason = "" if row.name in names else "The instance does not have this name."
