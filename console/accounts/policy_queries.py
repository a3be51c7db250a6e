"""Reads of policies, roles and their sessions. The tenant comes first; no list loads all of an account."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from console.accounts.models import AccessKey, Policy, Role, Tenant, User, UserGroup

#: How many holders of a policy its page names; it counts all.
HOLDERS = 50


def policies(tenant: Tenant, text: str = "", kind: str = "") -> QuerySet[Policy]:
    """System policies and the tenant's own with `attached`: to how many users, groups and roles of the tenant."""
    found = Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant))
    if kind:
        found = found.filter(tenant__isnull=kind == "system")
    if text:
        found = found.filter(Q(name__icontains=text) | Q(description__icontains=text))
    attached = (
        _count(User.policies.through, user__tenant=tenant)
        + _count(UserGroup.policies.through, usergroup__tenant=tenant)
        + _count(Role.policies.through, role__tenant=tenant)
    )
    return found.annotate(attached=attached).order_by(F("tenant_id").asc(nulls_first=True), "name")


def policy(tenant: Tenant, name: str) -> Policy | None:
    """A system policy or one of the tenant's own."""
    return policies(tenant).filter(name=name).first()


def holders(tenant: Tenant, policy: Policy) -> list[tuple[str, list[Any]]]:
    """To whom in the tenant a policy is attached, the first few of each kind: users, groups, roles."""
    return [
        ("users", list(User.objects.filter(tenant=tenant, policies=policy).order_by("username")[:HOLDERS])),
        ("groups", list(UserGroup.objects.filter(tenant=tenant, policies=policy).order_by("name")[:HOLDERS])),
        ("roles", list(Role.objects.filter(tenant=tenant, policies=policy).order_by("name")[:HOLDERS])),
    ]


def roles(tenant: Tenant, text: str = "", state: str = "") -> QuerySet[Role]:
    """The tenant's roles with their policies and `sessions`, how many live ones they have, by name."""
    found = Role.objects.filter(tenant=tenant).select_related("tenant").prefetch_related("policies")
    if text:
        found = found.filter(Q(name__icontains=text) | Q(description__icontains=text))
    live = AccessKey.objects.filter(role=OuterRef("pk"), expires_at__gt=timezone.now(), enabled=True)
    counted = live.order_by().values("role").annotate(n=Count("pk")).values("n")
    found = found.annotate(sessions=Coalesce(Subquery(counted, output_field=IntegerField()), 0))
    if state:
        found = found.filter(Exists(live) if state == "used" else ~Exists(live))
    return found.order_by("name")


def role(tenant: Tenant, name: str) -> Role | None:
    """One role of the tenant."""
    return roles(tenant).filter(name=name).first()


def sessions(role: Role) -> QuerySet[AccessKey]:
    """Live sessions of a role, the latest first."""
    return AccessKey.objects.filter(role=role, expires_at__gt=timezone.now(), enabled=True).order_by("-created_at")


def _count(through: Any, **of_tenant: Any) -> Coalesce:
    """How many rows of a relation name the policy; a query of its own, so that relations do not multiply."""
    rows = through.objects.filter(policy=OuterRef("pk"), **of_tenant).order_by().values("policy")
    return Coalesce(Subquery(rows.annotate(n=Count("pk")).values("n"), output_field=IntegerField()), 0)
