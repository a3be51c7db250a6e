"""What people ask for: runs that adopt or forget many names, and rules. A worker does the runs (`worker`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from brokercore.client.errors import GroupNotExist, TopicNotExist
from console.accounts.actor import Actor
from console.accounts.models import Tenant, User
from console.adoption import queries
from console.adoption.models import Forgotten, Kind, Purpose, Rule, Run, RunName, State, model_of
from console.adoption.patterns import checked
from console.adoption.preview import preview
from console.adoption.queries import Adopted
from console.adoption.unowned import Unowned, is_kept
from console.audit import record as audit
from console.celery import app
from console.instances import broker
from console.instances import services as instances
from console.instances.models import Cluster, Instance
from console.web.after_commit import after_commit
from console.web.errors import Refused

MOST_NAMES = 100_000
_FIELD = "BIZ_FIELD_CHECK_INVALID"
_WORK = "console.adoption.tasks.work"
_TOO_MANY = {Kind.TOPIC: "BIZ_TOPIC_QUOTA_EXCEEDED", Kind.GROUP: "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED"}


def instance_for(*, actor: Actor, tenant: Tenant, cluster: Cluster, name: str = "") -> Instance:
    """The account's instance without namespace on a cluster, made when there is none yet. Raises Refused."""
    found = queries.bare_instance(tenant, cluster)
    return found or instances.create_instance(
        actor=actor,
        cluster=cluster.name,
        name=name or f"{cluster.name}"[:64],
        independent_naming=False,
        remark="Names as they are on the cluster",
        tenant=tenant,
    )


@transaction.atomic
def adopt(*, actor: Actor, instance: Instance, names: Iterable[Unowned]) -> Run:
    """Take names into an instance without namespace, as they are; nothing changes on the cluster.

    A worker does it in steps. Names that cannot be taken are told with the run. Raises Refused, also where they are
    more than the account or the instance may have.
    """
    wanted = list(names)
    for kind, reason in preview(wanted, instance.tenant, instance).too_many.items():
        raise Refused(_TOO_MANY[kind], reason, "account")
    run = _run(actor, instance, Purpose.ADOPT, [(one.kind, one.name) for one in wanted])
    # Who adopts by hand what was forgotten wants it back.
    for kind in Kind:
        back = [one.name for one in wanted if one.forgotten and one.kind is kind]
        for start in range(0, len(back), 500):
            Forgotten.objects.filter(cluster=instance.cluster, kind=kind, name__in=back[start : start + 500]).delete()
    return run


@transaction.atomic
def adopt_for(
    *,
    actor: Actor,
    cluster: Cluster,
    names: Iterable[Unowned],
    tenant: Tenant | None,
    make: Callable[[], User] | None = None,
    instance_name: str = "",
) -> Run:
    """Adopt into the account's instance without namespace; `make` makes the account where there is none.

    All of it happens, or nothing. Raises Refused.
    """
    owner = tenant or (make().tenant if make else None)
    if owner is None:
        raise Refused(_FIELD, _("The administrator of the platform has no instances."), "account")
    return adopt(
        actor=actor, instance=instance_for(actor=actor, tenant=owner, cluster=cluster, name=instance_name), names=names
    )


@transaction.atomic
def forget(*, actor: Actor, instance: Instance, names: Iterable[tuple[str, str]]) -> Run:
    """Let go of names (kind and name) of an instance without namespace; the cluster keeps them. Raises Refused."""
    return _run(actor, instance, Purpose.FORGET, list(names))


@transaction.atomic
def forget_each(*, actor: Actor, names: Iterable[Adopted]) -> list[Run]:
    """Let go of adopted names, by a run for each instance that has some of them. Raises Refused for none."""
    by_instance: dict[int, list[tuple[str, str]]] = {}
    for one in names:
        by_instance.setdefault(one.instance_pk, []).append((one.kind, one.name))
    if not by_instance:
        raise Refused(_FIELD, _("No name was chosen."), "include")
    found = Instance.objects.select_related("tenant", "cluster").in_bulk(by_instance)
    return [forget(actor=actor, instance=found[pk], names=chosen) for pk, chosen in by_instance.items()]


def undo(*, actor: Actor, run: Run) -> Run:
    """Forget what a run has adopted. Raises Refused when there is nothing."""
    taken = list(run.names.filter(state=State.DONE).values_list("kind", "name"))
    if run.purpose != Purpose.ADOPT or not taken:
        raise Refused(_FIELD, _("There is nothing that could be forgotten."))
    return forget(actor=actor, instance=run.instance, names=taken)


