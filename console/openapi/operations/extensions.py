"""Operations that the vendor does not have: policies, and the grants of a whole instance, for `gantry apply`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.db.models import F
from pydantic import Field

from console.accounts import queries
from console.accounts.access import require
from console.accounts.actor import service_resource
from console.accounts.models import Policy
from console.accounts.services import policies as services
from console.openapi import codes
from console.openapi.operations import lookup
from console.openapi.operations.fields import InstanceId
from console.openapi.operations.grants import GrantDo, row_of
from console.openapi.registry import Call, Parameters, Result, operation
from console.topics.models import Grant
from console.web.errors import Refused

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
    type: Literal["System", "Custom"] = Field(description="System policies are everybody's and cannot change.")
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
    errors=_POLICY_ERRORS,
    extension=True,
)
def get_policy(call: Call, parameters: PolicyOnly) -> PolicyDo:
    return _policy(_found(call, parameters.policy, "ram:GetPolicy"))


@operation(
    "policy/create",
    service="Policy",
    summary="Create a policy",
    description="It gives nothing until it is attached to a user, a user group or a role.",
    parameters=PolicyContent,
    changes=True,
    errors=_POLICY_ERRORS,
    extension=True,
)
def create_policy(call: Call, parameters: PolicyContent) -> None:
    _require(call, "ram:CreatePolicy", "*")
    services.create_policy(
        actor=call.actor,
        name=parameters.policy,
        description=parameters.description,
        document=_document(parameters.document),
    )


@operation(
    "policy/update",
    service="Policy",
    summary="Change what a policy says",
    description="At once for everybody it is attached to.",
    parameters=PolicyContent,
    changes=True,
    errors=_POLICY_ERRORS,
    extension=True,
)
def update_policy(call: Call, parameters: PolicyContent) -> None:
    services.update_policy(
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
    changes=True,
    errors=_POLICY_ERRORS,
    extension=True,
)
def delete_policy(call: Call, parameters: PolicyOnly) -> None:
    services.delete_policy(actor=call.actor, policy=_found(call, parameters.policy, "ram:DeletePolicy"))


def _require(call: Call, action: str, path: str) -> None:
    owner = call.actor.tenant
    require(call.actor, action, service_resource("ram", owner, path), owner=owner)


def _found(call: Call, name: str, action: str) -> Policy:
    """The policy of this name, the account's own before a system policy. Raises Refused, PermissionDenied."""
    _require(call, action, f"policy/{name}")
    found = queries.policies(call.actor.tenant).filter(name=name).order_by(F("tenant").asc(nulls_last=True)).first()
    if found is None:
        raise Refused(codes.FIELD, f"There is no policy {name} in this account.", "policy")
    return found


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(codes.FIELD, f"The document is no JSON: {error}.", "document") from error
    if not isinstance(document, dict):
        raise Refused(codes.FIELD, "The document is no JSON object.", "document")
    return document


def _policy(policy: Policy) -> PolicyDo:
    return PolicyDo(
        name=policy.name,
        type="System" if policy.tenant_id is None else "Custom",
        description=policy.description,
        document=json.dumps(policy.document, ensure_ascii=False),
        updateTime=int(policy.updated_at.timestamp() * 1000),
    )
