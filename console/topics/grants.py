"""Grants on topics (vendor operations empower/…): an owner lets another account, or a RAM user of its own, use one."""

from __future__ import annotations

from dataclasses import replace

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.accounts.delegation import require_sharing
from console.accounts.models import Tenant, User
from console.accounts.services.row_locks import hold
from console.audit import record as audit
from console.rights import access_table
from console.topics.models import Grant, Relation, Topic
from console.web.errors import Refused
from console.web.languages import gettext_lazy

_FIELD = "BIZ_FIELD_CHECK_INVALID"
_NO_ACCOUNT = gettext_lazy("There is no account with this account ID.")
_OWN = gettext_lazy("This is the topic's own account; it needs no grant.")


def grants_of(topic: Topic) -> QuerySet[Grant]:
    """The grants on a topic, oldest first, each with the account or user that received it."""
    return topic.grants.select_related("tenant", "user", "creator", "topic__instance__tenant").order_by("pk")


def find_grant(topic: Topic, uid: str) -> Grant | None:
    """The grant that the account or RAM user of this numeric ID has on the topic."""
    found = grants_of(topic)
    return found.filter(tenant__uid=uid).first() or found.filter(user__uid=uid).first()


def account_of(actor: Actor, uid: str) -> Tenant:
    """The other account of this numeric ID. Raises Refused when it is unknown or the caller's own."""
    found = Tenant.objects.filter(uid=uid.strip()).exclude(pk=actor.tenant.pk).first()
    if found is None:
        own = uid.strip() == actor.tenant.uid
        raise Refused(_FIELD, _OWN if own else _NO_ACCOUNT, "tenant")
    return found


def user_of(actor: Actor, uid: str) -> User:
    """The RAM user of this numeric ID (or user name) in the caller's account. Raises Refused for everybody else."""
    mine = User.objects.filter(tenant=actor.tenant, is_tenant_admin=False)
    found = mine.filter(Q(uid=uid.strip()) | Q(username=uid.strip())).first()
    if found is None:
        raise Refused(_FIELD, _("There is no such RAM user in this account."), "user")
    return found


@transaction.atomic
def create_grant(
    *, actor: Actor, topic: Topic, relation: int, tenant: Tenant | None = None, user: User | None = None
) -> Grant:
    """Grant `relation` (2 publish, 4 subscribe, 6 both) on a topic to another account or to an own RAM user.

    Raises Refused: EMPOWER_OWNER_CHECK_ERROR when the topic is not of the caller's account, EMPOWER_EXIST_ERROR when
    there is a grant already (also of another relation: it is revoked first), BIZ_FIELD_CHECK_INVALID otherwise;
    PermissionDenied for who does not act as the account and may not do itself what the grant allows.
    """
    _check_owner(actor, topic)
    if relation not in Relation.values:
        raise Refused(_FIELD, _("The relation is 2 (publish), 4 (subscribe) or 6 (both)."), "relation")
    _check_receiver(actor, tenant, user)
    # Held, since a topic or a user that is being deleted takes its grants along.
    user = hold(user) if user is not None else None
    if Topic.objects.select_for_update(no_key=True).filter(pk=topic.pk).first() is None:
        raise Refused("BIZ_TOPIC_NOT_FOUND", _("The topic %(topic)s no longer exists.") % {"topic": topic.name})
    _check_namesakes(topic, relation, tenant, user)
    grant = Grant(topic=topic, tenant=tenant, user=user, relation=relation, creator=actor.user)
    require_sharing(actor, grant.statement, mq_resource(topic.physical_name))
    try:
        with transaction.atomic():
            grant.save()
    except IntegrityError as error:
        message = _("%(grant)s has a grant on %(topic)s already; revoke it first.") % {
            "grant": receiver_name(grant),
            "topic": topic.name,
        }
        raise Refused("EMPOWER_EXIST_ERROR", message, "user" if user else "tenant") from error
    _record(actor, "topics.grant.create", grant)
    access_table.publish_on_commit()
    return grant


@transaction.atomic
def delete_grant(*, actor: Actor, grant: Grant) -> None:
    """Revoke a grant: clients of the receiver are refused within two seconds. Raises Refused as `create_grant`."""
    _check_owner(actor, grant.topic)
    if not Grant.objects.filter(pk=grant.pk).delete()[0]:
        raise Refused(
            "EMPOWER_NOT_FOUND", _("There is no such grant on %(name)s any more.") % {"name": grant.topic.name}
        )
    _record(actor, "topics.grant.delete", grant)
    access_table.publish_on_commit()


def record_end(actor: Actor, topic: Topic) -> None:
    """The topic is deleted and its grants with it: the accounts that had one read it in their trails."""
    for grant in grants_of(topic):
        _record(actor, "topics.grant.delete", grant)


def receiver_name(grant: Grant) -> str:
    """`umbrella` for an account, `bob@acme` for a RAM user."""
    return grant.user.username if grant.user is not None else str(grant.tenant)


def _check_owner(actor: Actor, topic: Topic) -> None:
    if topic.instance.tenant_id != actor.tenant.pk:
        raise Refused(
            "EMPOWER_OWNER_CHECK_ERROR",
            _("%(topic)s belongs to another account; only its owner can grant it.") % {"topic": topic.name},
        )


def _check_receiver(actor: Actor, tenant: Tenant | None, user: User | None) -> None:
    if (tenant is None) == (user is None):
        raise Refused(_FIELD, _("Name either an account or a RAM user."), "tenant")
    if tenant is not None and tenant.pk == actor.tenant.pk:
        raise Refused(_FIELD, _OWN, "tenant")
    if tenant is not None and not Tenant.objects.filter(pk=tenant.pk, enabled=True).exists():
        raise Refused(_FIELD, _NO_ACCOUNT, "tenant")  # that it is disabled is nobody else's business
    if user is not None and (user.tenant_id != actor.tenant.pk or user.is_tenant_admin):
        raise Refused(_FIELD, _("There is no such RAM user in this account."), "user")


def _check_namesakes(topic: Topic, relation: int, tenant: Tenant | None, user: User | None) -> None:
    """Rights name topics and no clusters: whoever has grants on namesakes on several has the same on each."""
    others = Grant.objects.filter(tenant=tenant, user=user, topic__physical_name=topic.physical_name)
    if others.exclude(topic__cluster=topic.instance.cluster_id).exclude(relation=relation).exists():
        raise Refused(
            "EMPOWER_EXIST_ERROR",
            _(
                "The receiver has another relation to a topic %(topic)s on another cluster; rights go by "
                "name, so both must be the same."
            )
            % {"topic": topic.name},
            "relation",
        )


def _record(actor: Actor, action: str, grant: Grant) -> None:
    """In the trails of both accounts. The receiver learns who did it, not from where nor with which key."""
    topic = grant.topic
    detail = {"to": receiver_name(grant), "relation": grant.relation, "owner": topic.instance.tenant.name}
    audit.record(actor, action, topic.physical_name, detail=detail)
    if grant.tenant is not None:
        audit.record(
            replace(actor, source_ip="", access_key_id=""),
            action,
            topic.physical_name,
            detail=detail,
            tenant=grant.tenant,
        )
