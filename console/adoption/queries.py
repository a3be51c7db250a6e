"""Reads of adoption: names that no account has with their figures, adopted ones, runs and rules.

The actor narrows what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from django.db.models import Count, Model, Q, QuerySet

from brokercore.client.errors import ClientError
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.adoption import listing
from console.adoption.listing import Listing
from console.adoption.models import Kind, Rule, Run, RunName, State, model_of
from console.adoption.patterns import checked, matcher
from console.adoption.unowned import Unowned, unowned
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.metrics.queries import rates
from console.topics.live import Rates
from console.topics.queries import visible_groups, visible_topics

Row = TypeVar("Row", bound=Model)
_FIRST = 100
"""Accounts to choose from; another one is named."""


class Named(Protocol):
    """What has a kind and a name."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Choice:
    """What was chosen of the names of a cluster: patterns, a kind, and single names (`topic:orders`)."""

    include: str = ""
    exclude: str = ""
    kind: str = ""
    keys: tuple[str, ...] = ()

    @property
    def is_listed(self) -> bool:
        """True when names were ticked, so that patterns say nothing."""
        return bool(self.keys)

    def fits(self) -> Callable[[Named], bool]:
        """Tells whether a name was chosen. Raises Refused for a malformed pattern."""
        if self.keys:
            wanted = frozenset(self.keys)
            return lambda one: f"{one.kind}:{one.name}" in wanted
        by_name = matcher(checked(_as_pattern(self.include), "include"), checked(self.exclude, "exclude"))
        return lambda one: self.kind in ("", one.kind) and by_name(one.name)


def keys_of(words: Iterable[str]) -> tuple[str, ...]:
    """Single names as `Choice` has them: `topic:orders`, and of a word without a kind the topic and the group."""
    return tuple(key for word in words for key in ([word] if ":" in word else [f"{kind}:{word}" for kind in Kind]))


def _as_pattern(text: str) -> str:
    """A word without a wildcard is looked for in names, as in every other list."""
    words = text.replace(",", " ").split()
    return " ".join(word if set(word) & set("*?") else f"*{word}*" for word in words)


@dataclass
class Line:
    """One row of the list. `rate` is messages a second in (topic) or out (group), `amount` what is stored or behind."""

    unowned: Unowned
    rate: float | None = None
    amount: int | None = None
    last_use_ms: int | None = None

    @property
    def name(self) -> str:
        """The name on the wire."""
        return self.unowned.name

    @property
    def kind(self) -> str:
        """Topic or group."""
        return self.unowned.kind


@dataclass(frozen=True, slots=True)
class Adopted:
    """One name that an account has as the cluster had it."""

    kind: str
    name: str
    instance_pk: int
    account: str

    @property
    def key(self) -> str:
        """Names it in a form."""
        return f"{self.kind}:{self.name}"


def clusters() -> list[Cluster]:
    """All clusters by name."""
    return list(Cluster.objects.order_by("name"))


def chosen(cluster: Cluster, choice: Choice) -> list[Unowned]:
    """The names of a cluster that no account has and that were chosen. Raises Refused, ClientError for an outage."""
    fits = choice.fits()
    return [one for one in unowned(cluster) if fits(one)]


def listed(cluster: Cluster, choice: Choice) -> Listing:
    """As `chosen` for a page, which may be of a short while ago. Raises Refused, ClientError for an outage."""
    fits = choice.fits()
    found = listing.listed(cluster)
    if choice == Choice():
        return found
    return Listing([kept for kept in found.names if fits(listing.unowned_of(kept))], found.at)


def figures(one: Unowned, found: Rates) -> tuple[float | None, int | None]:
    """Rate and amount of a name, as `Line` has them."""
    if one.kind is Kind.TOPIC:
        return found.in_tps.get(one.name), found.stored.get(one.name)
    return found.out_tps.get(one.name), found.backlog.get(one.name)


def add_rates(cluster: Cluster, shown: list[Line]) -> Rates:
    """Tell of a page's lines their figures of the last sample."""
    topics, groups = ([line.name for line in shown if line.kind == kind] for kind in (Kind.TOPIC, Kind.GROUP))
    found = rates(cluster, topics=topics, groups=groups)
    for line in shown:
        line.rate, line.amount = figures(line.unowned, found)
    return found


def add_last_use(cluster: Cluster, shown: list[Line]) -> None:
    """Tell of a page's lines when a topic got its last message, and from when the last one is that a group consumed.

    A cluster that is away by now leaves it open.
    """
    admin = broker.admin(cluster)
    topics, groups = ([line.name for line in shown if line.kind == kind] for kind in (Kind.TOPIC, Kind.GROUP))
    try:
        times = {Kind.TOPIC: admin.topics.last_stored_ms(topics), Kind.GROUP: admin.groups.last_consumed_ms(groups)}
    except ClientError:
        return
    for line in shown:
        line.last_use_ms = times[line.unowned.kind].get(line.name) or None


