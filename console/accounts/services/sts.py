"""Temporary keys: assuming a role (STS AssumeRole). One judge of trust policies for users, programs and services."""

from __future__ import annotations

import re
import secrets
from datetime import timedelta

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from brokercore.policy import (
    ASSUME_ROLE,
    Context,
    Decision,
    Grantee,
    decide,
    decide_trust,
)
from console.accounts import acl
from console.accounts.actor import Actor
from console.accounts.becoming import role_principal, role_resource, trust_statements, user_principal
from console.accounts.models import AccessKey, Role
from console.accounts.services.held import hold
from console.accounts.services.keys import IssuedKey, issue
from console.accounts.services.roles import MAX_SESSION_S, MIN_SESSION_S, no_such_role, role_arn
from console.audit import services as audit
from console.web.errors import Refused

ROLE_SESSION = timedelta(seconds=MAX_SESSION_S)
_SESSION_NAME = re.compile(r"[A-Za-z0-9.@_-]{2,64}")


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
        message = f"A session of this role lasts {MIN_SESSION_S} to {role.max_session_s} seconds."
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
    return decide_trust(statements, principal, context, f"role {role.name}")


def sweep_expired_keys() -> int:
    """Delete temporary keys whose time is over; they have not worked since."""
    return AccessKey.objects.filter(expires_at__lt=timezone.now()).delete()[0]


@transaction.atomic
def _draw(actor: Actor, role: Role, session_name: str, duration_s: int, assumed_by: str) -> IssuedKey:
    if not _SESSION_NAME.fullmatch(session_name):
        message = "A session name has 2 to 64 letters, digits, dots, @, - or _."
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
    acl.publish_on_commit()
    return issued


def _record(actor: Actor, role: Role, result: str, detail: dict[str, object]) -> None:
    """In the trail of the caller's account, and in that of the role's when it is another one."""
    mine = actor.own_tenant
    for tenant in {t.pk: t for t in (mine, role.tenant) if t is not None}.values():
        audit.record(actor, "sts.role.assume", role_arn(role), result=result, detail=detail, tenant=tenant)
