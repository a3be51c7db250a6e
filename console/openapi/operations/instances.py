"""Regions, instances, and the tunnel that there is none of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.utils import timezone
from pydantic import Field

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import tenant_resource
from console.accounts.models import Organization
from console.accounts.organizations import ids_below, resource_sets
from console.cluster.brokers import busiest_broker
from console.instances import queries, services
from console.instances.addresses import tcp_address
from console.instances.models import Cluster, Instance
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    NeededInstanceId,
    Nothing,
    OptionalPositive,
    Parameters,
    Positive,
    Remark,
    Result,
    Text,
    operation,
)
from console.web import regions
from console.web.errors import Refused

QUIET_TPS = 10
"""Messages a second, sent and received together, above which a broker is not switched without force."""

_NAME = "3 to 64 printable characters, unique in the region of the account."


class Region(Result):
    """RegionDo."""

    id: int = Field(description="Number of the record.")
    regionId: str = Field(description="The value for `_regionId`.")
    regionName: str = Field(description="Name to show.")


class ClusterInfo(Result):
    """ClusterInfoDo."""

    regionId: str = Field(description="Region of the cluster.")
    cluster: str = Field(description="Name of the cluster: the value for `cluster` of instance/create.")
    createTime: str = Field(description="When it was registered: `yyyy-MM-dd HH:mm:ss` in the zone of the deployment.")
    modifyTime: str = Field(description="When it was last changed, in the same form.")
    readOnly: bool = Field(description="Whether the console changes nothing there.")


@operation(
    "region/list",
    service="Region",
    summary="List the regions",
    description="The IDs are the allowed values of `_regionId`, which this operation alone does not need.",
    result=list[Region],
    rpc="OnsRegionList",
    region_required=False,
)
def region_list(call: Call, parameters: Parameters) -> list[Region]:
    return [Region(id=n, regionId=one.id, regionName=one.name) for n, one in enumerate(regions.regions(), 1)]


@operation(
    "cluster/list",
    service="Cluster",
    summary="List the clusters of a region",
    description="An instance is created on one of them.",
    result=list[ClusterInfo],
)
def cluster_list(call: Call, parameters: Parameters) -> list[ClusterInfo]:
    return [
        ClusterInfo(
            regionId=cluster.region,
            cluster=cluster.name,
            createTime=_moment(cluster.created_at),
            modifyTime=_moment(cluster.modified_at),
            readOnly=cluster.read_only,
        )
        for cluster in queries.clusters(call.region)
    ]


class OrganizationDo(Result):
    id: str = Field(description="The value for the header `x-acs-organizationid`.")
    name: str
    parentId: str | None = Field(description="The organization above it; null for that of level 1.")
    regions: list[str] = Field(
        description="IDs of the regions in which its accounts may have instances: all there are."
    )


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
    extension=True,
)
def organization_list(call: Call, parameters: Parameters) -> list[OrganizationDo]:
    found = Organization.objects.filter(pk__in=ids_below(call.actor.tenant.organization)).order_by("pk")
    return [
        OrganizationDo(
            id=str(one.pk),
            name=one.name,
            parentId=None if one.parent_id is None else str(one.parent_id),
            regions=[region.id for region in regions.regions()],
        )
        for one in found
    ]


@operation(
    "resourceGroup/list",
    service="Organization",
    summary="List resource sets",
    description="Those of the account's organization and of those below it.",
    result=list[ResourceGroupDo],
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


def _moment(at: datetime) -> str:
    return timezone.localtime(at, timezone.get_default_timezone()).strftime("%Y-%m-%d %H:%M:%S")


class TunnelSwitch(Parameters):
    tunnelType: Literal["anyTunnel", "singleTunnel"] = Field(description="The mode to switch to.")
    instanceId: NeededInstanceId
    slbUrl: str = Field(default="", max_length=1024, description="Address of the load balancer's API.")
    force: Boolean = Field(default=False, description="true: also switch while brokers process messages.")
    vSwitchId: str = Field(default="", max_length=128, description="VPC of the address; only for singleTunnel.")


@operation(
    "vpcTunnel/tunnelSwitch",
    service="Instance",
    summary="Switch the VPC access mode of a cluster",
    description="There is no VPC here: what is checked is checked, then the answer is ONS_SERVICE_UNSUPPORTED. It "
    "would affect a whole cluster, so no policy of the service `mq` allows it to RAM users.",
    parameters=TunnelSwitch,
    result=str,
    needs=(
        "mq:QueryInstance",
        "vpc:SwitchTunnel",
    ),
    changes=True,
    errors=("BIZ_INSTANCE_NOT_FOUND", "BIZ_TUNNEL_SWITCH_BLOCKED", "ONS_SERVICE_UNSUPPORTED"),
)
def tunnel_switch(call: Call, parameters: TunnelSwitch) -> str:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
    require(call.actor, "vpc:SwitchTunnel", mq_resource(instance.instance_id), owner=instance.tenant)
    if not parameters.force:
        _check_quiet(instance.cluster)
    raise Refused("ONS_SERVICE_UNSUPPORTED", "This deployment has no VPC, so there is no access mode to switch.")


def _check_quiet(cluster: Cluster) -> None:
    name, tps = busiest_broker(cluster)
    if tps > QUIET_TPS:
        message = (
            f"The broker {name} handles {tps:.1f} messages a second, more than {QUIET_TPS}; stop them or use force."
        )
        raise Refused("BIZ_TUNNEL_SWITCH_BLOCKED", message, "force")


class InstanceCreate(Parameters):
    cluster: Text = Field(description="Name of a cluster of the region, from cluster/list.")
    instanceName: Text = Field(description=_NAME, examples=["orders-prod"])
    independentNaming: Boolean = Field(
        description="true: a namespace of its own, names are unique inside the instance. false: none, names are "
        "unique across all instances; an account has at most one such instance."
    )
    remark: Remark = ""
    maxSendTps: Positive = Field(description="Limit of messages sent a second.", examples=[1000])
    maxReceiveTps: Positive = Field(description="Limit of messages received a second.", examples=[1000])
    topicCapacity: OptionalPositive = Field(default=None, description="Limit of topics; left out: no limit.")


class InstanceOnly(Parameters):
    instanceId: NeededInstanceId


class InstanceUpdate(Parameters):
    instanceId: NeededInstanceId
    instanceName: str | None = Field(default=None, max_length=256, description=_NAME + " Left out: unchanged.")
    remark: str | None = Field(
        default=None, max_length=256, description="Left out: unchanged. Given empty: it becomes empty."
    )


class CreatedInstance(Result):
    instanceId: str = Field(description="ID of the new instance.")


class Addresses(Result):
    """Addresses by protocol."""

    tcpEndpoint: str | None = Field(description="host:port for clients of the TCP protocol (`NAMESRV_ADDR`).")


class Place(Result):
    """Where an instance belongs; null without a resource set."""

    ResourceGroup: str | None = Field(description="ID of the resource set.")
    ResourceGroupName: str | None = Field(description="Name of the resource set.")
    Department: str | None = Field(description="ID of the organization.")
    DepartmentName: str | None = Field(description="Name of the organization.")


class InstanceBaseInfo(Place):
    """InstanceBaseInfo."""

    instanceId: str
    instanceName: str
    independentNaming: bool = Field(description="Whether it has a namespace of its own.")
    Endpoints: Addresses
    maxSendTps: int = Field(description="Limit of messages sent a second.")
    maxReceiveTps: int = Field(description="Limit of messages received a second.")
    topicCapacity: int | None = Field(description="Limit of topics; null: none.")
    cluster: str = Field(description="Name of the cluster.")
    remark: str


class InstanceVO(Place):
    """InstanceVO."""

    instanceId: str
    instanceName: str
    namespaceRulesType: bool = Field(description="Whether it has a namespace of its own.")
    independentNaming: bool = Field(description="The same as namespaceRulesType.")


@operation(
    "instance/create",
    service="Instance",
    summary="Create an instance",
    description="At most 500 a region and account, and at most one of them without a namespace.",
    parameters=InstanceCreate,
    result=CreatedInstance,
    needs=("mq:CreateInstance",),
    changes=True,
    errors=(
        "BIZ_CLUSTER_NOT_FOUND",
        "BIZ_INSTANCE_EXISTED",
        "BIZ_INSTANCE_DEFAULT_EXISTED",
        "BIZ_INSTANCE_QUOTA_EXCEEDED",
    ),
    rpc="OnsInstanceCreate",
)
def create(call: Call, parameters: InstanceCreate) -> CreatedInstance:
    actor = call.actor
    require(actor, "mq:CreateInstance", tenant_resource(actor.tenant), owner=actor.tenant, region=call.region)
    instance = services.create_instance(
        actor=actor,
        cluster=parameters.cluster,
        region=call.region,
        name=parameters.instanceName,
        independent_naming=parameters.independentNaming,
        remark=parameters.remark,
        max_send_tps=parameters.maxSendTps,
        max_receive_tps=parameters.maxReceiveTps,
        topic_capacity=parameters.topicCapacity,
        resource_set=call.scope.resource_set,
    )
    return CreatedInstance(instanceId=instance.instance_id)


@operation(
    "instance/delete",
    service="Instance",
    summary="Delete an empty instance",
    description="Only an instance without topics and group IDs can be deleted.",
    parameters=InstanceOnly,
    result=Nothing,
    needs=("mq:DeleteInstance",),
    changes=True,
    errors=("BIZ_INSTANCE_NOT_FOUND", "BIZ_INSTANCE_NOT_EMPTY"),
    rpc="OnsInstanceDelete",
)
def delete(call: Call, parameters: InstanceOnly) -> dict[str, Any]:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:DeleteInstance")
    services.delete_instance(actor=call.actor, instance=instance)
    return NOTHING


@operation(
    "instance/update",
    service="Instance",
    summary="Rename or describe an instance",
    description="Nothing else of an instance can change.",
    parameters=InstanceUpdate,
    result=Nothing,
    needs=("mq:UpdateInstance",),
    changes=True,
    errors=("BIZ_INSTANCE_NOT_FOUND", "BIZ_INSTANCE_EXISTED"),
    rpc="OnsInstanceUpdate",
)
def update(call: Call, parameters: InstanceUpdate) -> dict[str, Any]:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:UpdateInstance")
    name = instance.name if parameters.instanceName is None else parameters.instanceName
    remark = instance.remark if parameters.remark is None else parameters.remark
    if (name, remark) != (instance.name, instance.remark):
        services.update_instance(actor=call.actor, instance=instance, name=name, remark=remark)
    return NOTHING


@operation(
    "instance/list",
    service="Instance",
    summary="List all instances of the account",
    description="Those of the region `_regionId` that the caller may see, narrowed by the headers of organization and "
    "resource set.",
    result=list[InstanceVO],
    needs=("mq:QueryInstance",),
    rpc="OnsInstanceInServiceList",
)
def list_all(call: Call, parameters: Parameters) -> list[InstanceVO]:
    actor = call.actor
    mine = queries.narrowed(queries.instances(actor.tenant), call.scope)
    found = list(queries.of_region(mine, call.region))
    resources = {mq_resource(instance.instance_id): "" for instance in found}
    allowed = actor.allowed("mq:QueryInstance", resources, owner=actor.tenant)
    if not allowed:
        require(actor, "mq:QueryInstance", tenant_resource(actor.tenant), owner=actor.tenant, region=call.region)
    found = [instance for instance in found if mq_resource(instance.instance_id) in allowed]
    return [
        InstanceVO(
            instanceId=instance.instance_id,
            instanceName=instance.name,
            namespaceRulesType=instance.independent_naming,
            independentNaming=instance.independent_naming,
            **_place(instance),
        )
        for instance in found
    ]


@operation(
    "instance/baseInfo",
    service="Instance",
    summary="Details and endpoints of an instance",
    description="With the address that clients use for sending and receiving.",
    parameters=InstanceOnly,
    result=InstanceBaseInfo,
    needs=("mq:QueryInstance",),
    errors=("BIZ_INSTANCE_NOT_FOUND",),
    rpc="OnsInstanceBaseInfo",
)
def base_info(call: Call, parameters: InstanceOnly) -> InstanceBaseInfo:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
    return InstanceBaseInfo(
        instanceId=instance.instance_id,
        instanceName=instance.name,
        independentNaming=instance.independent_naming,
        Endpoints=Addresses(tcpEndpoint=tcp_address(instance).removeprefix("http://")),
        maxSendTps=instance.max_send_tps,
        maxReceiveTps=instance.max_receive_tps,
        topicCapacity=instance.topic_capacity,
        cluster=instance.cluster.name,
        remark=instance.remark,
        **_place(instance),
    )


def _place(instance: Instance) -> dict[str, Any]:
    resource_set = instance.resource_set
    organization = resource_set.organization if resource_set else instance.tenant.organization
    return {
        "ResourceGroup": str(resource_set.pk) if resource_set else None,
        "ResourceGroupName": resource_set.name if resource_set else None,
        "Department": str(organization.pk),
        "DepartmentName": organization.name,
    }
