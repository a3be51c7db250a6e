"""Statements of policies and of trust policies, compiled once and asked often."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from brokercore.policy.conditions import Check, Condition, Context, circumstance, compile_condition
from brokercore.policy.patterns import any_of, compiled, expression, has_wildcard

_SEGMENT = "[^:]"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A resource pattern that names a region or an account."""

    rest: re.Pattern[str]
    region: str
    account: str

    def matches(self, resource: str, context: Context, *, unjudged: bool) -> bool:
        if not self.rest.fullmatch(resource):
            return False
        parts = resource.split(":", 4)
        if len(parts) != 5:
            return unjudged
        return _place_fits(self.region, parts[2], context.region, unjudged=unjudged) and _place_fits(
            self.account, parts[3], context.owner, unjudged=unjudged
        )


@dataclass(frozen=True, slots=True)
class Question:
    """Action and resource as statements compare them, worked out once for all statements of a decision."""

    action: str
    resource: str
    context: Context
    service_and_name: tuple[str, str] | None

    @classmethod
    def of(cls, action: str, resource: str, context: Context) -> Question:
        """The question whether `action` on `resource` is allowed."""
        parts = resource.split(":", 4)
        named = len(parts) == 5 and parts[0] == "acs"
        return cls(action.lower(), resource, context, (parts[1], parts[4]) if named else None)


@dataclass(frozen=True, slots=True)
class Judged:
    """One condition of a statement in an explanation."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: `allow` or deny of `actions` on `resources`, both with `*` and `?` wildcards."""

    allow: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    source: str = ""
    _plain_actions: frozenset[str] = field(init=False, repr=False, compare=False)
    _actions: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _plain_resources: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)
    _resources: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _placed: tuple[_Placed, ...] = field(init=False, repr=False, compare=False)
    _checks: tuple[Check, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        actions = [a.lower() for a in self.actions]
        resources = [_resource(pattern) for pattern in self.resources]
        self._keep("_plain_actions", frozenset(a for a in actions if not has_wildcard(a)))
        self._keep("_actions", _any(expression(a) for a in actions if has_wildcard(a)))
        self._keep("_plain_resources", frozenset(r for r in resources if isinstance(r, tuple)))
        self._keep("_resources", _any(r for r in resources if isinstance(r, str)))
        self._keep("_placed", tuple(r for r in resources if isinstance(r, _Placed)))
        self._keep("_checks", tuple(compile_condition(c) for c in self.conditions))

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def names_places(self) -> bool:
        """True when a resource pattern names a region or an account, so that `Context` must know them."""
        return bool(self._placed)

    def answers(self, question: Question) -> bool:
        """True when action, resource and every condition match."""
        return (
            self.matches_action(question)
            and self.matches_resource(question)
            and (not self._checks or self.conditions_hold(question.context))
        )

    def matches(self, action: str, resource: str, context: Context) -> bool:
        """True when action, resource and every condition match."""
        return self.answers(Question.of(action, resource, context))

    def matches_action(self, question: Question) -> bool:
        """True when one of the action patterns fits, without regard to case."""
        return question.action in self._plain_actions or (
            self._actions is not None and self._actions.fullmatch(question.action) is not None
        )

    def matches_action_name(self, action: str) -> bool:
        """The same for an action that is asked about without a resource."""
        return self.matches_action(Question.of(action, "", Context()))

    def matches_resource(self, question: Question) -> bool:
        """True when one of the resource patterns fits; a place that is not known fits a denial only."""
        return (
            question.service_and_name in self._plain_resources
            or (self._resources is not None and self._resources.fullmatch(question.resource) is not None)
            or any(p.matches(question.resource, question.context, unjudged=not self.allow) for p in self._placed)
        )

    def conditions_hold(self, context: Context) -> bool:
        """True when every condition holds; one that cannot be judged holds for a denial only."""
        return all(_holds(check(context), allow=self.allow) for check in self._checks)

    def judged_conditions(self, context: Context) -> tuple[Judged, ...]:
        """Every condition as a sentence with what it saw, and whether it holds for this statement."""
        return tuple(
            Judged(
                f"{operator} {key} {' or '.join(values)}: it is {circumstance(key, context)}",
                _holds(check(context), allow=self.allow),
            )
            for (operator, key, values), check in zip(self.conditions, self._checks, strict=True)
        )


@dataclass(frozen=True, slots=True)
class TrustStatement:
    """One statement of a role's trust policy: who may (or may not) assume the role.

    `services` are names of services, `principals` RAM names: `acs:ram::<uid>:root` is everybody of the account,
    `acs:ram::<uid>:user/<name>` one user, `acs:ram::<uid>:role/<name>` the sessions of one role.
    """

    allow: bool
    services: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    _checks: tuple[Check, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_checks", tuple(compile_condition(c) for c in self.conditions))

    def names(self, principal: str) -> bool:
        """True when the statement names this service, this RAM principal, or the account that it belongs to."""
        if not principal.startswith("acs:ram::"):
            return principal.lower() in (s.lower() for s in self.services)
        account = principal.rpartition(":")[0] + ":root"
        return principal in self.principals or account in self.principals

    def conditions_hold(self, context: Context) -> bool:
        """True when every condition holds; one that cannot be judged holds for a denial only."""
        return all(_holds(check(context), allow=self.allow) for check in self._checks)


def _any(expressions: Iterable[str]) -> re.Pattern[str] | None:
    """The expressions as one, or None for none."""
    found = list(expressions)
    return any_of(found) if found else None


def _holds(answer: bool | None, *, allow: bool) -> bool:
    return not allow if answer is None else answer


def _resource(pattern: str) -> tuple[str, str] | str | _Placed:
    """A resource pattern as service and name, as an expression, or as one that looks at region and account as well.

    A name of RAM has five parts, `acs:<service>:<region>:<account>:<name>`. `*` and nothing stand for every region and
    every account. What has fewer parts (`*`) is compared as plain text.
    """
    parts = pattern.split(":", 4)
    if len(parts) != 5 or parts[0] != "acs":
        return expression(pattern)
    _, service, region, account, name = parts
    anywhere = region in ("", "*") and account in ("", "*")
    if anywhere and not has_wildcard(service + name):
        return service, name
    whole = f"acs:{expression(service, _SEGMENT)}:{_SEGMENT}*:{_SEGMENT}*:{expression(name)}"
    if anywhere:
        return whole
    return _Placed(any_of([whole]), region, account)


def _place_fits(wanted: str, written: str, known: str, *, unjudged: bool) -> bool:
    """Whether region or account fit: as the resource's name says, else as the request knows it."""
    if wanted in ("", "*"):
        return True
    place = known if written in ("", "*") else written
    return compiled(wanted).fullmatch(place) is not None if place else unjudged
