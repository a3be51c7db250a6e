"""The policy simulator: a decision for somebody else, or for a policy that nobody has yet, with every reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.utils.translation import gettext as _

from brokercore.policy import Considered, Context, Decision, Statement, decide, explain
from console.accounts.actor import Actor
from console.accounts.models import Role, Tenant, User
from console.rights.resources import Target, resources

#: How many names a type-ahead of the simulator offers.
NAMES = 20


@dataclass(frozen=True, slots=True)
class Simulated:
    """The decision with everything that was looked at, and remarks about what no statement shows."""

    who: str
    action: str
    target: Target
    decision: Decision
    considered: list[Considered]
    remarks: list[str]
    linked: bool
    """True when the sources of the statements are policies that have a page."""


def in_circumstances(actor: Actor, context: Context) -> Actor:
    """The same caller, from another place, at another time."""
    return replace(
        actor,
        source_ip=context.source_ip,
        secure=context.secure_transport,
        mfa=context.mfa_present,
        _now=context.now or datetime.now(UTC),
    )


def as_user(user: User, context: Context) -> Actor:
    """The user as it would act in these circumstances."""
    return in_circumstances(Actor(user=user), context)


def as_role(role: Role, context: Context) -> Actor:
    """A session of the role as it would act in these circumstances."""
    return in_circumstances(Actor(role=role, session_name="simulation"), context)


def simulate(actor: Actor, action: str, target: Target, pasted: tuple[Statement, ...] | None = None) -> Simulated:
    """Decide as the page, the API, SQL and the broker would. `pasted` statements stand in for the actor's policies."""
    grantee = actor.grantee(target.resource, owner=target.owner, holder=target.holder)
    who = actor.name
    if pasted is not None:
        who = _("a RAM user with the pasted policy")
        grantee = replace(grantee, name=who, statements=pasted, grants=(), is_account=False)
    decision = decide(grantee, action, target.resource, actor.context)
    considered = explain(grantee, action, target.resource, actor.context)
    remarks = [target.about] if target.about else []
    if pasted is None and actor.is_account and not actor.is_platform_admin:
        remarks.append(
            _("%(who)s acts as the account itself, which may do everything inside it; no policy is evaluated.")
            % {"who": who}
        )
    elif not grantee.statements and not grantee.grants and not grantee.made(target.resource):
        remarks.append(_("%(who)s has no policy.") % {"who": who})
    if not grantee.reaches(action, target.resource, actor.context) and grantee.statements:
        remarks.append(_("The resource is out of reach of this caller's policies, so none of them counts."))
    linked = pasted is None and not actor.is_account
    return Simulated(who, action, target, decision, considered, remarks, linked)


def find_target(tenant: Tenant, text: str) -> Target:
    """The resource that a text means: a full `acs:…` name, or the name of an instance, topic or group.

    Of other accounts nothing is looked up but that they are others.
    """
    text = text.strip()
    if not text.startswith("acs:"):
        return resources.get().named(tenant, text)
    parts = text.split(":", 4)
    if len(parts) == 5 and parts[1] == "mq":
        return resources.get().named(tenant, parts[4])
    if len(parts) == 5 and parts[1] == "platform":
        return Target(
            text, None, about=_("The platform belongs to no account; policies of accounts allow nothing there.")
        )
    if len(parts) == 5 and parts[3] in ("", "*", tenant.uid):
        resource = ":".join([*parts[:2], "*", tenant.uid, parts[4]])
        return Target(resource, tenant)
    account = parts[3] if len(parts) == 5 else ""
    return Target(
        text,
        Tenant(uid=account),
        about=_("It belongs to another account, %(account)s.") % {"account": account}
        if account
        else _("It belongs to another account."),
    )


def resource_names(tenant: Tenant, text: str) -> list[str]:
    """The first few instances, topics and groups of the account that fit, as they stand in resources."""
    return resources.get().names_like(tenant, text, NAMES)[: 2 * NAMES]