@transaction.atomic
def create_rule(*, actor: Actor, instance: Instance, include: str, exclude: str = "", kind: str = "") -> Rule:
    """Names of the instance's cluster that fit belong to it from now on. Raises Refused."""
    include, exclude = checked(include, "include"), checked(exclude, "exclude")
    if not include:
        raise Refused(_FIELD, _("A rule needs a pattern, such as payments-* or *."), "include")
    _require_bare(instance)
    rule = Rule(
        cluster=instance.cluster,
        instance=instance,
        include=include,
        exclude=exclude,
        kind=kind,
        creator=actor.name[:150],
    )
    try:
        with transaction.atomic():
            rule.save()
    except IntegrityError as error:
        raise Refused("BIZ_RULE_EXISTED", _("There is such a rule already."), "include") from error
    audit.record(actor, "adoption.rule.create", str(rule.pk), detail=described(rule), tenant=instance.tenant)
    return rule


@transaction.atomic
def create_rule_for(
    *, actor: Actor, tenant: Tenant, cluster: Cluster, include: str, exclude: str = "", kind: str = ""
) -> Rule:
    """A rule for the account's instance without namespace, which is made where there is none. Raises Refused."""
    instance = instance_for(actor=actor, tenant=tenant, cluster=cluster)
    return create_rule(actor=actor, instance=instance, include=include, exclude=exclude, kind=kind)


@transaction.atomic
def delete_rule(*, actor: Actor, rule: Rule) -> None:
    """End a rule; what it has taken stays where it is."""
    audit.record(actor, "adoption.rule.delete", str(rule.pk), detail=described(rule), tenant=rule.instance.tenant)
    rule.delete()


def delete_from_cluster(*, actor: Actor, cluster: Cluster, name: Unowned) -> None:
    """Delete what no account has from the cluster, with its messages or offsets. Raises Refused, ClientError."""
    admin = broker.admin(cluster)
    there = model_of(name.kind).objects.filter(physical_name=name.name, cluster=cluster)
    if there.exists() or is_kept(name.name, frozenset()):
        raise Refused(_FIELD, _("%(name)s belongs to an account now; delete it on its own page.") % {"name": name.name})
    try:
        if name.kind is Kind.TOPIC:
            admin.topics.delete(name.name)
        else:
            admin.groups.delete(name.name)
    except (TopicNotExist, GroupNotExist) as error:
        text = (
            _("The cluster has no topic %(name)s any more.")
            if name.kind is Kind.TOPIC
            else _("The cluster has no group %(name)s any more.")
        )
        raise Refused(_FIELD, text % {"name": name.name}) from error
    audit.record(actor, f"adoption.{name.kind}.delete", name.name, detail={"cluster": cluster.name})


def described(rule: Rule) -> dict[str, object]:
    """What the audit trail says of a rule."""
    return {
        "cluster": rule.cluster.name,
        "instance": rule.instance.instance_id,
        "include": rule.include,
        "exclude": rule.exclude,
        "kind": rule.kind or "topics and groups",
    }


def add_run(instance: Instance, purpose: Purpose, names: list[tuple[str, str]], **facts: object) -> Run:
    """A run with its names, for a worker to do. Raises Refused for an instance with a namespace and for no names."""
    _require_bare(instance)
    if not names:
        raise Refused(_FIELD, _("No name was chosen."), "include")
    if len(names) > MOST_NAMES:
        raise Refused(
            _FIELD,
            _("At most %(most_names)s names go at once; choose fewer by pattern.") % {"most_names": f"{MOST_NAMES:,}"},
            "include",
        )
    run = Run.objects.create(cluster=instance.cluster, instance=instance, purpose=purpose, **facts)
    rows = [RunName(run=run, kind=kind, name=name) for kind, name in dict.fromkeys(names)]
    RunName.objects.bulk_create(rows, batch_size=500)
    return run


def _require_bare(instance: Instance) -> None:
    if instance.independent_naming:
        reason = _("%(instance)s has a namespace: names as they are need an instance without.") % {
            "instance": instance.name
        }
        raise Refused(_FIELD, reason, "instance")


def _run(actor: Actor, instance: Instance, purpose: Purpose, names: list[tuple[str, str]]) -> Run:
    run = add_run(instance, purpose, names, requester=actor.name[:150], source_ip=actor.source_ip)
    detail = {
        "cluster": instance.cluster.name,
        "instance": instance.instance_id,
        "names": len(names),
        "first": [n for _unused, n in names[:20]],
    }
    audit.record(actor, f"adoption.run.{purpose}", str(run.pk), detail=detail, tenant=instance.tenant)
    # Lost with Redis, it is found by the sweep.
    after_commit(app.send_task, _WORK, [run.pk], retry=False)
    return run
