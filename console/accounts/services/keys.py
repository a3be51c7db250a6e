"""AccessKey pairs. A secret is in the answer to its creation, and nowhere else in clear."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from console.accounts import credentials
from console.accounts.actor import Actor
from console.accounts.changes import rights_changed
from console.accounts.crypto import encrypt
from console.accounts.delegation import require_change_of
from console.accounts.models import AccessKey, Organization, Tenant, User
from console.accounts.organizations import ids_below
from console.accounts.services.row_locks import hold
from console.audit import record as audit
from console.web.after_commit import after_commit
from console.web.errors import Refused

MAX_KEYS_PER_USER = 2
_LETTERS = string.ascii_letters + string.digits

MAX_KEYS_PER_ORGANIZATION = 2
_FIELD = "BIZ_FIELD_CHECK_INVALID"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new AccessKey pair with its secret in clear: shown or used once, never stored so."""

    access_key_id: str
    access_key_secret: str
    security_token: str
    expires_at: datetime | None


def create_access_key(*, actor: Actor, user: User) -> IssuedKey:
    """Issue an AccessKey pair; at most two a user. The secret is in the answer and nowhere else in clear."""
    with transaction.atomic():
        # Held, so that two requests do not both see one key and make a third.
        user = hold(user)
        _require_own_or_change_of(actor, user)
        if user.access_keys.count() >= MAX_KEYS_PER_USER:
            raise Refused(
                "BIZ_FIELD_CHECK_INVALID",
                _("%(username)s has %(max_keys_per_user)s AccessKey pairs already.")
                % {"username": user.username, "max_keys_per_user": MAX_KEYS_PER_USER},
            )
        issued = issue(user=user)
        audit.record(actor, "accounts.access_key.create", issued.access_key_id, detail={"user": user.username})
    return issued


def set_access_key_enabled(*, actor: Actor, key: AccessKey, enabled: bool) -> None:
    """Enable or disable a pair; a disabled one stops working everywhere within two seconds.

    Raises PermissionDenied for the pair of a user whom `actor` may not change.
    """
    with transaction.atomic():
        key = hold(key)
        _require_own_or_change_of(actor, key.user)
        key.enabled = enabled
        key.save(update_fields=["enabled"])
        audit.record(actor, f"accounts.access_key.{'enable' if enabled else 'disable'}", key.access_key_id)
        rights_changed()


def delete_access_key(*, actor: Actor, key: AccessKey) -> None:
    """Delete a pair for good. Raises PermissionDenied for the pair of a user whom `actor` may not change."""
    with transaction.atomic():
        key = hold(key)
        _require_own_or_change_of(actor, key.user)
        audit.record(actor, "accounts.access_key.delete", key.access_key_id)
        key.delete()
        rights_changed()
        after_commit(credentials.forget, key.access_key_id)


def _require_own_or_change_of(actor: Actor, holder: User | None) -> None:
    """Everybody keeps the own pairs; those of others need the right to change these."""
    if holder is not None and (actor.user is None or actor.user.pk != holder.pk):
        require_change_of(actor, holder)


def issue(*, token: str = "", lifetime: timedelta | None = None, **holder: Any) -> IssuedKey:
    """Draw and store a pair for a `user`, for a `role`, or for an `organization` and the `tenant` it acts for.

    `token` and `lifetime` make it a temporary (STS) one; further fields of AccessKey can be given. Raises Refused for
    an account that is disabled: a pair would begin to work when it is enabled, and nobody would think of it then.
    """
    account = holder.get("tenant") or (holder.get("user") or holder["role"]).tenant
    if account is not None and not Tenant.objects.filter(pk=account.pk, enabled=True).exists():
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            _("The account %(account)s is disabled; it gets no AccessKeys.") % {"account": account},
        )
    prefix = "STS." if token else "LTAI"
    issued = IssuedKey(
        access_key_id=prefix + "".join(secrets.choice(_LETTERS) for _unused in range(20)),
        access_key_secret="".join(secrets.choice(_LETTERS) for _unused in range(30)),
        security_token=token,
        expires_at=timezone.now() + lifetime if lifetime else None,
    )
    AccessKey.objects.create(
        access_key_id=issued.access_key_id,
        secret_encrypted=encrypt(issued.access_key_secret),
        security_token=token,
        expires_at=issued.expires_at,
        **holder,
    )
    rights_changed()
    return issued


# AccessKey pairs of level-1 organizations, the guide's "Management AccessKey" (docs/use/tenancy.md).


@transaction.atomic
def create_organization_key(*, actor: Actor, organization: Organization, tenant: Tenant) -> IssuedKey:
    """Issue a pair that may do whatever the account `tenant` may; the secret is in the answer and nowhere else.

    Raises Refused for an organization that is not level 1, has two pairs already, or does not have the account.
    """
    # The lock keeps two requests from both seeing one key and making a third.
    Organization.objects.select_for_update().get(pk=organization.pk)
    if organization.parent_id is not None:
        raise Refused(_FIELD, _("Only a level-1 organization has AccessKeys."))
    if organization.access_keys.count() >= MAX_KEYS_PER_ORGANIZATION:
        raise Refused(
            _FIELD,
            _("%(organization)s has %(max_keys_per_organization)s AccessKey pairs already.")
            % {"organization": organization, "max_keys_per_organization": MAX_KEYS_PER_ORGANIZATION},
        )
    if tenant.organization_id not in ids_below(organization):
        raise Refused(
            _FIELD,
            _("The account %(tenant)s does not belong to %(organization)s.")
            % {"tenant": tenant, "organization": organization},
            "tenant",
        )
    issued = issue(organization=organization, tenant=tenant)
    _record(actor, "create", issued.access_key_id, organization, tenant)
    return issued


@transaction.atomic
def set_organization_key_enabled(*, actor: Actor, key: AccessKey, enabled: bool) -> None:
    """Enable or disable a pair; a disabled one stops working everywhere within two seconds."""
    key.enabled = enabled
    key.save(update_fields=["enabled"])
    _record(actor, "enable" if enabled else "disable", key.access_key_id, key.organization, key.tenant)
    rights_changed()


@transaction.atomic
def delete_organization_key(*, actor: Actor, key: AccessKey) -> None:
    """Delete a pair for good."""
    _record(actor, "delete", key.access_key_id, key.organization, key.tenant)
    after_commit(credentials.forget, key.access_key_id)
    key.delete()
    rights_changed()


def _record(actor: Actor, verb: str, key_id: str, organization: Organization | None, tenant: Tenant | None) -> None:
    """The account reads of it too: the key can do everything in its name."""
    detail = {"organization": str(organization), "account": str(tenant)}
    audit.record(actor, f"accounts.organization_key.{verb}", key_id, detail=detail, tenant=tenant)
