"""Reads of the accounts. The tenant comes first."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from console.accounts.models import AccessKey, DatabaseAccount, Policy, Tenant, User
from console.accounts.organizations import resource_sets, scope_of

__all__ = ["access_keys", "database_account", "policies", "resource_sets", "scope_of"]


def access_keys(tenant: Tenant, user: User) -> QuerySet[AccessKey]:
    """AccessKey pairs of one user of the tenant, oldest first."""
    return AccessKey.objects.filter(user=user, user__tenant=tenant).order_by("created_at")


def database_account(user: User) -> DatabaseAccount | None:
    """The user's sign-in at the MySQL door by name and password."""
    return DatabaseAccount.objects.filter(user=user).first()


def policies(tenant: Tenant) -> QuerySet[Policy]:
    """System policies and the tenant's own."""
    return Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant)).order_by("tenant_id", "name")
