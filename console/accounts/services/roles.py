"""Roles, and the temporary keys of those who assume them (STS)."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.accounts import acl
from console.accounts.models import AccessKey, Policy, Role, Tenant
from console.accounts.services.keys import IssuedKey, issue

ROLE_SESSION = timedelta(hours=1)


@transaction.atomic
def create_role(
    *, tenant: Tenant, name: str, description: str, trust_policy: dict[str, Any], policies: list[Policy]
) -> Role:
    """Create a role that the principals of its trust policy may assume."""
    role = Role.objects.create(tenant=tenant, name=name, description=description, trust_policy=trust_policy)
    role.policies.set(policies)
    return role


@transaction.atomic
def assume_role(role: Role, *, session_name: str) -> IssuedKey:
    """Temporary keys of a role (STS AssumeRole), valid for an hour. Whether the caller is trusted is its business."""
    AccessKey.objects.filter(role__isnull=False, expires_at__lt=timezone.now()).delete()
    issued = issue(
        token=f"{session_name}.{secrets.token_urlsafe(48)}",
        lifetime=ROLE_SESSION,
        role=role,
        session_name=session_name[:64],
    )
    acl.publish_on_commit()
    return issued
