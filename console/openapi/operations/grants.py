"""Grants on topics (empower): to tenant accounts and to RAM users.

Behind them what the vendor does not have, for `gantry apply`: the grants of a whole instance, and policies.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.db.models import F
from pydantic import Field

from console.accounts import queries
from console.accounts.access import require
from console.accounts.actor import service_resource
from console.accounts.models import Policy
from console.accounts.services import policies
from console.openapi import envelope
from console.openapi.operations import lookup
from console.openapi.registry import (
    Call,
    Choice,
    InstanceId,
    OptionalUid,
    Parameters,
    Result,
    TopicName,
    Uid,
    operation,
)
from console.topics import grants
from console.topics.models import Grant, Topic
from console.web.errors import Refused

_OWNER = ("EMPOWER_OWNER_CHECK_ERROR", "BIZ_TOPIC_NOT_FOUND")

_LONGEST_DOCUMENT = 32_768
_NAME = "1 to 128 letters, digits and hyphens, unique in the account."
_POLICY_ERRORS = ("BIZ_FIELD_CHECK_INVALID",)

PolicyName = Annotated[str, Field(min_length=1, max_length=128, description=_NAME, examples=["orders-readers"])]
Description = Annotated[str, Field(max_length=256, description="What the policy is for.")]
Document = Annotated[
    str,
    Field(
        min_length=2,
        max_length=_LONGEST_DOCUMENT,
        description="The policy as JSON, with Version and Statement.",
        examples=[
            '{"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "acs:mq:*:*:*"}]}'
        ],
    ),
]


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
    needs=("mq:Empower",),
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
    needs=("mq:Empower",),
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
    needs=("mq:Empower",),
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
    needs=("mq:QueryTopic",),
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
        createTime=envelope.milliseconds(grant.created_at),
    )


class InstanceOnly(Parameters):
    instanceId: InstanceId = ""


class PolicyOnly(Parameters):
    policy: PolicyName


class PolicyContent(PolicyOnly):
    description: Description = ""
    document: Document


class PolicyDo(Result):
    """A policy."""

    name: str
    type: Literal["System", "Custom"] = Field(
        description="Every account has the system policies, and nobody can change them."
    )
    description: str
    document: str = Field(description="The policy as JSON.")
    updateTime: int = Field(description="Milliseconds since the epoch.")


@operation(
    "empower/listInInstance",
    service="Empower",
    summary="All grants on the topics of an instance",
    description="The grants that the account of the caller has given.",
    parameters=InstanceOnly,
    result=list[GrantDo],
    needs=("mq:QueryGrant",),
    errors=("BIZ_INSTANCE_NOT_FOUND",),
    extension=True,
)
def grants_in_instance(call: Call, parameters: InstanceOnly) -> list[GrantDo]:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryGrant")
    given = Grant.objects.filter(topic__instance=instance).order_by("topic__name", "pk")
    return [row_of(grant.topic, grant) for grant in given.select_related("tenant", "user", "topic__instance__tenant")]


@operation(
    "policy/list",
    service="Policy",
    summary="List the policies of the account",
    description="System policies and the account's own, by name.",
    result=list[PolicyDo],
    needs=("ram:ListPolicies",),
    extension=True,
)
def list_policies(call: Call, parameters: Parameters) -> list[PolicyDo]:
    _require(call, "ram:ListPolicies", "*")
    return [_policy(policy) for policy in queries.policies(call.actor.tenant)]


@operation(
    "policy/get",
    service="Policy",
    summary="One policy of the account",
    parameters=PolicyOnly,
    result=PolicyDo,
    needs=("ram:GetPolicy",),
    errors=_POLICY_ERRORS,
    extension=True,
)
def get_policy(call: Call, parameters: PolicyOnly) -> PolicyDo:
    return _policy(_found(call, parameters.policy, "ram:GetPolicy"))


@operation(
    "policy/create",
    service="Policy",
    summary="Create a policy",
    description="It grants nothing until it is attached to a user, a user group or a role.",
    parameters=PolicyContent,
    needs=("ram:CreatePolicy",),
    changes=True,
    errors=_POLICY_ERRORS,
    extension=True,
)
def create_policy(call: Call, parameters: PolicyContent) -> None:
    _require(call, "ram:CreatePolicy", "*")
    policies.create_policy(
        actor=call.actor,
        name=parameters.policy,
        description=parameters.description,
        document=_document(parameters.document),
    )


@operation(
    "policy/update",
    service="Policy",
    summary="Change the document of a policy",
    description="Takes effect at once for everyone it is attached to.",
    parameters=PolicyContent,
    needs=("ram:UpdatePolicy",),
    changes=True,
    errors=_POLICY_ERRORS,
    extension=True,
)
def update_policy(call: Call, parameters: PolicyContent) -> None:
    policies.update_policy(
        actor=call.actor,
        policy=_found(call, parameters.policy, "ram:UpdatePolicy"),
        description=parameters.description,
        document=_document(parameters.document),
    )


@operation(
    "policy/delete",
    service="Policy",
    summary="Delete a policy",
    description="Only one that is attached to nobody.",
    parameters=PolicyOnly,
    needs=("ram:DeletePolicy",),
    changes=True,
    errors=_POLICY_ERRORS,
    extension=True,
)
def delete_policy(call: Call, parameters: PolicyOnly) -> None:
    policies.delete_policy(actor=call.actor, policy=_found(call, parameters.policy, "ram:DeletePolicy"))


def _require(call: Call, action: str, path: str) -> None:
    owner = call.actor.tenant
    require(call.actor, action, service_resource("ram", owner, path), owner=owner)


def _found(call: Call, name: str, action: str) -> Policy:
    """The policy of this name, the account's own before a system policy. Raises Refused, PermissionDenied."""
    _require(call, action, f"policy/{name}")
    found = queries.policies(call.actor.tenant).filter(name=name).order_by(F("tenant").asc(nulls_last=True)).first()
    if found is None:
        raise Refused(envelope.FIELD, f"There is no policy {name} in this account.", "policy")
    return found


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(envelope.FIELD, f"The document is not valid JSON: {error}.", "document") from error
    if not isinstance(document, dict):
        raise Refused(envelope.FIELD, "The document is not a JSON object.", "document")
    return document


def _policy(policy: Policy) -> PolicyDo:
    return PolicyDo(
        name=policy.name,
        type="System" if policy.tenant_id is None else "Custom",
        description=policy.description,
        document=json.dumps(policy.document, ensure_ascii=False),
        updateTime=envelope.milliseconds(policy.updated_at),
    )
