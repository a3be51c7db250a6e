"""The decision: who may do what on which resource, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from brokercore.policy.conditions import Context
from brokercore.policy.crowds import Crowd
from brokercore.policy.statements import Judged, Question, Statement, TrustStatement, compiled, has_wildcard

RESOURCE_PREFIX = "acs:mq:*:*:"
_INSTANCE = RESOURCE_PREFIX + "MQ_INST_"
_UNKNOWN = Context()

MAX_NAME, MAX_RESOURCE = 300, 4096
"""Characters of the resource of a topic, group or instance, whose names have 255 at most, and of any other (a path in
the lake). Nothing is called longer, and a pattern may take as many steps as both have characters, multiplied.
"""
CREATOR = Statement(allow=True, actions=("mq:*",), resources=("*",), source="creator of the group")
"""What a RAM user may do with a group that it made, without any policy."""


@dataclass(frozen=True, slots=True)
class Grantee:
    """What one caller may do.

    `boundary` are the resource patterns of its own tenant account; `statements` have effect only inside it, so that
    `Resource: *` of one account never reaches another. `delegated` are the grants of other accounts to this account:
    inside them, and only for their actions, the statements have effect too. `grants` were given to the caller itself.

    `holders` names, by resource, who may use a group: `<account>` (the tenant account only), `<account>/<RAM user>`
    (that user, who made it, as well), `<account>/*` (every user of the account, as the statements say) or
    `<account>/*<RAM user>` (both). Whoever made a group may use it without a statement, if none denies it. A resource
    with a holder is judged by it and not by the boundary. `owners` has, by resource, the account of each topic whose
    name does not tell it: the caller's own are inside its boundary. `account` is the uid of the caller's tenant
    account, `is_account` is True for what acts as the account itself and not as one of its RAM users. `region` is that
    of every resource, unless `region_of` tells it of each by its name: empty for one of which it is not known.
    """

    name: str
    boundary: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    grants: tuple[Statement, ...] = ()
    delegated: tuple[Statement, ...] = ()
    holders: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    account: str = ""
    is_account: bool = False
    region: str = ""
    owners: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    region_of: Callable[[str], str] | None = field(default=None, repr=False, compare=False)
    _exact: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())
    _patterns: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())
    names_places: bool = field(init=False, repr=False, compare=False, default=False)
    _fitting: dict[tuple[str, str, str], tuple[Statement, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """The statements that speak of the resource that was asked for last: most are asked for with several actions."""

    def __post_init__(self) -> None:
        wild = tuple(p for p in self.boundary if has_wildcard(p.removeprefix(RESOURCE_PREFIX)))
        object.__setattr__(self, "_patterns", wild)
        object.__setattr__(self, "_exact", frozenset(self.boundary) - frozenset(wild))
        rows = (*self.statements, *self.grants, *self.delegated)
        object.__setattr__(self, "names_places", any(s.names_places for s in rows))

    def owns(self, resource: str) -> bool:
        """True when the resource lies inside what the caller's statements can reach."""
        holder = self.holders.get(resource)
        if holder is not None:
            return self.may_use(holder)
        if resource in self._exact or any(compiled(p).fullmatch(resource) for p in self._patterns):
            return True
        return self.account != "" and self.owners.get(resource) == self.account

    def may_use(self, holder: str) -> bool:
        """Whether the caller's statements reach what this holder has."""
        account, _, who = holder.partition("/")
        return account == self.account and (self.is_account or who == self.name or who.startswith("*"))

    def made(self, resource: str) -> bool:
        """True for a group that the caller, a RAM user, has made."""
        return self.is_maker(self.holders.get(resource, ""))

    def is_maker(self, holder: str) -> bool:
        """True when the holder says that the caller, a RAM user, has made it."""
        account, _, who = holder.partition("/")
        return account == self.account and who.removeprefix("*") == self.name and not self.is_account

    def reaches(self, action: str, resource: str, context: Context) -> bool:
        """True when the caller's statements count for this action on this resource."""
        return self.owns(resource) or any(s.matches(action, resource, context) for s in self.delegated)

    def fitting(self, question: Question) -> tuple[Statement, ...]:
        """The statements of policies that speak of the resource, whatever they say of the action."""
        place = question.resource, question.context.region, question.context.owner
        found = self._fitting.get(place)
        if found is None:
            found = tuple(s for s in self.statements if s.matches_resource(question))
            self._fitting.clear()
            self._fitting[place] = found
        return found

    def placed(self, resource: str, context: Context) -> Context:
        """The context with region and owner, when a statement asks for them."""
        if not self.names_places:
            return context
        owner = context.owner or (self.account if self.owns(resource) else _owner(resource))
        region = context.region or (self.region_of(resource) if self.region_of is not None else self.region)
        return replace(context, region=region, owner=owner)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, the sentence that explains it, and the statement that decided (None: nothing allowed it)."""

    allowed: bool
    reason: str
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Considered:
    """One statement in an explanation: what of it matched, and whether it counted."""

    statement: Statement
    origin: str
    """`policy`, `grant` (to the caller itself), `creator` (of the group) or `delegated` (a grant to the account)."""
    action: bool
    resource: bool
    conditions: tuple[Judged, ...]
    reached: bool
    """False for a policy's statement when the resource lies outside what the caller's policies reach."""

    @property
    def matched(self) -> bool:
        """True when action, resource and conditions match."""
        return self.action and self.resource and all(c.holds for c in self.conditions)

    @property
    def counted(self) -> bool:
        """True when the statement took part in the decision; a delegated grant only opens the way to others."""
        return self.matched and self.reached and self.origin != "delegated"


def mq_resource(physical_name: str) -> str:
    """Resource name of a topic, group or instance: `acs:mq:*:*:<physical name>`."""
    return RESOURCE_PREFIX + physical_name


def mns_resource(uid: str, path: str) -> str:
    """Resource name of an account's queue, topic or messages: `acs:mns:*:<uid>:/queues/orders/messages`."""
    return f"acs:mns:*:{uid}:{path}"


