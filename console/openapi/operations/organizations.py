"""Organizations and resource sets: the values of the headers `x-acs-organizationid` and `x-acs-resourcegroupid`."""

from __future__ import annotations

from pydantic import Field

from console.accounts.models import Organization
from console.accounts.organizations import ids_below, resource_sets
from console.openapi.registry import Call, Parameters, Result, operation


class OrganizationDo(Result):
    id: str = Field(description="The value for the header `x-acs-organizationid`.")
    name: str
    parentId: str | None = Field(description="The organization above it; null for that of level 1.")


class ResourceGroupDo(Result):
    id: str = Field(description="The value for the header `x-acs-resourcegroupid`.")
    name: str
    organizationId: str = Field(description="The organization that it needs in `x-acs-organizationid`.")
    organizationName: str


@operation(
    "organization/list",
    service="Organization",
    summary="List organizations",
    description="The account's own, and those below it, whose instances the headers may narrow a call to.",
    result=list[OrganizationDo],
    rpc="OrganizationList",
    extension=True,
)
def organization_list(call: Call, parameters: Parameters) -> list[OrganizationDo]:
    found = Organization.objects.filter(pk__in=ids_below(call.actor.tenant.organization)).order_by("pk")
    return [
        OrganizationDo(id=str(one.pk), name=one.name, parentId=None if one.parent_id is None else str(one.parent_id))
        for one in found
    ]


@operation(
    "resourceGroup/list",
    service="Organization",
    summary="List resource sets",
    description="Those of the account's organization and of those below it.",
    result=list[ResourceGroupDo],
    rpc="ResourceGroupList",
    extension=True,
)
def resource_group_list(call: Call, parameters: Parameters) -> list[ResourceGroupDo]:
    return [
        ResourceGroupDo(
            id=str(one.pk),
            name=one.name,
            organizationId=str(one.organization_id),
            organizationName=one.organization.name,
        )
        for one in resource_sets(call.actor.tenant.organization)
    ]
