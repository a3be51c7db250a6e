"""Writes of instances (vendor operations instance/create, update, delete)."""

from __future__ import annotations

import re
import secrets
import string

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from brokercore.names import DEFAULT_CLUSTER
from console.accounts.actor import Actor
from console.accounts.models import ResourceSet, Tenant
from console.accounts.organizations import ids_below
from console.audit import record as audit
from console.instances import queries
from console.instances.contents import contents
from console.instances.models import DEFAULT_TPS, Cluster, Instance, Origin
from console.rights import access_table
from console.web import regions
from console.web.errors import Refused

MAX_INSTANCES = 500
_FIELD = "BIZ_FIELD_CHECK_INVALID"
_ID_CHARACTERS = string.ascii_letters + string.digits


def ensure_cluster() -> Cluster:
    """The row of the first cluster: the embedded one, or that which GANTRY_NAMESRV names. Others stay as they are.

    The clusters of settings, of now and of before, are of the default region, and so are their instances. Raises
    Refused when an account has other instances of the same names there.
    """
    origin = Origin.EMBEDDED if settings.EMBEDDED_BROKER else Origin.SETTINGS
    cluster = Cluster.objects.filter(origin=origin).first() or Cluster(origin=origin, name=_first_name())
    cluster.namesrv = settings.NAMESRV
    cluster.region = regions.default()
    with transaction.atomic():
        cluster.save()
        Cluster.objects.exclude(origin=Origin.ADDED).update(region=cluster.region)
        for one in Cluster.objects.exclude(origin=Origin.ADDED):
            follow_cluster(one)
    return cluster


def follow_cluster(cluster: Cluster) -> None:
    """Say that the instances of a cluster, whose row was saved in this transaction, are of its region.

    Nothing changes on its brokers. Raises Refused when an account has another instance of the same name there.
    """
    region = cluster.region
    moved = Instance.objects.filter(cluster=cluster).exclude(region=region)
    there = Instance.objects.filter(region=region).exclude(cluster=cluster)
    for one in moved.select_related("tenant"):
        if there.filter(tenant=one.tenant, name=one.name).exists():
            message = _("%(account)s has another instance %(name)s in the region %(region)s; rename one of them.") % {
                "account": one.tenant.name,
                "name": one.name,
                "region": region,
            }
            raise Refused("BIZ_INSTANCE_EXISTED", message, "region")
    if moved.update(region=region):
        access_table.publish_on_commit()