def decide(grantee: Grantee, action: str, resource: str, context: Context = _UNKNOWN) -> Decision:
    """Decide whether `grantee` may do `action` on `resource`: explicit deny > allow > deny.

    A pattern for the resource itself (an instance with `%*`) is the caller's business: resources are compared
    as text with wildcards, as RAM does.
    """
    if is_too_long(resource):
        return Decision(False, f"denied: nothing has a name of {len(resource)} characters")
    question = Question.of(action, resource, grantee.placed(resource, context))
    matching: list[Statement] = []
    if grantee.owns(resource) or any(s.answers(question) for s in grantee.delegated):
        matching = [s for s in grantee.fitting(question) if s.answers_about(question)]
    matching += [s for s in grantee.grants if s.answers(question)]
    if grantee.holders and grantee.made(resource) and CREATOR.answers(question):
        matching.append(CREATOR)
    for statement in matching:
        if not statement.allow:
            return Decision(False, f"denied: {_origin(statement)} denies {action} on {resource}", statement)
    if matching:
        return Decision(True, f"allowed by {_origin(matching[0])}", matching[0])
    if resource in grantee.holders and not grantee.owns(resource):
        return Decision(False, f"denied: {resource} belongs to another user")
    return Decision(False, f"denied: no statement allows {action} on {resource}")


def allowed_among(grantee: Grantee, action: str, resources: Collection[str], context: Context) -> set[str]:
    """Of these resources, those on which `decide` says that `grantee` may do `action`.

    Each statement is held against all resources of one region and owner at once.
    """
    asked = set(resources)
    if max(map(len, asked), default=0) > MAX_NAME:
        asked = {resource for resource in asked if not is_too_long(resource)}
    owned = _owned_among(grantee, asked)
    if not grantee.names_places:
        return _allowed_among(grantee, action, asked, owned, context)
    places: dict[tuple[str, str], list[str]] = {}
    for resource in asked:
        region = context.region or (grantee.region_of(resource) if grantee.region_of is not None else grantee.region)
        owner = context.owner or (grantee.account if resource in owned else _owner(resource))
        places.setdefault((region, owner), []).append(resource)
    allowed: set[str] = set()
    for (region, owner), there in places.items():
        allowed |= _allowed_among(grantee, action, there, owned, replace(context, region=region, owner=owner))
    return allowed


