"""Organizations and resource sets, kept by the platform's administrator."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from console.accounts.actor import Actor
from console.accounts.models import Organization, ResourceSet
from console.accounts.organizations import MAX_DEPTH, chain
from console.audit import record as audit
from console.web.errors import Refused

_FIELD = "BIZ_FIELD_CHECK_INVALID"
#: What may be in an organization or a resource set, by the name of its relation.
_PARTS = {
    "children": ngettext_lazy("%(count)s organization below it", "%(count)s organizations below it", "count"),
    "tenants": ngettext_lazy("%(count)s account", "%(count)s accounts", "count"),
    "resource_sets": ngettext_lazy("%(count)s resource set", "%(count)s resource sets", "count"),
    "access_keys": ngettext_lazy("%(count)s AccessKey", "%(count)s AccessKeys", "count"),
    "instances": ngettext_lazy("%(count)s instance", "%(count)s instances", "count"),
}


@transaction.atomic
def create_organization(*, actor: Actor, name: str, parent: Organization | None = None) -> Organization:
    """Create an organization below `parent`, or a level-1 one. Raises Refused for a name that is taken there."""
    if parent is not None and len(chain(parent)) >= MAX_DEPTH:
        raise Refused(
            _FIELD,
            _("Organizations are nested %(max_depth)s levels deep at most.") % {"max_depth": MAX_DEPTH},
            "parent",
        )
    organization = Organization(name=_checked_name(name), parent=parent)
    _save(organization)
    audit.record(actor, "accounts.organization.create", _resource(organization), detail=_described(organization))
    return organization


@transaction.atomic
def rename_organization(*, actor: Actor, organization: Organization, name: str) -> None:
    """Give an organization another name; its ID stays."""
    before, organization.name = organization.name, _checked_name(name)
    _save(organization)
    detail = _described(organization) | {"before": before}
    audit.record(actor, "accounts.organization.rename", _resource(organization), detail=detail)


@transaction.atomic
def delete_organization(*, actor: Actor, organization: Organization) -> None:
    """Delete an organization that has no organizations, accounts, resource sets and AccessKeys."""
    _refuse_if_any(organization, ("children", "tenants", "resource_sets", "access_keys"))
    audit.record(actor, "accounts.organization.delete", _resource(organization), detail=_described(organization))
    organization.delete()


@transaction.atomic
def create_resource_set(*, actor: Actor, organization: Organization, name: str) -> ResourceSet:
    """Create a resource set. Raises Refused for a name that is taken in the organization."""
    resource_set = ResourceSet(organization=organization, name=_checked_name(name))
    _save_set(resource_set)
    audit.record(actor, "accounts.resource_set.create", _resource(resource_set), detail=_described(resource_set))
    return resource_set


@transaction.atomic
def rename_resource_set(*, actor: Actor, resource_set: ResourceSet, name: str) -> None:
    """Give a resource set another name; its ID stays."""
    before, resource_set.name = resource_set.name, _checked_name(name)
    _save_set(resource_set)
    detail = _described(resource_set) | {"before": before}
    audit.record(actor, "accounts.resource_set.rename", _resource(resource_set), detail=detail)


@transaction.atomic
def delete_resource_set(*, actor: Actor, resource_set: ResourceSet) -> None:
    """Delete a resource set without instances."""
    _refuse_if_any(resource_set, ("instances",))
    audit.record(actor, "accounts.resource_set.delete", _resource(resource_set), detail=_described(resource_set))
    resource_set.delete()


def _save(organization: Organization) -> None:
    # The constraint of the database does not see two level-1 organizations of one name: their parent is NULL.
    same = Organization.objects.filter(parent=organization.parent, name=organization.name).exclude(pk=organization.pk)
    Organization.objects.select_for_update().order_by("pk").first()
    if same.exists():
        raise _name_exists(organization)
    try:
        with transaction.atomic():
            organization.save()
    except IntegrityError as error:
        raise _name_exists(organization) from error


def _save_set(resource_set: ResourceSet) -> None:
    try:
        with transaction.atomic():
            resource_set.save()
    except IntegrityError as error:
        raise _name_exists(resource_set) from error


def _name_exists(row: Organization | ResourceSet) -> Refused:
    text = (
        _("There is an organization %(name)s here already.")
        if isinstance(row, Organization)
        else _("There is a resource set %(name)s here already.")
    )
    return Refused(_FIELD, text % {"name": row.name}, "name")


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise Refused(_FIELD, _("A name has 1 to 64 printable characters."), "name")
    return name


def _refuse_if_any(row: Organization | ResourceSet, parts: Sequence[str]) -> None:
    counts = {part: getattr(row, part).count() for part in parts}
    found = ", ".join(_PARTS[part] % {"count": count} for part, count in counts.items() if count)
    if found:
        raise Refused(_FIELD, _("%(name)s is not empty: %(found)s.") % {"name": row.name, "found": found})


def _resource(row: Organization | ResourceSet) -> str:
    return f"{'organization' if isinstance(row, Organization) else 'resource-set'}/{row.pk}"


def _described(row: Organization | ResourceSet) -> dict[str, object]:
    above = row.parent if isinstance(row, Organization) else row.organization
    return {"name": row.name} | ({"in": above.name, "in_id": above.pk} if above is not None else {})
