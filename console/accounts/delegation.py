"""What a RAM user with `ram:…` rights may not do all the same: reach beyond its own rights.

A right to attach policies or to reset passwords would otherwise be a right to everything: attach FullAccess to
yourself, or sign in as somebody stronger. So who does not act as the account

* gives and takes only policies whose every statement its own statements cover (a Deny too: taking it away gives),
* changes only users whose rights it covers: their policies, grants and groups, and the roles that they can become,
* lets nobody assume a role, and trusts nobody with one, that is more than it is itself,
* never changes the administrator of the account. Nobody does but the administrator itself.

A role that it surely can assume itself counts as its own (`console.accounts.assumable_roles`). Every change is judged
in its transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, lru_cache

from django.core.exceptions import PermissionDenied

from brokercore.globs import expression
from brokercore.policy import CREATOR, Statement, mq_resource
from console.accounts.actor import Actor, role_statements, service_resource, statements_of, user_statements
from console.accounts.assumable_roles import Principals, Roles, role_principal, sessions_of, user_principal
from console.accounts.models import Policy, Role, Tenant, User
from console.accounts.resources import resources
from console.audit import record as audit


def require_change_of(actor: Actor, user: User) -> None:
    """Raise PermissionDenied, on record, unless `actor` may change this user's rights and sign-in.

    What the user can become counts: who resets a password can assume the roles that trust its user.
    """
    itself = actor.user is not None and actor.user.pk == user.pk
    if actor.is_platform_admin or (user.is_tenant_admin and itself):
        return
    resource = service_resource("ram", user.tenant, f"user/{user.username}") if user.tenant else user.username
    if user.is_tenant_admin:
        _refuse(
            actor,
            resource,
            f"denied: {user.username} administers the account; only it can change itself",
        )
    if actor.is_account:
        return
    judge = _Judge(actor)
    # What was granted on topics comes with the sign-in, as policies do. What it made is its own in any case.
    wanted = (*user_statements(user), *Actor(user=user).grants) if itself else _user_statements([user])[user.pk]
    if not judge.covers(wanted):
        _refuse(
            actor,
            resource,
            f"denied: {user.username} may do more than {actor.name}, who may not change it",
        )
    if itself:
        return
    if judge.keeps_groups(user):
        reason = "has groups of its own; only the account can change it"
        _refuse(actor, resource, f"denied: {user.username} {reason}")
    if beyond := judge.beyond(_of_user(user, user_statements(user))):
        reason = f"can assume {beyond}, which may do more than {actor.name}, who may not change it"
        _refuse(actor, resource, f"denied: {user.username} {reason}")


def require_change_of_everybody(actor: Actor) -> None:
    """Raise PermissionDenied, on record, unless `actor` may change every RAM user of its account.

    That is what an outside provider can do that says who signs in as whom.
    """
    if actor.is_account:
        return
    judge = _Judge(actor)
    found = User.objects.filter(tenant=actor.tenant, is_tenant_admin=False).select_related("tenant")
    if actor.user is not None:
        found = found.exclude(pk=actor.user.pk)
    users = list(found.prefetch_related("policies", "user_groups__policies"))
    statements = _user_statements(users)
    for user in users:
        if (
            not judge.covers(statements[user.pk])
            or judge.keeps_groups(user)
            or judge.beyond(_of_user(user, user_statements(user)))
        ):
            resource = service_resource("ram", actor.tenant, f"user/{user.username}")
            reason = f"{user.username} may do more than {actor.name}, who may not decide how everyone signs in"
            _refuse(actor, resource, f"denied: {reason}")


def require_giving(
    actor: Actor, policies: Iterable[Policy], *, users: Iterable[User] = (), roles: Iterable[Role] = ()
) -> None:
    """Raise PermissionDenied, on record, unless `actor` may give these policies to the users and roles, or take them.

    A right to assume a role gives what the role may do, to whom the role trusts. A role uses every group of the account
    that its policies name, also those that a RAM user keeps for itself.
    """
    if actor.is_account:
        return
    judge, users, roles = _Judge(actor), list(users), list(roles)
    names = {user_principal(user) for user in users} | {role_principal(role) for role in roles}
    for policy in policies:
        statements = statements_of([policy])
        resource = service_resource("ram", actor.tenant, f"policy/{policy.name}")
        if not judge.covers(statements):
            _refuse(
                actor,
                resource,
                f"denied: {policy.name} allows or denies more than {actor.name} may do itself",
            )
        # What a denial keeps shut is open without it, so that it counts as a right to the same.
        opened = tuple(replace(statement, allow=True) for statement in statements)
        if beyond := judge.beyond(Principals(frozenset(names), actor.tenant.uid, opened)):
            reason = f"lets its holders assume {beyond}, which may do more than {actor.name}"
            _refuse(actor, resource, f"denied: {policy.name} {reason}")
        # Whoever made a group may use it by that alone, unless a denial keeps it from that.
        denied = tuple(replace(statement, allow=True) for statement in statements if not statement.allow)
        if group := judge.hidden_group(opened) if roles else judge.hidden_group(denied, users):
            reason = f"reaches the group {group}, which {actor.name} may not use"
            _refuse(actor, resource, f"denied: {policy.name} {reason}")


def require_change_of_role(actor: Actor, role: Role) -> None:
    """Raise PermissionDenied, on record, unless `actor` may say whom the role trusts: that gives away all it can do."""
    if actor.is_account:
        return
    policies = list(role.policies.all())
    require_giving(actor, policies, roles=[role])
    if beyond := _Judge(actor).beyond(sessions_of(role)):
        resource = service_resource("ram", actor.tenant, f"role/{role.name}")
        reason = f"can assume {beyond}, which may do more than {actor.name}"
        _refuse(actor, resource, f"denied: the role {role.name} {reason}")


def require_sharing(actor: Actor, grant: Statement, resource: str) -> None:
    """Raise PermissionDenied, on record, unless `actor` may itself do with a topic what it grants to somebody."""
    if not actor.is_account and not _Judge(actor).covers([grant]):
        _refuse(actor, resource, f"denied: {actor.name} may not do itself what this grant allows")


class _Judge:
    """What a caller may do and surely become, set against what it would change or give away.

    Of the callers of one account one at a time is judged, so that two changes which are harmless alone are seen
    together. Needs a transaction.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        # No lock on the key itself: rows that only refer to the account are not held up.
        Tenant.objects.select_for_update(no_key=True).get(pk=actor.tenant.pk)
        self._own = (*actor.statements, *actor.grants)
        self._roles = Roles()

    @cached_property
    def _becomes(self) -> dict[int, Role]:
        actor = self._actor
        start = _of_user(actor.user, actor.statements) if actor.user else sessions_of(actor.role)  # type: ignore[arg-type]
        return self._roles.reachable(start, surely=True)

    @cached_property
    def _hidden(self) -> list[tuple[int | None, str]]:
        """Groups of the account that RAM users use only if they made them: the creator, and the name on the wire."""
        if self._actor.user is None:
            return []  # the sessions of a role use all that its policies name
        return resources.get().groups_kept_from(self._actor.user, self._actor.tenant)

    def covers(self, wanted: Iterable[Statement]) -> bool:
        """True when the caller's own statements and grants cover all of them."""
        return all(covers(self._own, statement) for statement in wanted)

    def keeps_groups(self, user: User) -> bool:
        """True when the user made groups that the caller may not use, whatever its policies say."""
        return any(creator == user.pk for creator, _unused in self._hidden)

    def hidden_group(self, wanted: tuple[Statement, ...], made_by: list[User] | None = None) -> str:
        """A group that these statements reach and the caller may not use, of all or of those that these users made."""
        makers = None if made_by is None else {user.pk for user in made_by if user.pk}
        for creator, name in self._hidden:
            if (makers is None or creator in makers) and any(_touches(s, mq_resource(name)) for s in wanted):
                return name
        return ""

    def beyond(self, principals: Principals) -> str:
        """A role that the principals may come to assume and that is more than the caller; empty for none."""
        for role in self._roles.reachable(principals, surely=False).values():
            if role.pk not in self._becomes and not self._is_covered(role):
                own = role.tenant_id == self._actor.tenant.pk
                return f"the role {role.name}" if own else "a role of another account"
        return ""

    def _is_covered(self, role: Role) -> bool:
        if role.tenant_id != self._actor.tenant.pk:
            return False
        statements = role_statements(role)
        return self.covers(statements) and not self.hidden_group(statements)


def _of_user(user: User, statements: tuple[Statement, ...]) -> Principals:
    principal = user_principal(user)
    return Principals(frozenset({principal}), principal.split(":")[3], statements)


def _user_statements(users: list[User]) -> dict[int, list[Statement]]:
    """What each user may do by policies, by grants on topics, and as who made a group. All comes with its sign-in."""
    found = {user.pk: list(user_statements(user)) for user in users}
    for user_id, statement in resources.get().granted_to_users(users):
        found[user_id].append(statement)
    for creator, name in resources.get().groups_made_by(users):
        found[creator].append(replace(CREATOR, resources=(mq_resource(name),)))
    return found


def _touches(statement: Statement, resource: str) -> bool:
    """True when the statement speaks of anything that can be done with this topic or group."""
    return _any_overlap(statement.actions, ("mq:*",), fold=True) and _any_overlap(statement.resources, (resource,))


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
        # A condition that cannot be judged makes a denial count, but not an allowance: they do not cover each other.
        and set(own.conditions) <= (set(wanted.conditions) if wanted.allow else set())
        and any(_inside(action.lower(), pattern.lower()) for pattern in own.actions)
        and any(_inside(resource, pattern) for pattern in own.resources)
    )


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
