"""Topics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from console.messaging.producers import senders
from console.messaging.status import online_subscribers, release
from console.openapi.envelope import Page, cut, milliseconds
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Call,
    Choice,
    InstanceId,
    ListPage,
    ListSize,
    Nothing,
    Parameters,
    Remark,
    Result,
    TopicName,
    operation,
)
from console.topics import access, queries, services
from console.topics.models import Topic

OWNER = 1
IN_SERVICE = 0


class TopicCreate(Parameters):
    topic: TopicName = Field(
        description="3 to 127 letters, digits, - or _, 3 to 93 in an instance with a namespace; does not begin with "
        "CID or GID. Unique in the instance, or over all instances when the instance has no namespace."
    )
    instanceId: InstanceId = ""
    orderType: Annotated[Literal[0, 1, 2, 4, 5], Choice] = Field(
        default=0,
        description="Message type: 0 normal, 1 partitionally ordered, 2 globally ordered, 4 transactional, 5 scheduled "
        "or delayed. It cannot change.",
    )
    remark: Remark = ""


class TopicOnly(Parameters):
    topic: TopicName
    instanceId: InstanceId = ""


class TopicUpdate(TopicOnly):
    perm: Annotated[Literal[6, 4, 2], Choice] = Field(
        description="6 read and write, 4 no writing (read only), 2 no reading (write only)."
    )


class TopicListInPage(Parameters):
    instanceId: InstanceId = ""
    topic: str = Field(default="", max_length=127, description="The exact name looked for; left out: all.")
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Topics a page, 1 to 100.")] = 20


class InstanceChoice(Parameters):
    instanceId: InstanceId = ""


class TopicDo(Result):
    """TopicDo."""

    topic: str
    owner: str = Field(description="ID of the account that owns it.")
    instanceId: str
    independentNaming: bool = Field(description="Whether the instance has a namespace of its own.")
    orderType: int = Field(description="Message type, as in topic/create.")
    perm: int = Field(description="6 read and write, 4 read only, 2 write only.")
    status: int = Field(description="0: in service.")
    relation: int = Field(description="What the caller may: 1 owner; granted: 2 publish, 4 subscribe, 6 both.")
    remark: str
    createTime: int = Field(description="Milliseconds since the epoch.")


class OnlineGroup(Result):
    groupId: str
    subString: str = Field(description="The filter expression.")
    messageModel: str = Field(description="CLUSTERING or BROADCASTING.")


class TopicSubDetail(Result):
    topic: str
    SubscriptionDataList: list[OnlineGroup]


class ProducerDo(Result):
    """ProducerDo."""

    clientId: str = Field(description="As the client names itself; empty: no client of these addresses is known.")
    online: bool = Field(description="A broker knows the client as connected.")
    addresses: list[str] = Field(description="Address and port; of several that no client is known of, the host.")
    language: str = Field(description="As the client says; empty while offline.")
    version: str = Field(description="Release of the client library; empty while offline.")
    groups: list[str] = Field(description="Producer groups of the account that it is in, or sent under by its traces.")
    lastHeartbeat: int = Field(description="Milliseconds since the epoch; 0: not known.")
    lastMessage: int = Field(description="Store time of its newest message, ms; 0: it sent none of the newest ones.")
    messages: int = Field(description="How many of the newest messages are its own.")
    tps: float | None = Field(description="Messages a second, of at most the last five minutes; null: not known.")


class TopicProducers(Result):
    """TopicProducers."""

    topic: str
    lookedAt: int = Field(description="Newest messages that were looked at: 32 of each queue at most.")
    clientsTold: bool = Field(description="false: the brokers do not tell which clients are connected.")
    ProducerList: list[ProducerDo]


@operation(
    "topic/create",
    service="Topic",
    summary="Create a topic",
    description="The caller's account becomes its owner.",
    parameters=TopicCreate,
    result=Nothing,
    needs=("mq:CreateTopic",),
    changes=True,
    errors=("BIZ_TOPIC_EXISTED", "BIZ_INSTANCE_NOT_FOUND", "BIZ_TOPIC_QUOTA_EXCEEDED"),
    rpc="OnsTopicCreate",
)
def create(call: Call, parameters: TopicCreate) -> dict[str, Any]:
    services.create_topic(
        actor=call.actor,
        instance=lookup.own_instance(call, parameters.instanceId, "mq:CreateTopic"),
        name=parameters.topic,
        order_type=parameters.orderType,
        remark=parameters.remark,
    )
    return NOTHING


@operation(
    "topic/delete",
    service="Topic",
    summary="Delete a topic and its subscriptions",
    description="Its messages, the subscriptions and the grants on it are deleted with it.",
    parameters=TopicOnly,
    result=Nothing,
    needs=("mq:DeleteTopic",),
    changes=True,
    errors=("BIZ_TOPIC_NOT_FOUND", "BIZ_INSTANCE_NOT_FOUND"),
    rpc="OnsTopicDelete",
)
def delete(call: Call, parameters: TopicOnly) -> dict[str, Any]:
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:DeleteTopic")
    services.delete_topic(actor=call.actor, topic=topic)
    return NOTHING


@operation(
    "topic/update",
    service="Topic",
    summary="Set the read/write mode of a topic",
    description="With 4 sends are refused; with 2 consumers get nothing, and they keep their offsets.",
    parameters=TopicUpdate,
    result=Nothing,
    needs=("mq:UpdateTopic",),
    changes=True,
    errors=("BIZ_TOPIC_NOT_FOUND", "BIZ_INSTANCE_NOT_FOUND"),
    rpc="OnsTopicUpdate",
)
def update(call: Call, parameters: TopicUpdate) -> dict[str, Any]:
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:UpdateTopic")
    services.set_topic_permission(actor=call.actor, topic=topic, perm=parameters.perm)
    return NOTHING


@operation(
    "topic/get",
    service="Topic",
    summary="Basic data of one topic",
    description="Own topics and granted ones.",
    parameters=TopicOnly,
    result=TopicDo,
    needs=("mq:QueryTopic",),
    errors=("BIZ_TOPIC_NOT_FOUND", "BIZ_INSTANCE_NOT_FOUND"),
)
def get(call: Call, parameters: TopicOnly) -> TopicDo:
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTopic")
    return _described([topic], _relations(call, [topic]))[0]


@operation(
    "topic/listInPage",
    service="Topic",
    summary="Topics, page by page",
    description="By name. In an instance of another account: those that it granted to the caller. A page behind the "
    "last is empty and tells the true total.",
    parameters=TopicListInPage,
    result=TopicDo,
    paged=True,
    needs=("mq:QueryInstance",),
    errors=("BIZ_INSTANCE_NOT_FOUND",),
    rpc="OnsTopicList",
)
def list_in_page(call: Call, parameters: TopicListInPage) -> Page:
    found = _listed(call, parameters.instanceId)
    if parameters.topic:
        found = found.filter(name=parameters.topic)
    rows = cut(parameters, found.select_related("instance__tenant"))
    return Page.of(parameters, _described(rows, _relations(call, rows)), found.count())


@operation(
    "topic/listNames",
    service="Topic",
    summary="Names of all topics",
    description="Sorted; those of the account in this instance, without topics that others granted.",
    parameters=InstanceChoice,
    result=list[str],
    needs=("mq:QueryInstance",),
    errors=("BIZ_INSTANCE_NOT_FOUND",),
)
def list_names(call: Call, parameters: InstanceChoice) -> list[str]:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
    return list(queries.visible_topics(call.actor, instance).values_list("name", flat=True))


@operation(
    "topic/subDetail",
    service="Topic",
    summary="Online groups that subscribe to a topic",
    description="The caller's own groups; those of other accounts are not shown.",
    parameters=TopicOnly,
    result=TopicSubDetail,
    needs=("mq:QueryTopic",),
    errors=("BIZ_TOPIC_NOT_FOUND", "BIZ_INSTANCE_NOT_FOUND"),
    rpc="OnsTopicSubDetail",
)
def sub_detail(call: Call, parameters: TopicOnly) -> TopicSubDetail:
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTopic")
    rows = [
        OnlineGroup(groupId=found.group_id, subString=found.expression, messageModel=found.message_model)
        for found in online_subscribers(call.actor, topic)
    ]
    return TopicSubDetail(topic=topic.name, SubscriptionDataList=rows)


@operation(
    "topic/producers",
    service="Topic",
    summary="Who sends to a topic",
    description="By the newest messages of each queue and the clients that are connected: brokers know producers by "
    "group alone. A client of RocketMQ 4 that has sent none of the newest messages is not among them. Own topics only.",
    parameters=TopicOnly,
    result=TopicProducers,
    needs=("mq:QueryTopic",),
    errors=("BIZ_TOPIC_NOT_FOUND", "BIZ_INSTANCE_NOT_FOUND"),
    extension=True,
)
def producers(call: Call, parameters: TopicOnly) -> TopicProducers:
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTopic")
    if topic.instance.tenant_id != call.actor.tenant.pk:
        raise lookup.no_topic(topic.instance, topic.name)
    known = senders(topic)
    rows = [
        ProducerDo(
            clientId=one.client_id,
            online=one.online,
            addresses=list(one.addresses),
            language=one.language,
            version="" if one.version is None else release(one.version),
            groups=list(one.groups),
            lastHeartbeat=one.heartbeat_ms or 0,
            lastMessage=one.message_ms or 0,
            messages=one.messages,
            tps=None if one.rate is None else round(one.rate, 3),
        )
        for one in known.found
    ]
    return TopicProducers(topic=topic.name, lookedAt=known.looked_at, clientsTold=known.told, ProducerList=rows)


def _listed(call: Call, instance_id: str) -> Any:
    """Topics of an own instance that the caller may see, or those that were granted in another account's."""
    instance = lookup.reachable_instance(call, instance_id)
    if lookup.require_own(call, instance, "mq:QueryInstance"):
        return queries.visible_topics(call.actor, instance)
    return queries.granted_topics(call.actor, instance)


def _relations(call: Call, topics: list[Topic]) -> dict[int, int]:
    """The caller's relation to each topic by its primary key: 1 of an own one, else as granted."""
    actor = call.actor
    if actor.is_account and all(topic.instance.tenant_id == actor.tenant.pk for topic in topics):
        return {}
    granted = access.received_grants(actor).filter(topic__in=topics)
    return {grant.topic_id: grant.relation for grant in granted}


def _described(topics: list[Topic], relations: dict[int, int]) -> list[TopicDo]:
    return [
        TopicDo(
            topic=topic.name,
            owner=topic.instance.tenant.uid,
            instanceId=topic.instance.instance_id,
            independentNaming=topic.instance.independent_naming,
            orderType=topic.order_type,
            perm=topic.perm,
            status=IN_SERVICE,
            relation=relations.get(topic.pk, OWNER),
            remark=topic.remark,
            createTime=milliseconds(topic.created_at),
        )
        for topic in topics
    ]
