"""The tree of organizations: what lies above and below one, and the scope that the `x-acs-…` headers name."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.models import Organization, ResourceSet
from console.web.errors import Refused

MAX_DEPTH = 8
_FIELD = "BIZ_FIELD_CHECK_INVALID"
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Scope:
    """What the `x-acs-…` headers narrow a call to; None is no restriction."""

    organization: Organization | None = None
    resource_set: ResourceSet | None = None


def ids_below(organization: Organization) -> set[int]:
    """The organization's own id and those of all below it; a query a level."""
    found = level = {organization.pk}
    while level:
        level = set(Organization.objects.filter(parent__in=level).values_list("pk", flat=True)) - found
        found = found | level
    return found


def chain(organization: Organization) -> list[Organization]:
    """The organization and those above it, level 1 first."""
    found = [organization]
    while found[0].parent is not None:
        found.insert(0, found[0].parent)
    return found


def resource_sets(organization: Organization) -> QuerySet[ResourceSet]:
    """The sets that instances of an account of this organization may be put into: its own and those below it."""
    return (
        ResourceSet.objects.filter(organization__in=ids_below(organization))
        .select_related("organization")
        .order_by("organization__name", "name")
    )


def scope_of(actor: Actor, organization_id: str = "", resource_set_id: str = "") -> Scope:
    """What the headers `x-acs-organizationid` and `x-acs-resourcegroupid` narrow a call to.

    An account may name its own organization, one above it and those below it; a platform administrator any. Raises
    Refused BIZ_FIELD_CHECK_INVALID for an unknown or foreign id, and for a resource set without its organization.
    """
    organization_id, resource_set_id = organization_id.strip(), resource_set_id.strip()
    if not organization_id:
        if resource_set_id:
            raise Refused(_FIELD, _("A resource set is given without its organization."), "organization_id")
        return Scope()
    organization = _organization(actor, organization_id)
    if not resource_set_id:
        return Scope(organization)
    number = _number(resource_set_id)
    found = ResourceSet.objects.select_related("organization").filter(pk=number, organization=organization).first()
    if found is None:
        message = f"The organization {organization_id} has no resource set {resource_set_id[:32]}."
        raise Refused(_FIELD, message, "resource_set_id")
    return Scope(organization, found)


def _organization(actor: Actor, organization_id: str) -> Organization:
    found = Organization.objects.filter(pk=_number(organization_id)).first()
    mine = actor.own_tenant
    if found is not None and mine is not None:
        # Two cheap walks: up from the account's organization, and up from the one that is named.
        above = {o.pk for o in chain(mine.organization)}
        if found.pk not in above and mine.organization_id not in {o.pk for o in chain(found)}:
            found = None
    if found is None:
        raise Refused(
            _FIELD,
            _("The organization %(organization_id)s does not exist.") % {"organization_id": organization_id[:32]},
            "organization_id",
        )
    return found


def _number(text: str) -> int:
    """An id of the database, or 0, which no row has."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    return number if number <= _LARGEST_ID else 0
