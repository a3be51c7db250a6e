"""What a RAM user with `ram:…` rights may not do all the same: reach beyond its own rights.

A right to attach policies or to reset passwords would otherwise be a right to everything: attach FullAccess to
yourself, or sign in as somebody stronger. So who does not act as the account

* gives and takes only policies whose every statement its own statements cover (a Deny too: taking it away gives),
* changes only users whose rights it covers,
* never changes the administrator of the account. Nobody does but the administrator itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from django.core.exceptions import PermissionDenied

from brokercore.policy import Statement
from brokercore.policy.patterns import expression
from console.accounts.actor import Actor, service_resource, statements_of, user_statements
from console.accounts.models import Policy, User
from console.audit import services as audit


def require_change_of(actor: Actor, user: User) -> None:
    """Raise PermissionDenied, on record, unless `actor` may change this user's rights and sign-in."""
    itself = actor.user is not None and actor.user.pk == user.pk
    if actor.is_platform_admin or (user.is_tenant_admin and itself):
        return
    resource = service_resource("ram", user.tenant, f"user/{user.username}") if user.tenant else user.username
    if user.is_tenant_admin:
        _refuse(actor, resource, f"denied: {user.username} administers the account; only it can change itself")
    # What the user was granted on topics comes with its sign-in, as its policies do.
    if not actor.is_account and not _covers_all(actor, (*user_statements(user), *Actor(user=user).grants)):
        _refuse(actor, resource, f"denied: {user.username} may do more than {actor.name}, who can't change it")


def require_giving(actor: Actor, policies: Iterable[Policy]) -> None:
    """Raise PermissionDenied, on record, unless `actor` may give and take these policies."""
    if actor.is_account:
        return
    for policy in policies:
        if not _covers_all(actor, statements_of([policy])):
            resource = service_resource("ram", actor.tenant, f"policy/{policy.name}")
            _refuse(actor, resource, f"denied: {policy.name} allows or denies more than {actor.name} may do itself")


def covers(own: Iterable[Statement], wanted: Statement) -> bool:
    """True when `own` statements allow all that `wanted` speaks of, whether it allows or denies that.

    Each action on each resource must be inside one own Allow with no further condition, and outside of every own Deny.
    In doubt the answer is no.
    """
    own = tuple(own)
    denied = any(
        _any_overlap(s.actions, wanted.actions, fold=True) and _any_overlap(s.resources, wanted.resources)
        for s in own
        if not s.allow
    )
    return not denied and all(
        any(_allows(s, wanted, action, resource) for s in own)
        for action in wanted.actions
        for resource in wanted.resources
    )


def _allows(own: Statement, wanted: Statement, action: str, resource: str) -> bool:
    return (
        own.allow
        and set(own.conditions) <= set(wanted.conditions)
        and any(_inside(action.lower(), pattern.lower()) for pattern in own.actions)
        and any(_inside(resource, pattern) for pattern in own.resources)
    )


def _covers_all(actor: Actor, wanted: Iterable[Statement]) -> bool:
    own = (*actor.statements, *actor.grants)
    return all(covers(own, statement) for statement in wanted)


def _refuse(actor: Actor, resource: str, reason: str) -> None:
    audit.record(actor, "ram:Delegate", resource, result="refused", detail={"reason": reason})
    raise PermissionDenied(reason)


@lru_cache(maxsize=4096)
def _inside(pattern: str, outer: str) -> bool:
    """True when all that `pattern` matches, `outer` matches too: its `*` may stand for any part of the pattern.

    Of a resource each of the five parts must be inside its counterpart, so that no `*` reaches over a colon.
    """
    parts, outer_parts = pattern.split(":", 4), outer.split(":", 4)
    if len(outer_parts) == 5:
        return len(parts) == 5 and all(map(_part_inside, parts, outer_parts))
    return _part_inside(pattern, outer)


def _part_inside(pattern: str, outer: str) -> bool:
    return re.fullmatch(expression(outer, one="[^*]"), pattern, re.DOTALL) is not None


def _any_overlap(left: Iterable[str], right: Iterable[str], *, fold: bool = False) -> bool:
    pairs = ((a.lower(), b.lower()) if fold else (a, b) for a in left for b in right)
    return any(_overlap(a, b) for a, b in pairs)


@lru_cache(maxsize=4096)
def _overlap(left: str, right: str) -> bool:
    """True when a text exists that both patterns match; of two resources each part must overlap its counterpart."""
    parts, others = left.split(":", 4), right.split(":", 4)
    if len(parts) == len(others) == 5:
        return all(map(_part_overlap, parts, others))
    return _part_overlap(left, right)


def _part_overlap(left: str, right: str) -> bool:
    """True when a text exists that both patterns match.

    `reached[j]`: the part of `left` read so far and the first j characters of `right` can match one text.
    """
    reached = [True] + [False] * len(right)
    for j, character in enumerate(right):
        reached[j + 1] = reached[j] and character == "*"
    for own in left:
        row = [reached[0] and own == "*"] + [False] * len(right)
        for j, other in enumerate(right):
            if "*" in (own, other):
                row[j + 1] = (own == "*" and (reached[j + 1] or row[j])) or (
                    other == "*" and (row[j] or reached[j + 1])
                )
            else:
                row[j + 1] = reached[j] and (own == other or "?" in (own, other))
        reached = row
    return reached[-1]
