"""Tenant accounts."""

from __future__ import annotations

from django.db import transaction

from console.accounts.models import Organization, Tenant, User
from console.accounts.services.uids import TENANT_DIGITS, USER_DIGITS, new_uid


@transaction.atomic
def create_tenant(*, name: str, organization: Organization, password: str) -> User:
    """Create a tenant account and its administrator `admin@<name>`; returns the administrator."""
    tenant = Tenant.objects.create(uid=new_uid(TENANT_DIGITS), name=name, organization=organization)
    user = User(username=f"admin@{name}", uid=new_uid(USER_DIGITS), tenant=tenant, is_tenant_admin=True)
    user.set_password(password)
    user.save()
    return user
