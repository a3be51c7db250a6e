"""Roles of an account, whom they trust, and ending their sessions."""

from __future__ import annotations

import re
import secrets
import string
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from brokercore.policy import (
    ASSUME_ROLE,
    Context,
    Decision,
    Grantee,
    decide,
    decide_trust,
    parse_trust_policy,
    validate,
)
from console.accounts import delegation
from console.accounts.actor import Actor
from console.accounts.assumable_roles import (
    role_principal,
    role_resource,
    roles_naming,
    trust_statements,
    user_principal,
)
from console.accounts.changes import rights_changed
from console.accounts.models import AccessKey, Policy, Role, Tenant
from console.accounts.services.keys import IssuedKey, issue
from console.accounts.services.policies import checked_description, require_room
from console.accounts.services.row_locks import hold
from console.audit import record as audit
from console.web.errors import Refused

MIN_SESSION_S, MAX_SESSION_S = 900, 3600
"""15 minutes to 1 hour (docs/use/permissions.md, "Roles")."""

MOST_ROLES_NAMING, MOST_ROLES_NAMING_OWN = 50, 1_000
"""Roles of an account that trust principals of one other account, and of the own one. What somebody can become is
judged over all roles that name the own account (`assumable_roles`), whoever made them: nobody makes them too many for
another.
"""

_UID = re.compile(r"acs:ram::([0-9]+):")
_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")

ROLE_SESSION = timedelta(seconds=MAX_SESSION_S)
_SESSION_NAME = re.compile(r"[A-Za-z0-9.@_-]{2,64}")


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
        uid, _unused, path = arn_or_name.removeprefix("acs:ram::").partition(":")
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
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("A role name has 1 to 64 letters, digits, dots, - or _."), "name")
    role = Role(tenant=actor.tenant, name=name, description=checked_description(description))
    policies = [hold(policy) for policy in policies]
    # The name may be one that other roles trust already.
    delegation.require_giving(actor, policies, roles=[role])
    role.trust_policy, role.max_session_s = _checked_trust(role, trust_policy), _checked_session(max_session_s)
    try:
        with transaction.atomic():
            role.save()
    except IntegrityError as error:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID", _("The role %(name)s already exists.") % {"name": name}, "name"
        ) from error
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
    rights_changed()


@transaction.atomic
def detach_role_policy(*, actor: Actor, role: Role, policy: Policy) -> None:
    """Take a policy from a role, at once for its running sessions too."""
    role, policy = hold(role), hold(policy)
    delegation.require_giving(actor, [policy], roles=[role])
    role.policies.remove(policy)
    audit.record(actor, "accounts.role.detach_policy", role.name, detail={"policy": policy.name})
    rights_changed()


@transaction.atomic
def delete_role(*, actor: Actor, role: Role) -> None:
    """Delete a role. Its sessions end with it."""
    role = hold(role)
    audit.record(actor, "accounts.role.delete", role.name, detail={"trust_policy": role.trust_policy})
    role.delete()
    rights_changed()


@transaction.atomic
def end_sessions(*, actor: Actor, role: Role, access_key_id: str = "") -> int:
    """End one session of a role, or all of them: their keys work no more, within two seconds everywhere."""
    keys = AccessKey.objects.filter(role=role)
    if access_key_id:
        keys = keys.filter(access_key_id=access_key_id)
    ended = keys.count()
    keys.delete()
    audit.record(actor, "accounts.role.end_sessions", role.name, detail={"session": access_key_id or "all", "n": ended})
    rights_changed()
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
            message = _("%(most)s roles of %(name)s trust the account %(uid)s already; that is the limit.") % {
                "most": most,
                "name": role.tenant.name,
                "uid": uid,
            }
            raise Refused("BIZ_FIELD_CHECK_INVALID", message, "trust_policy")
    return dict(document)


def _checked_session(seconds: int) -> int:
    if not MIN_SESSION_S <= seconds <= MAX_SESSION_S:
        message = _("The longest session has %(min_session_s)s to %(max_session_s)s seconds.") % {
            "min_session_s": MIN_SESSION_S,
            "max_session_s": MAX_SESSION_S,
        }
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "max_session_s")
    return seconds


