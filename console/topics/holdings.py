"""What accounts, rights and instances ask of topics, groups and grants, as the protocols there say it."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from brokercore.names import group_of
from brokercore.policy import Statement, mq_resource
from brokercore.policy.table import RateRow
from console.accounts.actor import Actor
from console.accounts.models import Tenant, User
from console.instances.models import Cluster, Instance, Origin
from console.rights.resources import Granted, Target
from console.topics import services
from console.topics.models import Grant, Group, Topic, group_holder
from console.web.errors import Refused


def granted_to_user(user_id: int) -> tuple[Statement, ...]:
    """Statements of the grants that the user received itself."""
    return tuple(statement for _unused, statement in _granted(Grant.objects.filter(user_id=user_id)))


def granted_to_account(tenant_id: int) -> tuple[Statement, ...]:
    """Statements of the grants that the account received."""
    return tuple(grant.statement for grant in Grant.objects.filter(tenant_id=tenant_id).select_related("topic"))


def granted_to_users(users: list[User]) -> Iterable[tuple[int, Statement]]:
    """Statements of the grants that any of the users received itself, each with the user's id."""
    return _granted(Grant.objects.filter(user__in=users))


def _granted(grants: QuerySet[Grant]) -> Iterable[tuple[int, Statement]]:
    for grant in grants.select_related("topic__instance"):
        for statement in filter(None, (grant.statement, grant.of_instance)):
            yield grant.user_id, statement  # type: ignore[misc]


def groups_made_by(users: list[User]) -> Iterable[tuple[int, str]]:
    """The maker's id and the physical name of each group that any of the users made."""
    return Group.objects.filter(creator__in=users).values_list("creator", "physical_name")


def groups_kept_from(user: User, tenant: Tenant) -> list[tuple[int | None, str]]:
    """The maker's id and the physical name of the account's groups that are neither shared nor made by the user."""
    rows = Group.objects.filter(owner=tenant, shared=False).order_by("pk")
    return list(rows.exclude(creator=user).values_list("creator", "physical_name"))


def grants(cluster: int | None = None) -> Iterable[Granted]:
    """All grants on topics of a cluster."""
    for grant in Grant.objects.filter(_on(cluster, "topic__cluster")).select_related("topic"):
        yield Granted(grant.user_id, grant.tenant_id, grant.statement)


def region(cluster: int) -> str:
    """The region of the cluster of this row; a row that is gone has none."""
    return Cluster.objects.filter(pk=cluster).values_list("region", flat=True).first() or ""


def holders(cluster: int | None = None) -> dict[str, str]:
    """Who may use each group of a cluster, by its physical name (`brokercore.policy.Grantee.holders`)."""
    rows = Group.objects.filter(_on(cluster, "cluster")).values_list(
        "physical_name", "owner__uid", "creator__username", "creator__is_tenant_admin", "shared"
    )
    return {
        name: group_holder(uid, "" if is_admin else creator or "", shared=shared)
        for name, uid, creator, is_admin, shared in rows
    }


def owners(cluster: int | None = None) -> dict[str, str]:
    """Whose each topic of a default instance on a cluster is; the others' names tell it."""
    rows = Topic.objects.filter(_on(cluster, "cluster"), instance__independent_naming=False)
    return dict(rows.values_list("physical_name", "instance__tenant__uid"))


def rates() -> Iterable[tuple[str, RateRow]]:
    """How fast the clients of each instance on the embedded brokers may be, by its id or the uid of its account."""
    rows = Instance.objects.filter(cluster__origin=Origin.EMBEDDED).order_by("pk")
    fields = ("instance_id", "tenant__uid", "independent_naming", "max_send_tps", "max_receive_tps")
    for instance_id, uid, independent_naming, sent, received in rows.values_list(*fields):
        yield instance_id if independent_naming else uid, RateRow(instance_id, sent, received)


