"""Group IDs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from console.messaging.status import group_subscriptions
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    GroupId,
    InstanceId,
    Nothing,
    Parameters,
    Remark,
    Result,
    operation,
)
from console.topics import access, queries, services
from console.web.errors import Refused

_MISSES = (
    "BIZ_SUBSCRIPTION_NOT_FOUND",
    "BIZ_PUBLISH_INFO_NOT_FOUND",
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
    "BIZ_INSTANCE_NOT_FOUND",
)


Order = Literal["Auto", "Orderly", "Concurrently"]
_ORDER = (
    "Whether clients that pop, gRPC ones too, get messages in order: Orderly, Concurrently, or Auto, in order once the "
    "group subscribes to ordered topics only."
)


class GroupCreate(Parameters):
    instanceId: InstanceId = ""
    groupId: GroupId = Field(
        description="Begins with GID_ or GID-; 5 to 64 letters, digits, - or _. It cannot change.",
    )
    remark: Remark = ""
    deliveryOrderType: Order = Field(default="Auto", description=_ORDER)


class GroupUpdate(Parameters):
    instanceId: InstanceId = ""
    groupId: GroupId
    deliveryOrderType: Order = Field(description=_ORDER)


class GroupList(Parameters):
    instanceId: InstanceId = ""
    groupId: str = Field(default="", max_length=255, description="The one group looked for; left out: all.")


class GroupOnly(Parameters):
    instanceId: InstanceId = ""
    groupId: GroupId


class ConsumerUpdate(GroupOnly):
    readEnable: Boolean = Field(description="true: the group may read messages. false: it gets none.")


class CreatedGroup(Result):
    instanceId: str
    groupId: str
    remark: str


class SubscribeInfo(Result):
    """SubscribeInfoDo."""

    owner: str = Field(description="ID of the account that owns the group.")
    instanceId: str
    groupId: str
    independentNaming: bool = Field(description="Whether the instance has a namespace of its own.")
    remark: str
    deliveryOrderType: str = Field(description="Auto, Orderly or Concurrently, as in group/create.")


class SubscribedTopic(Result):
    topic: str
    subString: str = Field(description="The filter expression.")


class GroupSubDetail(Result):
    groupId: str
    online: bool
    messageModel: str | None = Field(description="CLUSTERING or BROADCASTING; null while the group is offline.")
    SubscriptionDataList: list[SubscribedTopic]


@operation(
    "group/create",
    service="Group",
    summary="Create a group ID",
    description="For producers and consumers alike. A group that a RAM user creates is the RAM user's and its "
    "account's; one of the account is the account's alone. Whoever was granted a topic creates its own group in the "
    "instance of the topic.",
    parameters=GroupCreate,
    result=CreatedGroup,
    needs=("mq:CreateGroup",),
    changes=True,
    errors=(
        "BIZ_SUBSCRIPTION_EXISTED",
        "BIZ_PUBLISHER_EXISTED",
        "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED",
        "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
        "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
        "BIZ_INSTANCE_NOT_FOUND",
    ),
    rpc="OnsGroupCreate",
)
def create(call: Call, parameters: GroupCreate) -> CreatedGroup:
    instance = lookup.reachable_instance(call, parameters.instanceId)
    access.require_new_group(call.actor, instance)
    if parameters.groupId.startswith(lookup.PRODUCER_PREFIXES + lookup.CONSUMER_PREFIXES):
        _refuse_legacy(call, lookup.stored_group(instance, parameters.groupId), parameters.groupId)
    group = services.create_group(
        actor=call.actor,
        instance=instance,
        group_id=parameters.groupId,
        remark=parameters.remark,
        delivery_order=parameters.deliveryOrderType,
    )
    return CreatedGroup(instanceId=instance.instance_id, groupId=group.group_id, remark=group.remark)


@operation(
    "group/delete",
    service="Group",
    summary="Delete a group ID",
    description="Only while no consumer is connected. Its offsets, retry messages and dead letters are "
    "deleted with it.",
    parameters=GroupOnly,
    result=Nothing,
    needs=("mq:DeleteGroup",),
    changes=True,
    errors=_MISSES,
    rpc="OnsGroupDelete",
)
def delete(call: Call, parameters: GroupOnly) -> dict[str, Any]:
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:DeleteGroup")
    services.delete_group(actor=call.actor, group=group)
    return NOTHING


@operation(
    "group/list",
    service="Group",
    summary="List group IDs",
    description="Sorted. Legacy producer IDs are not listed.",
    parameters=GroupList,
    result=list[SubscribeInfo],
    needs=("mq:QueryInstance",),
    errors=("BIZ_INSTANCE_NOT_FOUND",),
    rpc="OnsGroupList",
)
def list_all(call: Call, parameters: GroupList) -> list[dict[str, Any]]:
    instance = lookup.reachable_instance(call, parameters.instanceId)
    lookup.require_own(call, instance, "mq:QueryInstance")
    found = queries.visible_groups(call.actor, instance)
    for prefix in lookup.PRODUCER_PREFIXES:
        found = found.exclude(group_id__startswith=prefix)
    if parameters.groupId:
        found = found.filter(group_id=parameters.groupId)
    owner = call.actor.tenant.uid
    same = {"owner": owner, "instanceId": instance.instance_id, "independentNaming": instance.independent_naming}
    # Plain rows: of thousands, making a SubscribeInfo of each would take longer than reading them.
    return [
        {**same, "groupId": group_id, "remark": remark, "deliveryOrderType": order}
        for group_id, remark, order in found.values_list("group_id", "remark", "delivery_order")
    ]


@operation(
    "group/subDetail",
    service="Group",
    summary="Topics that an online group subscribes to",
    description="Nothing can be told while the group is offline: the list is empty then.",
    parameters=GroupOnly,
    result=GroupSubDetail,
    needs=("mq:QueryGroup",),
    errors=_MISSES,
    rpc="OnsGroupSubDetail",
)
def sub_detail(call: Call, parameters: GroupOnly) -> GroupSubDetail:
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:QueryGroup")
    found = group_subscriptions(group)
    return GroupSubDetail(
        groupId=group.group_id,
        online=found is not None,
        messageModel=found.message_model if found else None,
        SubscriptionDataList=[
            SubscribedTopic(topic=name, subString=expression)
            for name, expression in (found.topics.items() if found else ())
        ],
    )


@operation(
    "group/consumerUpdate",
    service="Group",
    summary="Allow or stop consumption of a group",
    description="Connected consumers then receive nothing; offsets stay.",
    parameters=ConsumerUpdate,
    result=Nothing,
    needs=("mq:UpdateGroup",),
    changes=True,
    errors=_MISSES,
    rpc="OnsGroupConsumerUpdate",
)
def consumer_update(call: Call, parameters: ConsumerUpdate) -> dict[str, Any]:
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:UpdateGroup")
    services.set_group_reading(actor=call.actor, group=group, enabled=parameters.readEnable)
    return NOTHING


@operation(
    "group/update",
    service="Group",
    summary="Set whether a group gets messages in order",
    description="Clients that are online follow when they start anew. Consumers that lock queues keep the order "
    "themselves.",
    parameters=GroupUpdate,
    result=Nothing,
    needs=("mq:UpdateGroup",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def update(call: Call, parameters: GroupUpdate) -> dict[str, Any]:
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:UpdateGroup")
    services.set_group_order(actor=call.actor, group=group, delivery_order=parameters.deliveryOrderType)
    return NOTHING


def _refuse_legacy(call: Call, held: Any, group_id: str) -> None:
    """A producer or consumer ID of old: held by somebody, or refused by the rule of names that comes next."""
    if held is None:
        return
    if held.owner_id != call.actor.tenant.pk:
        raise lookup.belongs_to_another(group_id)
    kind = "PUBLISHER" if group_id.startswith(lookup.PRODUCER_PREFIXES) else "SUBSCRIPTION"
    raise Refused(f"BIZ_{kind}_EXISTED", f"The group ID {group_id} already exists.", "groupId")
