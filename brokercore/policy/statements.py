"""Statements of policies and of trust policies, compiled once and asked often."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from brokercore.globs import STARS, expression
from brokercore.policy.conditions import Check, Condition, Context, circumstance, compile_condition
from brokercore.policy.crowds import Crowd, Lines

_SIGNS = frozenset("*?")


def has_wildcard(pattern: str) -> bool:
    """True when the text is a pattern and not a literal."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """One pattern, to be asked with `fullmatch`.

    For the few patterns that we make ourselves, as those of an account's boundary; what people write is a `Glob`.
    """
    return re.compile(expression(pattern), re.DOTALL)


class Glob:
    """One pattern: `*` stands for any run of characters, `?` for one, everything else for itself.

    Cheap to make, and asked in steps that no pattern can make many. A statement's patterns come from people, thousands
    of characters of them, and are asked on the loop that all clients share. As regular expressions they take longer to
    compile than to ask, and a hostile one takes as many steps as pattern and name have characters, multiplied. Here a
    piece between two `*` is looked for at all places of the name at once.
    """

    __slots__ = ("_first", "_has_mark", "_has_star", "_last", "_least", "_letters", "_middle", "_spread")

    def __init__(self, pattern: str) -> None:
        pieces = STARS.split(pattern)
        self._has_star = len(pieces) > 1
        self._first, self._last = pieces[0], pieces[-1] if self._has_star else ""
        self._middle = tuple(piece for piece in pieces[1:-1] if piece)
        self._has_mark = "?" in pattern
        self._least = sum(map(len, pieces))
        self._letters = frozenset(pattern) - _SIGNS if self._has_mark else frozenset()
        self._spread = tuple(map(_spread, self._middle)) if self._has_mark else ()

    def matches(self, text: str) -> bool:
        """True when the whole text is of the pattern."""
        size = len(text)
        if size < self._least or (size > self._least and not self._has_star):
            return False
        if self._has_mark:
            return self._matches_at_places(text)
        if not text.startswith(self._first) or not text.endswith(self._last):
            return False
        at, end = len(self._first), size - len(self._last)
        for piece in self._middle:
            at = text.find(piece, at, end) + len(piece)
            if at < len(piece):
                return False
        return True

    def among(self, lines: Lines) -> Sequence[str]:
        """The resources whose whole text is of the pattern: only those are asked that have its rarest piece."""
        if self._least == 0 and self._has_star:
            return lines.resources
        ends = (f"\n{self._first}", f"{self._last}\n") if self._has_star else (f"\n{self._first}\n",)
        pieces = [part for piece in (*ends, *self._middle) for part in piece.split("?") if part not in ("", "\n")]
        numbers = lines.with_any(pieces or ("\n",))
        texts, resources = lines.texts, lines.resources
        is_of_one_line = lines.single_lines and "\n" not in "".join((self._first, *self._middle, self._last))
        if len(pieces) == 1 and not self._has_mark and is_of_one_line:
            return [resources[number] for number in numbers]
        return [resources[number] for number in numbers if self.matches(texts[number])]

    def _matches_at_places(self, text: str) -> bool:
        places = _places(text)
        if not self._letters <= places.keys():
            return False
        first, last = self._first, self._last
        at, end = len(first), len(text) - len(last)
        if (first and not _fits(first, text[:at])) or (last and not _fits(last, text[end:])):
            return False
        for size, letters, offsets in self._spread:
            # The first place where the piece fits is as good as any other: there is nothing to go back for.
            found = (1 << max(at, end - size + 1)) - (1 << at)
            for letter, offset in zip(letters, offsets, strict=True):
                found &= places[letter] >> offset
                if not found:
                    return False
            if not found:
                return False
            at = (found & -found).bit_length() - 1 + size
        return True


def any_matches(globs: Iterable[Glob], text: str) -> bool:
    """True when the whole text is of one of the patterns."""
    for glob in globs:  # no generator: there may be thousands  # noqa: SIM110
        if glob.matches(text):
            return True
    return False


def _spread(piece: str) -> tuple[int, str, tuple[int, ...]]:
    """The size of a piece, its characters without `?`, and where in the piece each of them stands."""
    return len(piece), piece.replace("?", ""), tuple(at for at, letter in enumerate(piece) if letter != "?")


def _fits(piece: str, there: str) -> bool:
    """Whether a piece, which may have `?`, is this text of its length."""
    return there == piece or all(a in ("?", b) for a, b in zip(piece, there, strict=True))


@lru_cache(maxsize=64)
def _places(text: str) -> dict[str, int]:
    """Where each character stands in a text: bit 0 is the first place."""
    found: dict[str, int] = {}
    for place, letter in enumerate(text):
        found[letter] = found.get(letter, 0) | 1 << place
    return found


@dataclass(frozen=True, slots=True)
class _Named:
    """Resource patterns of one service, region and account, which may be patterns as well."""

    service: Glob
    region: Glob | None
    account: Glob | None
    """None: `*` and nothing stand for every region and every account."""
    names: tuple[Glob, ...]

    @property
    def is_placed(self) -> bool:
        """True when they name a region or an account."""
        return self.region is not None or self.account is not None

    def matches(self, question: Question, *, unjudged: bool) -> bool:
        """Whether one of them fits; `unjudged` says so for a region or an account that is not known."""
        if question.service_and_name is None:
            return False
        service, name = question.service_and_name
        if not self.service.matches(service):
            return False
        if self.is_placed:
            _, _, region, account, _ = question.resource.split(":", 4)
            if not self._is_of(region, account, question.context, unjudged=unjudged):
                return False
        return any_matches(self.names, name)

    def among(self, crowd: Crowd, context: Context, *, unjudged: bool) -> list[str]:
        """As `matches`, of many: those that fit, some more than once."""
        found: list[str] = []
        for (service, region, account), lines in crowd.places.items():
            if self.service.matches(service) and self._is_of(region, account, context, unjudged=unjudged):
                for name in self.names:
                    found += name.among(lines)
        return found

    def _is_of(self, region: str, account: str, context: Context, *, unjudged: bool) -> bool:
        return _place_fits(self.region, region, context.region, unjudged=unjudged) and _place_fits(
            self.account, account, context.owner, unjudged=unjudged
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
    _actions: tuple[Glob, ...] = field(init=False, repr=False, compare=False)
    _plain_resources: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)
    _texts: tuple[Glob, ...] = field(init=False, repr=False, compare=False)
    _named: tuple[_Named, ...] = field(init=False, repr=False, compare=False)
    _checks: tuple[Check, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        actions = [a.lower() for a in self.actions]
        parts = [pattern.split(":", 4) for pattern in self.resources]
        named = [part[1:] for part in parts if len(part) == 5 and part[0] == "acs"]
        plain = [place for place in named if _is_plain(*place)]
        self._keep("_plain_actions", frozenset(a for a in actions if not has_wildcard(a)))
        self._keep("_actions", tuple(Glob(a) for a in actions if has_wildcard(a)))
        self._keep("_plain_resources", frozenset((service, name) for service, _, _, name in plain))
        self._keep("_named", _by_service(place for place in named if not _is_plain(*place)))
        self._keep("_texts", tuple(Glob(":".join(part)) for part in parts if len(part) != 5 or part[0] != "acs"))
        self._keep("_checks", tuple(compile_condition(c) for c in self.conditions))

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def names_places(self) -> bool:
        """True when a resource pattern names a region or an account, so that `Context` must know them."""
        return any(named.is_placed for named in self._named)

    def answers(self, question: Question) -> bool:
        """True when action, resource and every condition match."""
        return (
            self.matches_action(question)
            and self.matches_resource(question)
            and (not self._checks or self.conditions_hold(question.context))
        )

    def answers_about(self, question: Question) -> bool:
        """The same, of a resource that is known to match."""
        return self.matches_action(question) and (not self._checks or self.conditions_hold(question.context))

    def matches(self, action: str, resource: str, context: Context) -> bool:
        """True when action, resource and every condition match."""
        return self.answers(Question.of(action, resource, context))

    def matches_action(self, question: Question) -> bool:
        """True when one of the action patterns fits, without regard to case."""
        action = question.action
        return action in self._plain_actions or any_matches(self._actions, action)

    def matches_action_name(self, action: str) -> bool:
        """The same for an action that is asked about without a resource."""
        return self.matches_action(Question.of(action, "", Context()))

    def matches_resource(self, question: Question) -> bool:
        """True when one of the resource patterns fits; a place that is not known fits a denial only."""
        return (
            question.service_and_name in self._plain_resources
            or any_matches(self._texts, question.resource)
            or any(named.matches(question, unjudged=not self.allow) for named in self._named)
        )

    def resources_among(self, crowd: Crowd, context: Context) -> list[str]:
        """As `matches_resource`, of many of which `context` tells region and owner: those that fit, some repeatedly."""
        found: list[str] = []
        if self._plain_resources:
            for (service, _, _), lines in crowd.places.items():
                for of, name in self._plain_resources:
                    if of == service:
                        found += lines.equal_to(name)
        for text in self._texts:
            found += text.among(crowd.whole)
        for named in self._named:
            found += named.among(crowd, context, unjudged=not self.allow)
        return found

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


def _holds(answer: bool | None, *, allow: bool) -> bool:
    return not allow if answer is None else answer


def _is_plain(service: str, region: str, account: str, name: str) -> bool:
    """Whether service and name are compared as they are, wherever the resource is."""
    return region in ("", "*") and account in ("", "*") and not has_wildcard(service + name)


def _by_service(places: Iterable[list[str]]) -> tuple[_Named, ...]:
    """The patterns of `acs:<service>:<region>:<account>:<name>`, those together that differ in the name alone."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for service, region, account, name in places:
        found.setdefault((service, region, account), []).append(name)
    return tuple(
        _Named(Glob(service), _place(region), _place(account), tuple(map(Glob, dict.fromkeys(names))))
        for (service, region, account), names in found.items()
    )


def _place(pattern: str) -> Glob | None:
    return None if pattern in ("", "*") else Glob(pattern)


def _place_fits(wanted: Glob | None, written: str, known: str, *, unjudged: bool) -> bool:
    """Whether region or account fit: as the resource's name says, else as the request knows it."""
    if wanted is None:
        return True
    place = known if written in ("", "*") else written
    return wanted.matches(place) if place else unjudged
