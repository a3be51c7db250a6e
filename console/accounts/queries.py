"""Reads of the accounts. The tenant comes first."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from console.accounts.models import AccessKey, Policy, Tenant, User
from console.accounts.organizations import resource_sets, scope_of

__all__ = ["access_keys", "policies", "resource_sets", "scope_of", "users"]


def users(tenant: Tenant) -> QuerySet[User]:
    """Users of the tenant with their policies, the administrator first."""
    return User.objects.filter(tenant=tenant).prefetch_related("policies").order_by("-is_tenant_admin", "username")


def access_keys(tenant: Tenant, user: User) -> QuerySet[AccessKey]:
    """AccessKey pairs of one user of the tenant, oldest first."""
    return AccessKey.objects.filter(user=user, user__tenant=tenant).order_by("created_at")


def policies(tenant: Tenant) -> QuerySet[Policy]:
    """System policies and the tenant's own."""
    return Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant)).order_by("tenant_id", "name")