def assume_role(*, actor: Actor, role: Role, session_name: str, duration_s: int = MAX_SESSION_S) -> IssuedKey:
    """Temporary keys of a role for the actor, valid for `duration_s` seconds, at most the role's longest session.

    Two sides must agree: the role's trust policy lets the caller in, and the caller's own policies allow
    `sts:AssumeRole` on the role. Raises PermissionDenied (on record in both accounts) or Refused for a malformed
    session name or duration.
    """
    decision = may_assume(actor, role)
    if not decision.allowed:
        _record(actor, role, "refused", {"reason": decision.reason})
        foreign = actor.own_tenant is None or actor.own_tenant.pk != role.tenant_id
        raise PermissionDenied(no_such_role(role_arn(role)) if foreign else decision.reason)
    if not MIN_SESSION_S <= duration_s <= role.max_session_s:
        message = _("A session of this role lasts %(min_session_s)s to %(max_session_s)s seconds.") % {
            "min_session_s": MIN_SESSION_S,
            "max_session_s": role.max_session_s,
        }
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "duration_s")
    return _draw(actor, role, session_name, duration_s, assumed_by=actor.name)


def assume_role_as_service(role: Role, service: str, session_name: str) -> IssuedKey:
    """Temporary keys of a role for one of the console's own services. Raises PermissionDenied when not trusted."""
    decision = service_is_trusted(role, service)
    if not decision.allowed:
        raise PermissionDenied(decision.reason)
    return _draw(
        Actor(role=role, session_name=session_name, channel="service"), role, session_name, role.max_session_s, service
    )


def may_assume(actor: Actor, role: Role) -> Decision:
    """Whether trust policy and own policies both let the actor assume the role."""
    trusted = _trust_in(role, principal_of(actor), actor.context)
    if not trusted.allowed:
        return trusted
    resource = role_resource(role)
    # The trust policy has opened the role to the caller, be it of another account: its own policies decide the rest.
    grantee = Grantee(actor.name, (resource,), actor.statements, account=role.tenant.uid)
    return decide(grantee, ASSUME_ROLE, resource, actor.context)


def service_is_trusted(role: Role, service: str) -> Decision:
    """Whether the role's trust policy names the service, in whichever domain: `openanalytics.example.com`."""
    rows = trust_statements(role) or ()
    names = {s for row in rows for s in row.services if s.partition(".")[0].lower() == service} or {service}
    found = [_trust_in(role, name, Context()) for name in sorted(names)]
    return next((d for d in found if not d.allowed), found[0])


def principal_of(actor: Actor) -> str:
    """The RAM name of who acts: `acs:ram::<uid>:user/<name>`, `…:role/<name>`, or `…:root` for an account's key."""
    tenant = actor.tenant
    if actor.user is not None:
        return user_principal(actor.user)
    return role_principal(actor.role) if actor.role is not None else f"acs:ram::{tenant.uid}:root"


def _trust_in(role: Role, principal: str, context: Context) -> Decision:
    statements = trust_statements(role)
    if statements is None:
        return Decision(False, f"denied: the trust policy of role {role.name} cannot be read")
    return decide_trust(statements, principal, context, _("role %(role)s") % {"role": role.name})


def sweep_expired_keys() -> int:
    """Delete temporary keys whose time is over; they have not worked since."""
    return AccessKey.objects.filter(expires_at__lt=timezone.now()).delete()[0]


@transaction.atomic
def _draw(actor: Actor, role: Role, session_name: str, duration_s: int, assumed_by: str) -> IssuedKey:
    if not _SESSION_NAME.fullmatch(session_name):
        message = _("A session name has 2 to 64 letters, digits, dots, @, - or _.")
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "session_name")
    role = hold(role)
    sweep_expired_keys()
    issued = issue(
        token=f"{session_name}.{secrets.token_urlsafe(48)}",
        lifetime=timedelta(seconds=duration_s),
        role=role,
        session_name=session_name,
        assumed_by=assumed_by[:150],
    )
    _record(actor, role, "success", {"session": session_name, "key": issued.access_key_id, "seconds": duration_s})
    rights_changed()
    return issued


def _record(actor: Actor, role: Role, result: str, detail: dict[str, object]) -> None:
    """In the trail of the caller's account, and in that of the role's when it is another one."""
    mine = actor.own_tenant
    for tenant in {t.pk: t for t in (mine, role.tenant) if t is not None}.values():
        audit.record(actor, "sts.role.assume", role_arn(role), result=result, detail=detail, tenant=tenant)
