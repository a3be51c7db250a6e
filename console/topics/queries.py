"""Reads of topics and groups. The tenant, or the actor whose rights narrow the list, comes first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.accounts.models import Tenant, User
from console.instances.models import Instance
from console.topics.access import received_grants
from console.topics.models import Grant, Group, Topic, group_holder

_Row = TypeVar("_Row", Topic, Group)
_ROWS_AT_ONCE = 2_000
_MANY_KEYS = 100


def topics(tenant: Tenant, instance: Instance) -> QuerySet[Topic]:
    """The topics of one of the tenant's instances, by name."""
    return Topic.objects.filter(instance=instance, instance__tenant=tenant).order_by("name")


def groups(tenant: Tenant, instance: Instance) -> QuerySet[Group]:
    """The tenant's groups in an instance, by group ID; the instance is its own, or holds topics granted to it."""
    return Group.objects.filter(instance=instance, owner=tenant).order_by("group_id")


def visible_topics(
    actor: Actor, instance: Instance, action: str = "mq:QueryTopic", *, text: str = ""
) -> QuerySet[Topic]:
    """The topics of an instance on which the actor may do `action`; in another account's, of those granted to it.

    With `text` of those that have it in their names: the fewer there are, the fewer are decided about.
    """
    own = instance.tenant_id == actor.tenant.pk
    found = topics(actor.tenant, instance) if own else granted_topics(actor, instance)
    if text:
        found = found.filter(name__icontains=text)
    if own and actor.is_account:
        return found
    return _allowed_topics(actor, found, action, instance)


def granted_topics(actor: Actor, instance: Instance, action: str = "mq:QueryTopic") -> QuerySet[Topic]:
    """The topics of another account's instance that were granted and on which the actor may do `action`, by name."""
    found = Topic.objects.filter(instance=instance, pk__in=received_grants(actor).values("topic")).order_by("name")
    if actor.is_account:
        return found
    return _allowed_topics(actor, found, action, instance)


def visible_groups(
    actor: Actor, instance: Instance, action: str = "mq:QueryGroup", *, text: str = ""
) -> QuerySet[Group]:
    """The groups of an instance on which the actor may do `action`; with `text` of those that have it in their IDs."""
    found = groups(actor.tenant, instance)
    if text:
        found = found.filter(group_id__icontains=text)
    return _allowed_groups(actor, found, action)


def visible_groups_in(actor: Actor, instances: Iterable[Instance], action: str = "mq:QueryGroup") -> QuerySet[Group]:
    """As `visible_groups` of several instances, for as many questions to the database as for one."""
    return _allowed_groups(actor, Group.objects.filter(instance__in=instances, owner=actor.tenant), action)


def _allowed_groups(actor: Actor, found: QuerySet[Group], action: str) -> QuerySet[Group]:
    if actor.is_account:
        return found
    holders, resources = {}, {}
    columns = ("pk", "physical_name", "shared", "creator__username", "creator__is_tenant_admin")
    holder_of = cache(partial(_holder, actor.tenant.uid))
    for pk, physical_name, *made in _rows(found, *columns):
        resources[pk] = resource = mq_resource(physical_name)
        holders[resource] = holder_of(*made)
    return _narrowed(found, resources, actor.allowed(action, holders, owner=actor.tenant))


def _holder(uid: str, shared: bool, creator: str | None, by_admin: bool | None) -> str:
    return group_holder(uid, "" if by_admin else creator or "", shared=shared)


def shared_by_me(actor: Actor, text: str = "") -> QuerySet[Grant]:
    """Grants on topics of the actor's account that the actor may see; `text`: in a topic's or receiver's name."""
    found = _grants().filter(topic__instance__tenant=actor.tenant)
    found = found.filter(
        Q(topic__name__icontains=text) | Q(tenant__name__icontains=text) | Q(user__username__icontains=text)
    )
    return found if actor.is_account else _visible(actor, found)


def shared_with_me(actor: Actor, text: str = "") -> QuerySet[Grant]:
    """Grants that the actor's account or the actor received; `text` is part of a topic's or owner's name."""
    found = _grants().filter(pk__in=received_grants(actor).values("pk"))
    found = found.filter(Q(topic__name__icontains=text) | Q(topic__instance__tenant__name__icontains=text))
    return found if actor.is_account else _visible(actor, found)


def ram_user_names(tenant: Tenant, limit: int) -> list[str]:
    """User names of the account's RAM users to choose from, at most `limit`."""
    users = User.objects.filter(tenant=tenant, is_tenant_admin=False, is_active=True).order_by("username")
    return list(users.values_list("username", flat=True)[:limit])


def _grants() -> QuerySet[Grant]:
    return Grant.objects.select_related("topic__instance__tenant", "tenant", "user", "creator")


def _visible(actor: Actor, found: QuerySet[Grant]) -> QuerySet[Grant]:
    """Of these grants, those on topics that the actor may see: what its policies say holds for lists too."""
    return found.filter(
        pk__in=[
            grant.pk
            for grant in found
            if actor.decide(
                "mq:QueryTopic", mq_resource(grant.topic.physical_name), owner=grant.topic.instance.tenant
            ).allowed
        ]
    )


def _allowed_topics(actor: Actor, found: QuerySet[Topic], action: str, instance: Instance) -> QuerySet[Topic]:
    resources = {pk: mq_resource(name) for pk, name in _rows(found, "pk", "physical_name")}
    allowed = actor.allowed(action, dict.fromkeys(resources.values(), ""), owner=instance.tenant)
    return _narrowed(found, resources, allowed)


def _rows(found: QuerySet[_Row], *columns: str) -> Iterator[tuple[Any, ...]]:
    """These columns of all rows, in no order. Thousands kept at once make Python look through all that it has."""
    return found.order_by().values_list(*columns).iterator(_ROWS_AT_ONCE)


def _narrowed(found: QuerySet[_Row], resources: dict[int, str], allowed: set[str]) -> QuerySet[_Row]:
    """The rows whose resource is allowed; a list of thousands of keys is spared when all or none are, or nearly so."""
    others = [pk for pk, resource in resources.items() if resource not in allowed]
    if not others:
        return found
    if len(others) < len(allowed):
        return found.exclude(pk__in=_keys(others))
    return found.filter(pk__in=_keys([pk for pk, resource in resources.items() if resource in allowed]))


def _keys(keys: list[int]) -> RawSQL | list[int]:
    """The keys as one parameter: as thousands, each query that is made of the rows spends most of its time on them."""
    if len(keys) < _MANY_KEYS:
        return keys
    one = "SELECT unnest(%s::bigint[])" if connection.vendor == "postgresql" else "SELECT value FROM json_each(%s)"
    value = keys if connection.vendor == "postgresql" else json.dumps(keys)
    return RawSQL(one, [value])  # noqa: S611  # nosec B611 - a constant text; the keys are a parameter
