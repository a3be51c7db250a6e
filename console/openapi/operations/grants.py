"""Grants on topics (empower): to tenant accounts and to RAM users."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from console.openapi.operations import lookup
from console.openapi.operations.fields import Choice, InstanceId, OptionalUid, TopicName, Uid
from console.openapi.registry import Call, Parameters, Result, operation
from console.topics import grants
from console.topics.models import Grant, Topic
from console.web.errors import Refused

_OWNER = ("EMPOWER_OWNER_CHECK_ERROR", "BIZ_TOPIC_NOT_FOUND")


class _OfTopic(Parameters):
    instanceId: InstanceId = ""
    topic: TopicName


class Empower(_OfTopic):
    empowerUser: Uid = Field(description="ID of the tenant account.")
    relation: Annotated[Literal[2, 4, 6], Choice] = Field(description="2 publish, 4 subscribe, 6 both.")


class EmpowerSub(Empower):
    empowerUser: Uid = Field(description="ID of the RAM user, one of the caller's account.")


class EmpowerDelete(_OfTopic):
    empowerUser: Uid = Field(description="ID of the tenant account or RAM user.")


class EmpowerList(_OfTopic):
    empowerUser: OptionalUid = Field(
        default=None, description="ID of the tenant account or RAM user; left out: all grants."
    )


class GrantDo(Result):
    instanceId: str
    topic: str
    owner: str = Field(description="ID of the account that owns the topic.")
    empowerUser: str = Field(description="ID of the tenant account or RAM user.")
    relation: int = Field(description="2 publish, 4 subscribe, 6 both.")
    subUser: bool = Field(description="Whether it is a RAM user.")
    createTime: int = Field(description="Milliseconds since the epoch.")


@operation(
    "empower/create",
    service="Empower",
    summary="Grant a topic to another tenant account",
    description="Only the owner of the topic may. The account that receives it creates a group of its own.",
    parameters=Empower,
    changes=True,
    errors=("EMPOWER_EXIST_ERROR", *_OWNER),
)
def create(call: Call, parameters: Empower) -> None:
    topic = _topic(call, parameters, "mq:Empower")
    account = grants.account_of(call.actor, str(parameters.empowerUser))
    grants.create_grant(actor=call.actor, topic=topic, relation=parameters.relation, tenant=account)


@operation(
    "empower/createBySub",
    service="Empower",
    summary="Grant a topic to a RAM user",
    description="Only the owner of the topic may, and only to RAM users of its account.",
    parameters=EmpowerSub,
    changes=True,
    errors=("EMPOWER_EXIST_ERROR", *_OWNER),
)
def create_by_sub(call: Call, parameters: EmpowerSub) -> None:
    topic = _topic(call, parameters, "mq:Empower")
    user = grants.user_of(call.actor, str(parameters.empowerUser))
    grants.create_grant(actor=call.actor, topic=topic, relation=parameters.relation, user=user)


@operation(
    "empower/delete",
    service="Empower",
    summary="Revoke a grant",
    description="Clients of the receiver are refused within two seconds.",
    parameters=EmpowerDelete,
    changes=True,
    errors=(*_OWNER, "EMPOWER_NOT_FOUND"),
)
def delete(call: Call, parameters: EmpowerDelete) -> None:
    topic = _topic(call, parameters, "mq:Empower")
    grant = grants.find_grant(topic, str(parameters.empowerUser))
    if grant is None:
        message = f"{parameters.empowerUser} has no grant on the topic {topic.name}."
        raise Refused("EMPOWER_NOT_FOUND", message, "empowerUser")
    grants.delete_grant(actor=call.actor, grant=grant)


@operation(
    "empower/list",
    service="Empower",
    summary="Query the grants on a topic",
    description="Those of one account or RAM user, or all of them. Without a grant the list is empty.",
    parameters=EmpowerList,
    result=list[GrantDo],
    errors=_OWNER,
)
def list_all(call: Call, parameters: EmpowerList) -> list[GrantDo]:
    topic = _topic(call, parameters, "mq:QueryTopic")
    if parameters.empowerUser is None:
        return [row_of(topic, grant) for grant in grants.grants_of(topic)]
    grant = grants.find_grant(topic, str(parameters.empowerUser))
    return [row_of(topic, grant)] if grant else []


def _topic(call: Call, parameters: _OfTopic, action: str) -> Topic:
    return lookup.owned_topic(call, parameters.instanceId, parameters.topic, action)


def row_of(topic: Topic, grant: Grant) -> GrantDo:
    """The grant on `topic` as operations answer it; the topic comes apart so that a list loads it once."""
    receiver = grant.user or grant.tenant
    return GrantDo(
        instanceId=topic.instance.instance_id,
        topic=topic.name,
        owner=topic.instance.tenant.uid,
        empowerUser=receiver.uid if receiver else "",
        relation=grant.relation,
        subUser=grant.user is not None,
        createTime=int(grant.created_at.timestamp() * 1000),
    )
