"""Writes of the accounts: tenants, users, AccessKeys, roles. Each is audited and reaches the broker on commit."""

from __future__ import annotations

import hashlib
import secrets
import string
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.accounts import acl
from console.accounts.actor import Actor
from console.accounts.crypto import encrypt
from console.accounts.models import AccessKey, DatabaseAccount, Organization, Policy, Role, Tenant, User
from console.audit import services as audit
from console.web.errors import Refused

MAX_KEYS_PER_USER = 2
ROLE_SESSION = timedelta(hours=1)
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new AccessKey pair with its secret in clear: shown or used once, never stored so."""

    access_key_id: str
    access_key_secret: str
    security_token: str
    expires_at: datetime | None


@transaction.atomic
def create_tenant(*, name: str, organization: Organization, password: str) -> User:
    """Create a tenant account and its administrator `admin@<name>`; returns the administrator."""
    tenant = Tenant.objects.create(uid=_digits(16), name=name, organization=organization)
    user = User(username=f"admin@{name}", uid=_digits(18), tenant=tenant, is_tenant_admin=True)
    user.set_password(password)
    user.save()
    return user


@transaction.atomic
def create_user(*, actor: Actor, name: str, password: str, policies: list[Policy]) -> User:
    """Create a RAM user `name@<tenant>`, who must change the password at the first sign-in.

    Raises Refused for a name that is taken or malformed and for a password that breaks the rule.
    """
    tenant = actor.tenant
    if not name or not all(c in _LETTERS + "._-" for c in name) or len(name) > 32:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "A user name has 1 to 32 letters, digits, dots, - or _.", "name")
    user = User(username=f"{name}@{tenant.name}", uid=_digits(18), tenant=tenant, must_change_password=True)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", " ".join(error.messages), "password") from error
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", f"The user {user.username} exists already.", "name") from error
    user.policies.set(policies)
    audit.record(actor, "accounts.user.create", user.username, detail={"policies": [p.name for p in policies]})
    return user


@transaction.atomic
def set_user_policies(*, actor: Actor, user: User, policies: list[Policy]) -> None:
    """Replace the policies attached to a RAM user."""
    user.policies.set(policies)
    audit.record(actor, "accounts.user.policies", user.username, detail={"policies": [p.name for p in policies]})
    acl.publish_on_commit()


@transaction.atomic
def set_user_enabled(*, actor: Actor, user: User, enabled: bool) -> None:
    """Let a user in, or shut out sign-in, sessions and AccessKeys. The tenant's administrator cannot be shut out."""
    if user.is_tenant_admin and not enabled:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "The administrator of the account cannot be disabled.")
    user.is_active = enabled
    user.save(update_fields=["is_active"])
    audit.record(actor, f"accounts.user.{'enable' if enabled else 'disable'}", user.username)
    acl.publish_on_commit()


@transaction.atomic
def reset_password(*, actor: Actor, user: User, password: str) -> None:
    """Give a user a new first password, to be changed at the next sign-in; ends the user's sessions."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", " ".join(error.messages), "password") from error
    user.set_password(password)
    user.must_change_password = True
    user.save(update_fields=["password", "must_change_password"])
    audit.record(actor, "accounts.user.reset_password", user.username)


@transaction.atomic
def create_access_key(*, actor: Actor, user: User) -> IssuedKey:
    """Issue an AccessKey pair; at most two a user. The secret is in the answer and nowhere else in clear."""
    # The lock keeps two requests from both seeing one key and making a third.
    User.objects.select_for_update().get(pk=user.pk)
    if user.access_keys.count() >= MAX_KEYS_PER_USER:
        raise Refused("BIZ_FIELD_CHECK_INVALID", f"{user.username} has {MAX_KEYS_PER_USER} AccessKey pairs already.")
    issued = _issue(user=user)
    audit.record(actor, "accounts.access_key.create", issued.access_key_id, detail={"user": user.username})
    return issued


@transaction.atomic
def set_access_key_enabled(*, actor: Actor, key: AccessKey, enabled: bool) -> None:
    """Enable or disable a pair; a disabled one stops working everywhere within two seconds."""
    key.enabled = enabled
    key.save(update_fields=["enabled"])
    audit.record(actor, f"accounts.access_key.{'enable' if enabled else 'disable'}", key.access_key_id)
    acl.publish_on_commit()


@transaction.atomic
def delete_access_key(*, actor: Actor, key: AccessKey) -> None:
    """Delete a pair for good."""
    audit.record(actor, "accounts.access_key.delete", key.access_key_id)
    key.delete()
    acl.publish_on_commit()


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
    issued = _issue(role=role, token=f"{session_name}.{secrets.token_urlsafe(48)}", lifetime=ROLE_SESSION)
    acl.publish_on_commit()
    return issued


def set_database_password(*, user: User, name: str, password: str) -> DatabaseAccount:
    """Set name and password for the MySQL door; only hashes of hashes are kept."""
    sha1, sha256 = hashlib.sha1(password.encode()), hashlib.sha256(password.encode())  # noqa: S324 - MySQL's own
    account, _ = DatabaseAccount.objects.update_or_create(
        user=user,
        defaults={
            "name": name,
            "sha1_of_sha1": hashlib.sha1(sha1.digest()).hexdigest(),  # noqa: S324 - MySQL's own
            "sha256_of_sha256": hashlib.sha256(sha256.digest()).hexdigest(),
        },
    )
    return account


def _issue(
    *, user: User | None = None, role: Role | None = None, token: str = "", lifetime: timedelta | None = None
) -> IssuedKey:
    prefix = "STS." if token else "LTAI"
    issued = IssuedKey(
        access_key_id=prefix + "".join(secrets.choice(_LETTERS) for _ in range(20)),
        access_key_secret="".join(secrets.choice(_LETTERS) for _ in range(30)),
        security_token=token,
        expires_at=timezone.now() + lifetime if lifetime else None,
    )
    AccessKey.objects.create(
        access_key_id=issued.access_key_id,
        secret_encrypted=encrypt(issued.access_key_secret),
        user=user,
        role=role,
        security_token=token,
        expires_at=issued.expires_at,
    )
    acl.publish_on_commit()
    return issued


def _digits(length: int) -> str:
    return secrets.choice("123456789") + "".join(secrets.choice(string.digits) for _ in range(length - 1))
