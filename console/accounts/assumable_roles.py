"""What somebody can become: the roles that a user, or the session of a role, can assume, and those that these can.

Who resets a password, hands out a policy or lets somebody into a role gives away all that stands behind it. Two
questions are asked of the same graph, and each is answered on the safe side:

* *surely*: the roles that a caller can certainly assume. Conditions may not hold, so what allows under a condition
  is left out and what denies under one counts.
* *possibly*: the roles that somebody could assume. Here what allows under a condition counts, and what denies under
  one does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from brokercore.policy import (
    ASSUME_ROLE,
    Grantee,
    PolicyError,
    Statement,
    TrustStatement,
    decide,
    decide_trust,
    parse_trust_policy,
)
from console.accounts.actor import role_statements, service_resource
from console.accounts.models import Role, User

MAX_ROLES = 2_000
"""Roles that name one account. Of more nothing is judged, and only the account itself changes rights."""
MAX_QUESTIONS = 200_000
"""Pairs of somebody and a role that one judgement looks at."""


_S = TypeVar("_S", Statement, TrustStatement)


@dataclass(frozen=True, slots=True)
class Principals:
    """One or more callers of an account with the statements that they have in common, as trust policies name them."""

    names: frozenset[str]
    account: str
    statements: tuple[Statement, ...]


def user_principal(user: User) -> str:
    """`acs:ram::<uid>:user/<name>`, the name without the account's."""
    account = user.tenant.uid if user.tenant else ""
    return f"acs:ram::{account}:user/{user.username.partition('@')[0]}"


def role_principal(role: Role) -> str:
    """The sessions of a role, as trust policies name them; the same text is the role's own name."""
    return f"acs:ram::{role.tenant.uid}:role/{role.name}"


def role_resource(role: Role) -> str:
    """The resource that a right to assume the role is about."""
    return service_resource("ram", role.tenant, f"role/{role.name}")


def trust_statements(role: Role) -> tuple[TrustStatement, ...] | None:
    """Whom the role trusts; None for a trust policy that cannot be read, which trusts nobody."""
    try:
        return parse_trust_policy(role.trust_policy)
    except PolicyError:
        return None


@dataclass(frozen=True, slots=True)
class _Trusting:
    """A role, whom it trusts, and the names that its trust policy lets in at all."""

    role: Role
    trust: tuple[TrustStatement, ...]
    named: frozenset[str]


@dataclass
class Roles:
    """The graph as one judgement sees it; each account's part is read once, when it is first reached."""

    _naming: dict[str, list[_Trusting]] = field(default_factory=dict)
    _questions: int = 0

    def reachable(self, start: Principals, *, surely: bool) -> dict[int, Role]:
        """Every role that the principals, or one of them, can assume at once or from role to role, by its key.

        Raises PermissionDenied when there are too many to judge.
        """
        found: dict[int, Role] = {}
        waiting = [start]
        while waiting:
            who = waiting.pop()
            rights = _assuming(who.statements, surely=surely)
            if not any(statement.allow for statement in rights):
                continue
            for one in self._of(who.account):
                if one.role.pk not in found and self._opens(who, rights, one, surely=surely):
                    found[one.role.pk] = one.role
                    waiting.append(sessions_of(one.role))
        return found

    def _opens(self, who: Principals, rights: tuple[Statement, ...], one: _Trusting, *, surely: bool) -> bool:
        """The two sides of AssumeRole: the role trusts one of them, and their statements allow it."""
        candidates = who.names if f"acs:ram::{who.account}:root" in one.named else who.names & one.named
        trust = _safe(one.trust, surely=surely)
        self._count()
        for name in candidates:
            self._count()
            if decide_trust(trust, name).allowed:
                resource = role_resource(one.role)
                grantee = Grantee("", (resource,), rights, account=one.role.tenant.uid)
                return decide(grantee, ASSUME_ROLE, resource).allowed
        return False

    def _count(self) -> None:
        self._questions += 1
        if self._questions > MAX_QUESTIONS:
            raise PermissionDenied("denied: there are too many roles and users to judge what this would give away")

    def _of(self, account: str) -> list[_Trusting]:
        """Roles of any account whose trust policy names a principal of this one."""
        if account not in self._naming:
            rows = roles_naming(account).select_related("tenant")
            found = list(rows.prefetch_related("policies").order_by("pk")[: MAX_ROLES + 1])
            if len(found) > MAX_ROLES:
                raise PermissionDenied(
                    f"denied: more than {MAX_ROLES} roles name the account, too many to judge what this would give away"
                )
            self._naming[account] = [_trusting(role) for role in found]
        return self._naming[account]


def roles_naming(account: str) -> QuerySet[Role]:
    """Roles of any account whose trust policy names a principal of the account with that ID."""
    rows = Role.objects.annotate(trusted=Cast("trust_policy", TextField()))
    return rows.filter(trusted__contains=f"acs:ram::{account}:")


def _trusting(role: Role) -> _Trusting:
    trust = trust_statements(role) or ()
    return _Trusting(role, trust, frozenset(name for s in trust if s.allow for name in s.principals))


def sessions_of(role: Role) -> Principals:
    """Whoever is in a session of the role."""
    return Principals(frozenset({role_principal(role)}), role.tenant.uid, role_statements(role))


def _assuming(statements: Iterable[Statement], *, surely: bool) -> tuple[Statement, ...]:
    """Those that speak of assuming roles, without conditions: see the head of this file."""
    return _safe((s for s in statements if s.matches_action_name(ASSUME_ROLE)), surely=surely)


def _safe(statements: Iterable[_S], *, surely: bool) -> tuple[_S, ...]:
    kept = (s for s in statements if not s.conditions or s.allow is not surely)
    return tuple(replace(s, conditions=()) if s.conditions else s for s in kept)
