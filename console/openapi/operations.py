"""The operations of the management API (docs/management-api.md): parameters in, services and queries behind."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import BeforeValidator, Field

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor, tenant_resource
from console.instances import queries as instance_queries
from console.instances import services as instance_services
from console.instances.models import Instance
from console.openapi.envelope import Page
from console.openapi.registry import OPERATIONS, Call, Parameters, operation
from console.topics import queries as topic_queries
from console.topics import services as topic_services
from console.topics.models import Group, Topic
from console.web.errors import Refused

__all__ = ["OPERATIONS"]


def _boolean(value: object) -> object:
    """`true` or `false` in any case; pydantic alone would also take 1, yes and on."""
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("allowed are true and false")
    return text == "true"


Boolean = Annotated[bool, BeforeValidator(_boolean)]


class InstanceCreate(Parameters):
    cluster: str
    instanceName: str
    independentNaming: Boolean
    remark: str = ""
    maxSendTps: int = Field(ge=1)
    maxReceiveTps: int = Field(ge=1)
    topicCapacity: int | None = Field(default=None, ge=1)


class TopicCreate(Parameters):
    topic: str
    instanceId: str = ""
    orderType: Annotated[Literal[0, 1, 2, 4, 5], BeforeValidator(int)]
    remark: str = ""


class TopicListInPage(Parameters):
    instanceId: str = ""
    topic: str = ""
    currentPage: int = Field(default=1, ge=1)
    pageSize: int = Field(default=20, ge=1, le=100)


class GroupCreate(Parameters):
    instanceId: str = ""
    groupId: str
    remark: str = ""


class GroupList(Parameters):
    instanceId: str = ""
    groupId: str = ""


@operation("region/list", service="Region", summary="List the regions", region_required=False)
def region_list(call: Call, parameters: Parameters) -> list[dict[str, Any]]:
    return [{"id": 1, "regionId": settings.REGION, "regionName": "Private region"}]


@operation("instance/create", service="Instance", summary="Create an instance", parameters=InstanceCreate)
def instance_create(call: Call, parameters: InstanceCreate) -> dict[str, Any]:
    actor = call.actor
    require(actor, "mq:CreateInstance", tenant_resource(actor.tenant), owner=actor.tenant)
    instance = instance_services.create_instance(
        actor=actor,
        cluster=parameters.cluster,
        name=parameters.instanceName,
        independent_naming=parameters.independentNaming,
        remark=parameters.remark,
        max_send_tps=parameters.maxSendTps,
        max_receive_tps=parameters.maxReceiveTps,
        topic_capacity=parameters.topicCapacity,
    )
    return {"instanceId": instance.instance_id}


@operation("instance/list", service="Instance", summary="List all instances of the account")
def instance_list(call: Call, parameters: Parameters) -> list[dict[str, Any]]:
    actor = call.actor
    require(actor, "mq:QueryInstance", tenant_resource(actor.tenant), owner=actor.tenant)
    return [_instance_row(i) for i in instance_queries.instances(actor.tenant)]


@operation("topic/create", service="Topic", summary="Create a topic", parameters=TopicCreate)
def topic_create(call: Call, parameters: TopicCreate) -> dict[str, Any]:
    actor = call.actor
    instance = _instance(actor, parameters.instanceId, "mq:CreateTopic")
    topic_services.create_topic(
        actor=actor,
        instance=instance,
        name=parameters.topic,
        order_type=parameters.orderType,
        remark=parameters.remark,
    )
    return {}


@operation("topic/listInPage", service="Topic", summary="Topics, page by page", parameters=TopicListInPage)
def topic_list_in_page(call: Call, parameters: TopicListInPage) -> Page:
    actor = call.actor
    instance = _instance(actor, parameters.instanceId, "mq:QueryTopic")
    found = topic_queries.topics(actor.tenant, instance)
    if parameters.topic:
        found = found.filter(name=parameters.topic)
    start = (parameters.currentPage - 1) * parameters.pageSize
    rows = [_topic_row(t, instance) for t in found[start : start + parameters.pageSize]]
    return Page(rows, parameters.currentPage, parameters.pageSize, found.count())


@operation("group/create", service="Group", summary="Create a group ID", parameters=GroupCreate)
def group_create(call: Call, parameters: GroupCreate) -> dict[str, Any]:
    actor = call.actor
    instance = _instance(actor, parameters.instanceId, "mq:CreateGroup")
    group = topic_services.create_group(
        actor=actor, instance=instance, group_id=parameters.groupId, remark=parameters.remark
    )
    return {"instanceId": instance.instance_id, "groupId": group.group_id, "remark": group.remark}


@operation("group/list", service="Group", summary="List group IDs", parameters=GroupList)
def group_list(call: Call, parameters: GroupList) -> list[dict[str, Any]]:
    actor = call.actor
    instance = _instance(actor, parameters.instanceId, "mq:QueryGroup")
    found = topic_queries.groups(actor.tenant, instance)
    if parameters.groupId:
        found = found.filter(group_id=parameters.groupId)
    return [_group_row(g, instance) for g in found]


def _instance(actor: Actor, instance_id: str, action: str) -> Instance:
    """The caller's instance; without an id its default instance. Another tenant's does not exist."""
    mine = instance_queries.instances(actor.tenant)
    instance = mine.filter(instance_id=instance_id).first() if instance_id else _default(mine)
    if instance is None:
        raise Refused("BIZ_INSTANCE_NOT_FOUND", f"The instance {instance_id} was not found.", "instanceId")
    require(actor, action, mq_resource(instance.instance_id), owner=actor.tenant)
    return instance


def _default(mine: Any) -> Instance | None:
    instance: Instance | None = mine.filter(independent_naming=False).first()
    if instance is None:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            "The parameter instanceId is missing; it may be left out only with an instance without namespace.",
            "instanceId",
        )
    return instance


def _instance_row(instance: Instance) -> dict[str, Any]:
    resource_set = instance.resource_set
    organization = resource_set.organization if resource_set else instance.tenant.organization
    return {
        "instanceId": instance.instance_id,
        "instanceName": instance.name,
        "namespaceRulesType": instance.independent_naming,
        "independentNaming": instance.independent_naming,
        "ResourceGroup": str(resource_set.pk) if resource_set else None,
        "ResourceGroupName": resource_set.name if resource_set else None,
        "Department": str(organization.pk),
        "DepartmentName": organization.name,
    }


def _topic_row(topic: Topic, instance: Instance) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "owner": instance.tenant.uid,
        "instanceId": instance.instance_id,
        "independentNaming": instance.independent_naming,
        "orderType": topic.order_type,
        "perm": topic.perm,
        "status": 0,
        "relation": 1,
        "remark": topic.remark,
        "createTime": int(topic.created_at.timestamp() * 1000),
    }


def _group_row(group: Group, instance: Instance) -> dict[str, Any]:
    return {
        "owner": instance.tenant.uid,
        "instanceId": instance.instance_id,
        "groupId": group.group_id,
        "independentNaming": instance.independent_naming,
        "remark": group.remark,
    }
