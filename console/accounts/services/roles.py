"""Roles of an account, whom they trust, and ending their sessions."""

from __future__ import annotations

import re
import string
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction

from brokercore.policy import parse_trust_policy, validate
from console.accounts import acl, delegation
from console.accounts.actor import Actor
from console.accounts.becoming import role_principal, roles_naming
from console.accounts.models import AccessKey, Policy, Role, Tenant
from console.accounts.services.attached import require_room
from console.accounts.services.held import hold
from console.accounts.services.policies import checked_description
from console.audit import services as audit
from console.web.errors import Refused

MIN_SESSION_S, MAX_SESSION_S = 900, 3600
"""15 minutes to 1 hour (docs/permissions.md, "Roles")."""

MOST_ROLES_NAMING, MOST_ROLES_NAMING_OWN = 50, 1_000
"""Roles of an account that trust principals of one other account, and of the own one. What somebody can become is
judged over all roles that name the own account (`becoming`), whoever made them: nobody makes them too many for another.
"""

_UID = re.compile(r"acs:ram::([0-9]+):")
_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")


def role_arn(role: Role) -> str:
    """The name of a role for those who assume it: `acs:ram::<account uid>:role/<name>`."""
    return role_principal(role)


def find_role(arn_or_name: str, tenant: Tenant | None) -> Role:
    """The role of an ARN, or of a bare name in the account `tenant`.

    Raises PermissionDenied when there is none: who is not trusted must not learn whether the role exists.
    """
    roles = Role.objects.select_related("tenant").prefetch_related("policies")
    found = None
    if arn_or_name.startswith("acs:ram::"):
        uid, _, path = arn_or_name.removeprefix("acs:ram::").partition(":")
        if path.startswith("role/"):
            found = roles.filter(tenant__uid=uid, name=path.removeprefix("role/")).first()
    elif tenant is not None:
        found = roles.filter(tenant=tenant, name=arn_or_name).first()
    if found is None:
        raise PermissionDenied(no_such_role(arn_or_name))
    return found


def no_such_role(arn_or_name: str) -> str:
    """The answer to who is not trusted, the same whether the role exists or not."""
    return f"denied: there is no role {arn_or_name[:150]} that trusts you"


@transaction.atomic
def create_role(
    *,
    actor: Actor,
    name: str,
    description: str,
    trust_policy: dict[str, Any],
    policies: list[Policy],
    max_session_s: int = MAX_SESSION_S,
) -> Role:
    """Create a role that the principals of its trust policy may assume, for `max_session_s` at the longest.

    Raises Refused for what is malformed or taken, PermissionDenied for policies beyond the actor's own rights.
    """
    if not 1 <= len(name) <= 64 or not _NAME_CHARACTERS.issuperset(name):
        raise Refused("BIZ_FIELD_CHECK_INVALID", "A role name has 1 to 64 letters, digits, dots, - or _.", "name")
    role = Role(tenant=actor.tenant, name=name, description=checked_description(description))
    policies = [hold(policy) for policy in policies]
    # The name may be one that other roles trust already.
    delegation.require_giving(actor, policies, roles=[role])
    role.trust_policy, role.max_session_s = _checked_trust(role, trust_policy), _checked_session(max_session_s)
    try:
        with transaction.atomic():
            role.save()
    except IntegrityError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", f"The role {name} exists already.", "name") from error
    require_room(role, policies)
    role.policies.set(policies)
    detail = {"trust_policy": trust_policy, "policies": [p.name for p in policies], "max_session_s": max_session_s}
    audit.record(actor, "accounts.role.create", name, detail=detail)
    return role


@transaction.atomic
def update_role(
    *, actor: Actor, role: Role, description: str, trust_policy: dict[str, Any], max_session_s: int
) -> Role:
    """Change whom a role trusts and for how long. Sessions that run go on until they end or are ended.

    Who does not act as the account must have the role's own rights: trusting oneself would be a way to get them.
    """
    role = hold(role)
    delegation.require_change_of_role(actor, role)
    detail = {"before": role.trust_policy, "after": trust_policy, "max_session_s": max_session_s}
    role.description = checked_description(description)
    role.trust_policy, role.max_session_s = _checked_trust(role, trust_policy), _checked_session(max_session_s)
    role.save(update_fields=["description", "trust_policy", "max_session_s"])
    audit.record(actor, "accounts.role.update", role.name, detail=detail)
    return role


@transaction.atomic
def attach_role_policy(*, actor: Actor, role: Role, policy: Policy) -> None:
    """Give a role a policy, at once for its running sessions too. Raises PermissionDenied beyond the actor's rights."""
    role, policy = hold(role), hold(policy)
    delegation.require_giving(actor, [policy], roles=[role])
    require_room(role, [policy])
    role.policies.add(policy)
    audit.record(actor, "accounts.role.attach_policy", role.name, detail={"policy": policy.name})
    acl.publish_on_commit()


@transaction.atomic
def detach_role_policy(*, actor: Actor, role: Role, policy: Policy) -> None:
    """Take a policy from a role, at once for its running sessions too."""
    role, policy = hold(role), hold(policy)
    delegation.require_giving(actor, [policy], roles=[role])
    role.policies.remove(policy)
    audit.record(actor, "accounts.role.detach_policy", role.name, detail={"policy": policy.name})
    acl.publish_on_commit()


@transaction.atomic
def delete_role(*, actor: Actor, role: Role) -> None:
    """Delete a role. Its sessions end with it."""
    role = hold(role)
    audit.record(actor, "accounts.role.delete", role.name, detail={"trust_policy": role.trust_policy})
    role.delete()
    acl.publish_on_commit()


@transaction.atomic
def end_sessions(*, actor: Actor, role: Role, access_key_id: str = "") -> int:
    """End one session of a role, or all of them: their keys work no more, within two seconds everywhere."""
    keys = AccessKey.objects.filter(role=role)
    if access_key_id:
        keys = keys.filter(access_key_id=access_key_id)
    ended = keys.count()
    keys.delete()
    audit.record(actor, "accounts.role.end_sessions", role.name, detail={"session": access_key_id or "all", "n": ended})
    acl.publish_on_commit()
    return ended


def _checked_trust(role: Role, document: Any) -> dict[str, Any]:
    found = validate(document, trust=True)
    if found:
        raise Refused("BIZ_FIELD_CHECK_INVALID", found[0].message, "trust_policy")
    named = {uid for row in parse_trust_policy(document) for name in row.principals for uid in _UID.findall(name)}
    # Held, so that two requests do not both see the last free place.
    Tenant.objects.select_for_update(no_key=True).get(pk=role.tenant.pk)
    for uid in sorted(named):
        most = MOST_ROLES_NAMING_OWN if uid == role.tenant.uid else MOST_ROLES_NAMING
        if roles_naming(uid).filter(tenant=role.tenant).exclude(pk=role.pk).count() >= most:
            message = f"{most} roles of {role.tenant.name} trust the account {uid} already; that is the limit."
            raise Refused("BIZ_FIELD_CHECK_INVALID", message, "trust_policy")
    return dict(document)


def _checked_session(seconds: int) -> int:
    if not MIN_SESSION_S <= seconds <= MAX_SESSION_S:
        message = f"The longest session has {MIN_SESSION_S} to {MAX_SESSION_S} seconds."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "max_session_s")
    return seconds