def _first_name() -> str:
    """The usual name, unless another cluster has it: then that of its first name server."""
    taken = set(Cluster.objects.values_list("name", flat=True))
    host = re.split("[:;]", settings.NAMESRV)[0]
    names = (DEFAULT_CLUSTER, host[:64], *(f"{host[:60]}-{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken)


@transaction.atomic
def create_instance(
    *,
    actor: Actor,
    cluster: str,
    name: str,
    independent_naming: bool,
    region: str = "",
    remark: str = "",
    max_send_tps: int = DEFAULT_TPS,
    max_receive_tps: int = DEFAULT_TPS,
    topic_capacity: int | None = None,
    resource_set: ResourceSet | None = None,
    tenant: Tenant | None = None,
) -> Instance:
    """Create an instance; `independent_naming` gives it a namespace. Raises Refused for every broken rule.

    `region` is the one that the cluster is to be of; left out, it is the cluster's, whichever that is.
    `resource_set` is one of the account's organization or of one below it. `tenant` is the account, of which the actor
    may be the platform's administrator; left out: the actor's own.
    """
    owner = tenant or actor.tenant
    found = _cluster(cluster, region)
    name, remark = _checked_name(name), _checked_remark(remark)
    _check_limits(max_send_tps, max_receive_tps, topic_capacity)
    _check_resource_set(owner, resource_set)
    # The lock keeps two writers from both making the last instance.
    Tenant.objects.select_for_update().get(pk=owner.pk)
    mine = Instance.objects.filter(tenant=owner, region=found.region)
    if mine.count() >= MAX_INSTANCES:
        raise Refused(
            "BIZ_INSTANCE_QUOTA_EXCEEDED",
            _("There are %(max_instances)s instances already.") % {"max_instances": MAX_INSTANCES},
        )
    _check_free(owner, found.region, name)
    if not independent_naming and mine.filter(independent_naming=False, cluster=found).exists():
        raise _default_exists(found)
    instance = Instance(
        instance_id=f"MQ_INST_{owner.uid}_{''.join(secrets.choice(_ID_CHARACTERS) for _unused in range(8))}",
        tenant=owner,
        cluster=found,
        region=found.region,
        name=name,
        independent_naming=independent_naming,
        remark=remark,
        max_send_tps=max_send_tps,
        max_receive_tps=max_receive_tps,
        topic_capacity=topic_capacity,
        resource_set=resource_set,
    )
    _save(instance)
    audit.record(actor, "instances.instance.create", instance.instance_id, detail=_described(instance), tenant=owner)
    access_table.publish_on_commit()
    return instance


def _cluster(name: str, region: str) -> Cluster:
    """The cluster of this name, which is of the region that was asked for. Raises Refused."""
    if region:
        regions.checked(region)
    found = queries.clusters(region)
    cluster = found.filter(name=name).first()
    if cluster is None:
        message = _("The cluster %(cluster)s does not exist.") % {"cluster": name}
        if region and regions.are_several():
            names = ", ".join(one.name for one in found)
            message = (
                _("The cluster %(cluster)s does not exist in the region %(region)s; its clusters are %(names)s.")
                if names
                else _("The cluster %(cluster)s does not exist in the region %(region)s; it has no cluster.")
            ) % {"cluster": name, "region": region, "names": names}
        raise Refused("BIZ_CLUSTER_NOT_FOUND", message, "cluster")
    if cluster.region not in settings.REGIONS:
        message = _("The cluster %(cluster)s is of the region %(region)s, which does not exist.") % {
            "cluster": name,
            "region": cluster.region,
        }
        raise Refused(regions.NOT_FOUND, message, "cluster")
    return cluster


@transaction.atomic
def update_instance(*, actor: Actor, instance: Instance, name: str, remark: str) -> None:
    """Rename or describe an instance; its namespace never changes."""
    name, remark = _checked_name(name), _checked_remark(remark)
    if name != instance.name:
        _check_free(actor.tenant, instance.region, name)
    before = {"name": instance.name, "remark": instance.remark}
    instance.name, instance.remark = name, remark
    _save(instance)
    detail = {"before": before, "after": {"name": name, "remark": remark}}
    audit.record(actor, "instances.instance.update", instance.instance_id, detail=detail)


@transaction.atomic
def set_resource_set(*, actor: Actor, instance: Instance, resource_set: ResourceSet | None) -> None:
    """Put an instance into a resource set of the account's organization, or into none."""
    if instance.resource_set_id == (resource_set.pk if resource_set else None):
        return
    _check_resource_set(actor.tenant, resource_set)
    instance.resource_set = resource_set
    instance.save(update_fields=["resource_set"])
    audit.record(actor, "instances.instance.move", instance.instance_id, detail=_described(instance))


@transaction.atomic
def set_rates(*, actor: Actor, instance: Instance, max_send_tps: int, max_receive_tps: int) -> None:
    """Set how many messages a second clients may send and receive. Raises Refused."""
    if (max_send_tps, max_receive_tps) == (instance.max_send_tps, instance.max_receive_tps):
        return
    _check_limits(max_send_tps, max_receive_tps, instance.topic_capacity)
    instance.max_send_tps, instance.max_receive_tps = max_send_tps, max_receive_tps
    instance.save(update_fields=["max_send_tps", "max_receive_tps"])
    rates = {"max_send_tps": max_send_tps, "max_receive_tps": max_receive_tps}
    audit.record(actor, "instances.instance.limit", instance.instance_id, detail=rates)
    access_table.publish_on_commit()


@transaction.atomic
def change_instance(
    *,
    actor: Actor,
    instance: Instance,
    name: str,
    remark: str,
    resource_set: ResourceSet | None,
    max_send_tps: int,
    max_receive_tps: int,
) -> None:
    """All that the page of an instance can change, or nothing of it."""
    update_instance(actor=actor, instance=instance, name=name, remark=remark)
    set_rates(actor=actor, instance=instance, max_send_tps=max_send_tps, max_receive_tps=max_receive_tps)
    set_resource_set(actor=actor, instance=instance, resource_set=resource_set)


@transaction.atomic
def delete_instance(*, actor: Actor, instance: Instance) -> None:
    """Delete an instance of which the account has neither topics nor groups.

    Groups that other accounts made for topics shared with them are of no use without a topic: they go with it.
    """
    hold_instance(instance)
    contents.get().clear(actor=actor, instance=instance)
    audit.record(actor, "instances.instance.delete", instance.instance_id, detail={"name": instance.name})
    instance.delete()
    access_table.publish_on_commit()


def hold_instance(instance: Instance) -> None:
    """Keep an instance from being deleted until the transaction ends. Raises Refused when it was."""
    # No lock on the key itself: rows that only refer to the instance are not held up.
    if Instance.objects.select_for_update(no_key=True).filter(pk=instance.pk).first() is None:
        raise Refused(
            "BIZ_INSTANCE_NOT_FOUND", _("The instance %(instance)s no longer exists.") % {"instance": instance.name}
        )


def _save(instance: Instance) -> None:
    """Two writers may race for a name: the database decides, and the loser gets the documented answer."""
    try:
        with transaction.atomic():
            instance.save()
    except IntegrityError as error:
        if "one_default_instance" in str(error):
            raise _default_exists(instance.cluster) from error
        raise Refused(
            "BIZ_INSTANCE_EXISTED", _("The instance name %(instance)s is taken.") % {"instance": instance.name}, "name"
        ) from error


def _default_exists(cluster: Cluster) -> Refused:
    message = _("There is already an instance without a namespace on %(cluster)s.") % {"cluster": cluster.name}
    return Refused("BIZ_INSTANCE_DEFAULT_EXISTED", message, "independent_naming")


def _described(instance: Instance) -> dict[str, object]:
    """What the audit trail says of an instance."""
    found: dict[str, object] = {"name": instance.name}
    if instance.resource_set is not None:
        found |= {"resource_set": instance.resource_set.name, "resource_set_id": instance.resource_set_id}
    return found


def _check_free(tenant: Tenant, region: str, name: str) -> None:
    if Instance.objects.filter(tenant=tenant, region=region, name=name).exists():
        raise Refused("BIZ_INSTANCE_EXISTED", _("The instance name %(name)s is taken.") % {"name": name}, "name")


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 3 <= len(name) <= 64 or not name.isprintable():
        raise Refused(_FIELD, _("An instance name has 3 to 64 printable characters."), "name")
    return name


def _checked_remark(remark: str) -> str:
    if len(remark) > 256:
        raise Refused(_FIELD, _("A remark has at most 256 characters."), "remark")
    return remark.strip()


def _check_resource_set(tenant: Tenant, resource_set: ResourceSet | None) -> None:
    """Other organizations' sets look as if they did not exist."""
    if resource_set is not None and resource_set.organization_id not in ids_below(tenant.organization):
        raise Refused(_FIELD, _("There is no such resource set in the account's organization."), "resource_set")


def _check_limits(max_send_tps: int, max_receive_tps: int, topic_capacity: int | None) -> None:
    if max_send_tps < 1:
        raise Refused(_FIELD, _("The limit of sent messages per second is at least 1."), "max_send_tps")
    if max_receive_tps < 1:
        raise Refused(_FIELD, _("The limit of received messages per second is at least 1."), "max_receive_tps")
    if topic_capacity is not None and topic_capacity < 1:
        raise Refused(_FIELD, _("The topic capacity is at least 1, or not given."), "topic_capacity")
