"""AccessKey pairs of level-1 organizations ("Management AccessKey"): each acts for one account of the organization.

Only the platform's administrator makes them: the guide also names administrators of level-1 organizations, whom this
product does not have (accounts-and-console 4.2).
"""

from __future__ import annotations

from django.db import transaction

from console.accounts import acl, key_use
from console.accounts.actor import Actor
from console.accounts.models import AccessKey, Organization, Tenant
from console.accounts.organizations import ids_below
from console.accounts.services.keys import IssuedKey, issue
from console.audit import services as audit
from console.web.after_commit import after_commit
from console.web.errors import Refused

MAX_KEYS_PER_ORGANIZATION = 2
_FIELD = "BIZ_FIELD_CHECK_INVALID"


@transaction.atomic
def create_organization_key(*, actor: Actor, organization: Organization, tenant: Tenant) -> IssuedKey:
    """Issue a pair that may do whatever the account `tenant` may; the secret is in the answer and nowhere else.

    Raises Refused for an organization that is not level 1, has two pairs already, or does not have the account.
    """
    # The lock keeps two requests from both seeing one key and making a third.
    Organization.objects.select_for_update().get(pk=organization.pk)
    if organization.parent_id is not None:
        raise Refused(_FIELD, "Only a level-1 organization has AccessKeys.")
    if organization.access_keys.count() >= MAX_KEYS_PER_ORGANIZATION:
        raise Refused(_FIELD, f"{organization} has {MAX_KEYS_PER_ORGANIZATION} AccessKey pairs already.")
    if tenant.organization_id not in ids_below(organization):
        raise Refused(_FIELD, f"The account {tenant} does not belong to {organization}.", "tenant")
    issued = issue(organization=organization, tenant=tenant)
    _record(actor, "create", issued.access_key_id, organization, tenant)
    return issued


@transaction.atomic
def set_organization_key_enabled(*, actor: Actor, key: AccessKey, enabled: bool) -> None:
    """Enable or disable a pair; a disabled one stops working everywhere within two seconds."""
    key.enabled = enabled
    key.save(update_fields=["enabled"])
    _record(actor, "enable" if enabled else "disable", key.access_key_id, key.organization, key.tenant)
    acl.publish_on_commit()


@transaction.atomic
def delete_organization_key(*, actor: Actor, key: AccessKey) -> None:
    """Delete a pair for good."""
    _record(actor, "delete", key.access_key_id, key.organization, key.tenant)
    after_commit(key_use.forget, key.access_key_id)
    key.delete()
    acl.publish_on_commit()


def _record(actor: Actor, verb: str, key_id: str, organization: Organization | None, tenant: Tenant | None) -> None:
    """The account reads of it too: the key can do everything in its name."""
    detail = {"organization": str(organization), "account": str(tenant)}
    audit.record(actor, f"accounts.organization_key.{verb}", key_id, detail=detail, tenant=tenant)
