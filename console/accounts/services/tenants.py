"""Tenant accounts, made and kept by the platform's administrator."""

from __future__ import annotations

import re

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.changes import rights_changed
from console.accounts.models import TENANT_DIGITS, USER_DIGITS, Organization, Tenant, User, new_uid
from console.accounts.services.second_factor import remove_devices
from console.accounts.services.sessions import end_sessions
from console.audit import record as audit
from console.web.errors import Refused

ADMINISTRATOR = "admin"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,31}")
_FIELD = "BIZ_FIELD_CHECK_INVALID"


@transaction.atomic
def create_tenant(
    *,
    name: str,
    organization: Organization,
    password: str,
    actor: Actor | None = None,
    must_change_password: bool = False,
) -> User:
    """Create a tenant account and its administrator `admin@<name>`; returns the administrator.

    Without an `actor` it is a command on the server that does so. Raises Refused for a name that is malformed or taken.
    """
    if not _NAME.fullmatch(name):
        message = _(
            "The name of an account has 2 to 32 lower-case letters, digits, - or _ and begins with a letter or digit."
        )
        raise Refused(_FIELD, message, "name")
    tenant = Tenant(uid=new_uid(TENANT_DIGITS), name=name, organization=organization)
    try:
        with transaction.atomic():
            tenant.save()
    except IntegrityError as error:
        raise Refused(_FIELD, _("The account %(name)s already exists.") % {"name": name}, "name") from error
    user = User(
        username=f"{ADMINISTRATOR}@{name}",
        uid=new_uid(USER_DIGITS),
        tenant=tenant,
        is_tenant_admin=True,
        must_change_password=must_change_password,
    )
    user.set_password(password)
    user.save()
    detail = {"organization": organization.name, "administrator": user.username}
    if actor is None:
        audit.record_command("accounts.tenant.create", name, detail=detail, tenant=tenant)
    else:
        audit.record(actor, "accounts.tenant.create", name, detail=detail, tenant=tenant)
    return user


@transaction.atomic
def set_tenant_enabled(*, actor: Actor, tenant: Tenant, enabled: bool) -> None:
    """Open or close an account: sign-ins and sessions at once, AccessKeys everywhere within two seconds."""
    tenant.enabled = enabled
    tenant.save(update_fields=["enabled"])
    audit.record(actor, f"accounts.tenant.{'enable' if enabled else 'disable'}", tenant.name, tenant=tenant)
    rights_changed()


@transaction.atomic
def move_tenant(*, actor: Actor, tenant: Tenant, organization: Organization) -> None:
    """Put an account under another organization. Refused while instances are in resource sets of the old one."""
    if tenant.organization_id == organization.pk:
        return
    if tenant.instances.filter(resource_set__isnull=False).exists():
        message = _("Instances of %(tenant)s are in resource sets of %(organization)s; move them out first.") % {
            "tenant": tenant.name,
            "organization": tenant.organization,
        }
        raise Refused(_FIELD, message, "organization")
    if tenant.accesskey_set.exists():
        message = _("%(organization)s has an AccessKey that acts for %(tenant)s; delete it first.") % {
            "organization": tenant.organization,
            "tenant": tenant.name,
        }
        raise Refused(_FIELD, message, "organization")
    detail = {"from": tenant.organization.name, "to": organization.name}
    tenant.organization = organization
    tenant.save(update_fields=["organization"])
    audit.record(actor, "accounts.tenant.move", tenant.name, detail=detail, tenant=tenant)


@transaction.atomic
def reset_administrator(*, actor: Actor, tenant: Tenant, password: str) -> User:
    """Let the account's administrator in again: a new first password, no bound device, no session left."""
    user = tenant.users.get(is_tenant_admin=True)
    user.set_password(password)
    user.must_change_password, user.is_active = True, True
    user.save(update_fields=["password", "must_change_password", "is_active"])
    audit.record(actor, "accounts.tenant.reset_administrator", user.username, tenant=tenant)
    remove_devices(actor=actor, user=user)
    end_sessions(actor=actor, user=user)
    return user
