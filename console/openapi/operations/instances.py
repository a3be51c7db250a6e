"""Instances."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from pydantic import Field

from console.accounts.access import require
from console.accounts.actor import tenant_resource
from console.instances import queries, services
from console.instances.models import Instance
from console.instances.snippets import endpoint
from console.openapi.operations import lookup
from console.openapi.operations.fields import (
    NOTHING,
    Boolean,
    NeededInstanceId,
    Nothing,
    OptionalPositive,
    Positive,
    Remark,
    Text,
)
from console.openapi.registry import Call, Parameters, Result, operation

_NAME = "3 to 64 printable characters, unique in the region of the account."


class InstanceCreate(Parameters):
    cluster: Text = Field(description="Name of a cluster, from cluster/list.")
    instanceName: Text = Field(description=_NAME, examples=["orders-prod"])
    independentNaming: Boolean = Field(
        description="true: a namespace of its own, names are unique inside the instance. false: none, names are "
        "unique across all instances; an account has at most one such instance."
    )
    remark: Remark = ""
    maxSendTps: Positive = Field(description="Limit of messages sent a second.", examples=[1000])
    maxReceiveTps: Positive = Field(description="Limit of messages received a second.", examples=[1000])
    topicCapacity: OptionalPositive = Field(default=None, description="Limit of topics; without it there is none.")


class InstanceOnly(Parameters):
    instanceId: NeededInstanceId


class InstanceUpdate(Parameters):
    instanceId: NeededInstanceId
    instanceName: str | None = Field(default=None, max_length=256, description=_NAME + " Left out: it stays.")
    remark: str | None = Field(
        default=None, max_length=256, description="Left out: it stays. Given empty: it becomes empty."
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
    require(actor, "mq:CreateInstance", tenant_resource(actor.tenant), owner=actor.tenant)
    instance = services.create_instance(
        actor=actor,
        cluster=parameters.cluster,
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
    description="Those of the region `_regionId`, narrowed by the headers of organization and resource set.",
    result=list[InstanceVO],
    rpc="OnsInstanceInServiceList",
)
def list_all(call: Call, parameters: Parameters) -> list[InstanceVO]:
    actor = call.actor
    require(actor, "mq:QueryInstance", tenant_resource(actor.tenant), owner=actor.tenant)
    found = queries.narrowed(queries.instances(actor.tenant), call.scope).filter(region=settings.REGION)
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
    errors=("BIZ_INSTANCE_NOT_FOUND",),
    rpc="OnsInstanceBaseInfo",
)
def base_info(call: Call, parameters: InstanceOnly) -> InstanceBaseInfo:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
    return InstanceBaseInfo(
        instanceId=instance.instance_id,
        instanceName=instance.name,
        independentNaming=instance.independent_naming,
        Endpoints=Addresses(tcpEndpoint=endpoint(instance).removeprefix("http://")),
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