def _on(cluster: int | None, field: str) -> Q:
    """What is on the cluster of this row, or else on the embedded one."""
    return Q(**{f"{field}__origin": Origin.EMBEDDED}) if cluster is None else Q(**{field: cluster})


def topics_of(tenant: Tenant) -> int:
    """How many topics the account has."""
    return Topic.objects.filter(instance__tenant=tenant).count()


def groups_of(tenant: Tenant) -> int:
    """How many groups the account made, in instances of others too."""
    return Group.objects.filter(owner=tenant).count()


def names_like(tenant: Tenant, text: str, most: int) -> list[str]:
    """The first instances, topics and groups of the account that fit, `most` of each, as they stand in resources."""
    topics = Topic.objects.filter(instance__tenant=tenant).filter(Q(name__icontains=text) | Q(physical_name=text))
    groups = Group.objects.filter(owner=tenant).filter(Q(group_id__icontains=text) | Q(physical_name=text))
    instances = Instance.objects.filter(tenant=tenant).filter(Q(name__icontains=text) | Q(instance_id__icontains=text))
    return [
        *instances.order_by("instance_id").values_list("instance_id", flat=True)[:most],
        *topics.order_by("name").values_list("physical_name", flat=True)[:most],
        *groups.order_by("group_id").values_list("physical_name", flat=True)[:most],
    ]


def named(tenant: Tenant, name: str) -> Target:
    """The instance, topic or group that a name on the wire means to the account.

    Of other accounts nothing is looked up but that they are others.
    """
    resource = mq_resource(name)
    bare = group_of(name) or name
    groups = Group.objects.filter(physical_name=bare).select_related("owner", "creator")
    group = groups.filter(owner=tenant).first() or groups.first()
    if group is not None and group.owner_id == tenant.pk:
        sharing = (
            _("shared: policies decide")
            if group.shared
            else _("used by %(creator)s and the account") % {"creator": group.creator or tenant}
        )
        return Target(
            mq_resource(bare), tenant, group.holder, _("A group of the account, %(sharing)s.") % {"sharing": sharing}
        )
    topics = Topic.objects.filter(physical_name=name).select_related("instance__tenant")
    topic = topics.filter(instance__tenant=tenant).first() or topics.first()
    if topic is not None and topic.instance.tenant_id == tenant.pk:
        return Target(
            resource,
            tenant,
            about=_("A topic of instance %(instance_id)s.") % {"instance_id": topic.instance.instance_id},
        )
    uid = name.removeprefix("MQ_INST_").partition("_")[0] if name.startswith("MQ_INST_") else ""
    if group is not None or topic is not None or (uid and uid != tenant.uid):
        return Target(resource, Tenant(uid=uid), about=_("It belongs to another account: only grants count."))
    return Target(resource, tenant)


def counted(instances: QuerySet[Instance]) -> QuerySet[Instance]:
    """The same instances, each with `topic_count` and `group_count`."""
    # Two joins would count every topic once for every group: twelve million rows for one large instance.
    return instances.annotate(topic_count=_count_of(Topic), group_count=_count_of(Group))


def _count_of(model: type[Topic | Group]) -> Coalesce:
    rows = model.objects.filter(instance=OuterRef("pk")).order_by().values("instance")
    return Coalesce(Subquery(rows.annotate(number=Count("pk")).values("number")), 0)


def clear(*, actor: Actor, instance: Instance) -> None:
    """Delete the groups that other accounts made here for topics shared with them: no topic is left for them.

    Raises Refused BIZ_INSTANCE_NOT_EMPTY when the instance's account still has topics or groups in it.
    """
    if instance.topics.exists() or instance.groups.filter(owner=instance.tenant).exists():
        raise Refused(
            "BIZ_INSTANCE_NOT_EMPTY",
            _("%(instance)s still has topics or groups; delete them first.") % {"instance": instance.name},
        )
    for group in instance.groups.select_related("instance__cluster", "owner"):
        services.delete_group(actor=actor, group=group)
