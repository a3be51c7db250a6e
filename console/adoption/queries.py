"""Reads of adoption: names that no account has with their figures, runs and rules. The actor narrows what is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from brokercore.client.errors import ClientError
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.adoption.models import Kind, Rule, Run, RunName, State
from console.adoption.patterns import checked, matcher
from console.adoption.unowned import Unowned, unowned
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.metrics.queries import rates
from console.topics.live import Rates

_FIRST = 100
"""Accounts to choose from; another one is named."""


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

    def fits(self) -> Callable[[Unowned], bool]:
        """Tells whether a name was chosen. Raises Refused for a malformed pattern."""
        if self.keys:
            wanted = frozenset(self.keys)
            return lambda one: one.key in wanted
        by_name = matcher(checked(_as_pattern(self.include), "include"), checked(self.exclude, "exclude"))
        return lambda one: self.kind in ("", one.kind) and by_name(one.name)


def _as_pattern(text: str) -> str:
    """A word without a wildcard is looked for in names, as in every other list."""
    words = text.replace(",", " ").split()
    return " ".join(word if set(word) & set("*?") else f"*{word}*" for word in words)


@dataclass
class Line:
    """One row of the list. `rate` is messages a second in (topic) or out (group), `amount` what is stored or behind."""

    unowned: Unowned
    rate: float | None
    amount: int | None
    last_use_ms: int | None = None

    @property
    def name(self) -> str:
        """What the table sorts by."""
        return self.unowned.name

    @property
    def kind(self) -> str:
        """Topic or group."""
        return self.unowned.kind

    @property
    def sortable_rate(self) -> float:
        """As `rate`; unknown ones come last."""
        return -1.0 if self.rate is None else self.rate

    @property
    def sortable_amount(self) -> int:
        """As `amount`; unknown ones come last."""
        return -1 if self.amount is None else self.amount


def clusters() -> list[Cluster]:
    """All clusters by name."""
    return list(Cluster.objects.order_by("name"))


def chosen(cluster: Cluster, choice: Choice) -> list[Unowned]:
    """The names of a cluster that no account has and that were chosen. Raises Refused, ClientError for an outage."""
    fits = choice.fits()
    return [one for one in unowned(cluster) if fits(one)]


def lines(cluster: Cluster, names: list[Unowned]) -> tuple[list[Line], Rates]:
    """The names with their rates and backlog of the last sample."""
    found = rates(cluster)
    return [_line(one, found) for one in names], found


def _line(one: Unowned, found: Rates) -> Line:
    if one.kind is Kind.TOPIC:
        return Line(one, found.in_tps.get(one.name), found.stored.get(one.name))
    return Line(one, found.out_tps.get(one.name), found.backlog.get(one.name))


def add_last_use(cluster: Cluster, shown: list[Line]) -> None:
    """Tell of a page's lines when a topic got its last message, and from when the last one is that a group consumed.

    A cluster that is away by now leaves it open.
    """
    admin = broker.admin(cluster)
    topics = [line.name for line in shown if line.kind == Kind.TOPIC]
    try:
        stats = admin.topics.stats_of(topics)
        for line in shown:
            if line.kind == Kind.TOPIC:
                times = [queue.last_update_ms for queue in stats.get(line.name, {}).values()]
            else:
                times = [queue.last_timestamp_ms for queue in admin.groups.stats(line.name).queues.values()]
            line.last_use_ms = max(times, default=0) or None
    except ClientError:
        return


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


def runs(actor: Actor, cluster: Cluster) -> QuerySet[Run]:
    """Runs on a cluster, the latest first, with their counts."""
    rows = Run.objects.filter(cluster=cluster).select_related("instance__tenant", "rule")
    return _counted(rows if actor.is_platform_admin else rows.filter(instance__tenant=actor.tenant))


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
    rows = rows if actor.is_platform_admin else rows.filter(instance__tenant=actor.tenant)
    return rows.annotate(took=Count("runs__names", filter=Q(runs__names__state=State.DONE)))


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
