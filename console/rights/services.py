"""The limits of an account, set by the platform's administrator."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.models import Tenant, TenantLimits
from console.audit import record as audit
from console.rights import access_table
from console.rights.limits import KINDS, own
from console.web.errors import Refused

LARGEST = 2**53
"""What JSON and people's spreadsheets still hold exactly."""


@transaction.atomic
def set_limits(*, actor: Actor, tenant: Tenant, values: dict[str, int | None]) -> None:
    """Give the account limits of its own: None is the default, 0 none. The brokers hold them within two seconds."""
    for kind in KINDS:
        value = values[kind.name]
        if value is not None and not 0 <= value <= LARGEST:
            raise Refused(
                "BIZ_FIELD_CHECK_INVALID",
                _("A limit is 0, which means no limit, to %(largest)s.") % {"largest": LARGEST},
                kind.name,
            )
    before = own(tenant)
    changed = {kind.name: values[kind.name] for kind in KINDS if values[kind.name] != before[kind.name]}
    if not changed:
        return
    if all(values[kind.name] is None for kind in KINDS):
        TenantLimits.objects.filter(tenant=tenant).delete()
    else:
        TenantLimits.objects.update_or_create(tenant=tenant, defaults={kind.name: values[kind.name] for kind in KINDS})
    detail = {name: {"from": _shown(before[name]), "to": _shown(value)} for name, value in changed.items()}
    audit.record(actor, "accounts.tenant.limit", tenant.name, detail=detail, tenant=tenant)
    access_table.publish_on_commit()


def _shown(value: int | None) -> int | str:
    return "default" if value is None else value