def find(cluster: Cluster, kind: str, name: str) -> Unowned | None:
    """One name that no account has. Raises ClientError for an outage."""
    return next((one for one in unowned(cluster) if (one.kind, one.name) == (kind, name)), None)


def accounts(actor: Actor) -> list[Tenant]:
    """Accounts that the actor may let have names: of an account that may adopt, itself."""
    if not actor.is_platform_admin:
        return [actor.tenant]
    return list(Tenant.objects.order_by("name")[:_FIRST])


def account(actor: Actor, name: str) -> Tenant | None:
    """One of them by name."""
    if not actor.is_platform_admin:
        return actor.tenant if actor.tenant.name == name else None
    return Tenant.objects.filter(name=name).first()


def bare_instance(tenant: Tenant, cluster: Cluster) -> Instance | None:
    """The account's instance without namespace on the cluster."""
    return Instance.objects.filter(tenant=tenant, cluster=cluster, independent_naming=False).first()


def adopted(actor: Actor, cluster: Cluster, choice: Choice | None = None) -> list[Adopted]:
    """What accounts have adopted on a cluster and was chosen, topics first, by name. Raises Refused."""
    rows = {kind: model_of(kind).objects.filter(instance__cluster=cluster) for kind in Kind}
    return _adopted({kind: narrowed(actor, found) for kind, found in rows.items()}, choice or Choice())


def adopted_in(actor: Actor, instance: Instance, choice: Choice) -> list[Adopted]:
    """The same of an instance of the actor's account, as far as the actor may see its topics and groups."""
    rows = {Kind.TOPIC: visible_topics(actor, instance), Kind.GROUP: visible_groups(actor, instance)}
    return _adopted(rows, choice)


def _adopted(rows: Mapping[Kind, QuerySet[Any]], choice: Choice) -> list[Adopted]:
    fits, facts = choice.fits(), ("physical_name", "instance_id", "instance__tenant__name")
    return [
        one
        for kind, found in rows.items()
        for facts_of in found.filter(adopted=True).order_by("physical_name").values_list(*facts)
        if fits(one := Adopted(kind.value, *facts_of))
    ]


def narrowed(actor: Actor, rows: QuerySet[Row]) -> QuerySet[Row]:
    """Of rows that hang on an instance, those that the actor may see: an account that may adopt sees its own."""
    return rows if actor.is_platform_admin else rows.filter(instance__tenant=actor.tenant)


def find_run(actor: Actor, number: int) -> Run | None:
    """A run that the actor may see."""
    rows = Run.objects.select_related("cluster", "instance__tenant", "instance__cluster", "rule")
    return narrowed(actor, rows).filter(pk=number).first()


def find_rule(actor: Actor, number: int) -> Rule | None:
    """A rule that the actor may see."""
    rows = Rule.objects.select_related("cluster", "instance__tenant", "instance__cluster")
    return narrowed(actor, rows).filter(pk=number).first()


def runs(actor: Actor, cluster: Cluster) -> QuerySet[Run]:
    """Runs on a cluster, the latest first, with their counts."""
    rows = Run.objects.filter(cluster=cluster).select_related("instance__tenant", "instance__cluster", "rule")
    return _counted(narrowed(actor, rows))


def counts(run: Run) -> dict[str, int]:
    """How many names of a run are in each state, and `total`."""
    found = dict(RunName.objects.filter(run=run).order_by().values_list("state").annotate(Count("pk")))
    return {state: found.get(state, 0) for state in State.values} | {"total": sum(found.values())}


def names(run: Run, text: str = "", state: str = "") -> QuerySet[RunName]:
    """The names of a run, those that could not be taken first."""
    rows = RunName.objects.filter(run=run, name__icontains=text)
    return (rows.filter(state=state) if state else rows).order_by("-state", "kind", "name")


def rules(actor: Actor, cluster: Cluster) -> QuerySet[Rule]:
    """Rules of a cluster, each with the number of names that it `took`."""
    rows = Rule.objects.filter(cluster=cluster).select_related("instance__tenant")
    return narrowed(actor, rows).annotate(took=Count("runs__names", filter=Q(runs__names__state=State.DONE)))


def taken(rule: Rule, text: str = "") -> QuerySet[RunName]:
    """What a rule has taken, the latest first."""
    rows = RunName.objects.filter(run__rule=rule, state=State.DONE, name__icontains=text)
    return rows.select_related("run").order_by("-pk")


def _counted(rows: QuerySet[Run]) -> QuerySet[Run]:
    return rows.annotate(
        total=Count("names"),
        done=Count("names", filter=Q(names__state=State.DONE)),
        refused=Count("names", filter=Q(names__state=State.REFUSED)),
    )