def _allowed_among(
    grantee: Grantee, action: str, resources: Collection[str], owned: set[str], context: Context
) -> set[str]:
    """Of resources in one place; `owned` are those, of these and others, that the grantee owns."""
    crowd = Crowd(resources)

    def fitting(statements: Iterable[Statement], allow: bool | None = None) -> set[str]:
        found: set[str] = set()
        left = crowd
        for statement in statements:
            counts = allow is None or statement.allow is allow
            if counts and statement.matches_action_name(action) and statement.conditions_hold(context):
                more = set(statement.resources_among(left, context))
                found |= more
                if len(found) == len(crowd.all):
                    break
                if len(more) * 2 > len(left.resources):  # what is found already need not be found again
                    left = left.without(found)
        return found

    reached = crowd.all & owned
    if len(reached) < len(crowd.all):
        reached |= fitting(grantee.delegated)
    is_all = len(reached) == len(crowd.all)
    allowed = fitting(grantee.statements, True)
    if not is_all:
        allowed &= reached
    allowed |= fitting(grantee.grants, True)
    if grantee.holders and not grantee.is_account and CREATOR.matches_action_name(action):
        made = {holder for holder in {"", *grantee.holders.values()} if grantee.is_maker(holder)}
        if made:
            allowed.update(one for one in crowd.resources if grantee.holders.get(one, "") in made)
    if allowed:
        denied = fitting(grantee.statements, False)
        allowed -= denied if is_all else denied & reached
        allowed -= fitting(grantee.grants, False)
    return allowed


def _owned_among(grantee: Grantee, resources: set[str]) -> set[str]:
    """Of these resources, those that `grantee.owns`."""
    everything, holders = "*" in grantee.boundary, grantee.holders
    if not holders:
        return resources if everything else {one for one in resources if grantee.owns(one)}
    usable = {holder for holder in set(holders.values()) if grantee.may_use(holder)}
    return {one for one in resources if (holders[one] in usable if one in holders else everything or grantee.owns(one))}


def could_allow(grantee: Grantee, action: str, context: Context = _UNKNOWN) -> bool:
    """Whether there may be a resource on which `decide` lets `grantee` do `action`: for lists of what one can try.

    False is certain, but for what only the maker of a group may do. True is not: what a statement allows may not exist,
    or a denial of some resources may cover it.
    """
    # Grants count beyond the reach of policies, so that each allows what it does by itself.
    return _could_allow(grantee.statements, action, context) or _could_allow(grantee.grants, action, context)


def _could_allow(statements: Iterable[Statement], action: str, context: Context) -> bool:
    about = [s for s in statements if _is_about(s, action) and s.conditions_hold(context)]
    return any(s.allow for s in about) and not any(not s.allow and "*" in s.resources for s in about)


@lru_cache(maxsize=32_768)
def _is_about(statement: Statement, action: str) -> bool:
    """Kept: a list asks each statement about a hundred actions, and a statement may have hundreds of patterns."""
    return statement.matches_action_name(action)


def is_too_long(resource: str) -> bool:
    """True for the name of nothing: it is held against no pattern."""
    size = len(resource)
    return size > MAX_NAME and (size > MAX_RESOURCE or resource.startswith(RESOURCE_PREFIX))


def explain(grantee: Grantee, action: str, resource: str, context: Context = _UNKNOWN) -> list[Considered]:
    """Every statement that `decide` could look at, with what of it matched, in the order of `decide`."""
    question = Question.of(action, resource, grantee.placed(resource, context))
    reached = grantee.reaches(action, resource, question.context)

    def considered(statements: Iterable[Statement], origin: str, reached: bool) -> Iterator[Considered]:
        for statement in statements:
            yield Considered(
                statement,
                origin,
                statement.matches_action(question),
                statement.matches_resource(question),
                statement.judged_conditions(question.context),
                reached,
            )

    return [
        *considered(grantee.statements, "policy", reached),
        *considered(grantee.grants, "grant", True),
        *considered([CREATOR] if grantee.made(resource) else [], "creator", True),
        *considered(grantee.delegated, "delegated", True),
    ]


def decide_trust(
    statements: Iterable[TrustStatement], principal: str, context: Context = _UNKNOWN, role: str = "the role"
) -> Decision:
    """Decide whether a trust policy lets `principal` (a service's name or a RAM name) assume the role."""
    found = [s for s in statements if s.names(principal) and s.conditions_hold(context)]
    if any(not s.allow for s in found):
        return Decision(False, f"denied: the trust policy of {role} denies {principal}")
    if found:
        return Decision(True, f"allowed by the trust policy of {role}")
    return Decision(False, f"denied: the trust policy of {role} does not let {principal} in")


def _owner(resource: str) -> str:
    """The uid in the name of an instance or of what is in it; empty for a bare name."""
    return resource.removeprefix(_INSTANCE).partition("_")[0] if resource.startswith(_INSTANCE) else ""


def _origin(statement: Statement) -> str:
    if statement is CREATOR:
        return "the group's holder: who made a group may use it"
    return f"policy {statement.source}" if statement.source else "a statement"
