"""STS (version 2015-04-01) in the RPC style: temporary keys for a role, and who the caller is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.accounts.models import Role
from console.accounts.services import sts
from console.accounts.services.roles import find_role
from console.openapi import codes
from console.openapi.registry import Call, Parameters
from console.web.errors import Refused

VERSION = "2015-04-01"


class AssumeRole(Parameters):
    """Parameters of AssumeRole; `Policy` is known so that it can be refused."""

    RoleArn: str
    RoleSessionName: str
    DurationSeconds: int | None = None
    Policy: str = ""


def assume_role(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Keys of a role for whom its trust policy names. Raises Refused and PermissionDenied."""
    actor, parameters = call.actor, AssumeRole.model_validate(dict(given))
    if parameters.Policy:
        # To leave it out would give more rights than the caller wanted to hand on.
        raise Refused(codes.FIELD, "A session policy (Policy) is not supported; attach it to the role.", "Policy")
    role = find_role(parameters.RoleArn, actor.own_tenant)
    issued = sts.assume_role(
        actor=actor,
        role=role,
        session_name=parameters.RoleSessionName,
        duration_s=parameters.DurationSeconds or role.max_session_s,
    )
    return {
        "Credentials": {
            "AccessKeyId": issued.access_key_id,
            "AccessKeySecret": issued.access_key_secret,
            "SecurityToken": issued.security_token,
            "Expiration": f"{issued.expires_at:%Y-%m-%dT%H:%M:%SZ}",
        },
        "AssumedRoleUser": {
            "Arn": _session_arn(role, parameters.RoleSessionName),
            "AssumedRoleId": f"{role.pk}:{parameters.RoleSessionName}",
        },
    }


def get_caller_identity(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Account, user or role session behind the key that signed."""
    actor = call.actor
    account = actor.tenant.uid
    if actor.role is not None:
        return {
            "AccountId": account,
            "Arn": _session_arn(actor.role, actor.session_name),
            "IdentityType": "AssumedRoleUser",
            "PrincipalId": f"{actor.role.pk}:{actor.session_name}",
            "RoleId": str(actor.role.pk),
        }
    if actor.is_account or actor.user is None:
        return {"AccountId": account, "Arn": f"acs:ram::{account}:root", "IdentityType": "Account",
                "PrincipalId": account, "UserId": account}  # fmt: skip
    name = actor.user.username.rpartition("@")[0]
    return {"AccountId": account, "Arn": f"acs:ram::{account}:user/{name}", "IdentityType": "RAMUser",
            "PrincipalId": actor.user.uid, "UserId": actor.user.uid}  # fmt: skip


def _session_arn(role: Role, session_name: str) -> str:
    return f"acs:ram::{role.tenant.uid}:role/{role.name}/{session_name}"


ACTIONS = {"AssumeRole": assume_role, "GetCallerIdentity": get_caller_identity}
