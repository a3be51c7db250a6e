"""What the messages of an account did: kept with each reading of its clusters, and read back as one history.

The last 70 minutes are kept reading by reading, the last fifteen days in steps of five minutes (docs/use/metrics.md).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from django.db.models import QuerySet

from brokercore.names import dead_letter_topic, group_of
from console.accounts.models import Tenant
from console.instances.models import Cluster, Instance
from console.metrics.store import ROLLED_MS, Change, Store, Total
from console.topics.models import Group, Topic
from console.web.languages import gettext_lazy

#: Milliseconds of a span, and of one step in it.
SPANS = {
    "15m": (15 * 60_000, 15_000),
    "1h": (3_600_000, 60_000),
    "6h": (6 * 3_600_000, ROLLED_MS),
    "24h": (24 * 3_600_000, 4 * ROLLED_MS),
    "7d": (7 * 24 * 3_600_000, 24 * ROLLED_MS),
}
DAY_MS = 24 * 3_600_000
#: Earlier ranges that one may be compared with: what they are called, and how long before it they are.
COMPARED = {"day": (gettext_lazy("the day before"), DAY_MS), "week": (gettext_lazy("the week before"), 7 * DAY_MS)}
_NAMES_AT_ONCE = 500


class Totals(TypedDict):
    """Messages a second in and out, and the backlog; None when there is no recent sample. Time in epoch ms."""

    in_tps: float | None
    out_tps: float | None
    backlog: int | None
    sampled_at: int | None


@dataclass(frozen=True)
class Step:
    """One step of a history, which begins at `at_ms` (epoch ms): messages a second in and out, how many waited at its
    end, and how many died in it. None where nothing was sampled."""

    at_ms: int
    in_tps: float | None = None
    out_tps: float | None = None
    backlog: int | None = None
    died: int | None = None


def record(store: Store, cluster: Cluster, change: Change) -> None:
    """Keep what a reading says of each account that has an instance on the cluster."""
    latest = change.latest
    accounts = dict(Instance.objects.filter(cluster=cluster).values_list("instance_id", "tenant_id"))
    backlog = {group: number for group, raw in store.table("backlog").items() if (number := int(raw))}
    topics: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for series, (count, _) in change.counts.items():
        kind, _, names = series.partition(":")
        topic, _, group = names.partition("@")
        if kind == "out":
            groups[group] += count
        elif not (owner := group_of(topic)):
            topics[topic] += count
        elif topic == dead_letter_topic(owner):
            letters[owner] += count
    owner_of_group = _owners(cluster, accounts, {*groups, *letters, *backlog}, _groups_by_name)
    owner_of_topic = _owners(cluster, accounts, topics, _topics_by_name)
    received, consumed = _summed(topics, owner_of_topic), _summed(groups, owner_of_group)
    died, waiting = _summed(letters, owner_of_group), _summed(backlog, owner_of_group)
    totals = {
        one: Total(latest.at_ms, received[one], consumed[one], died[one], waiting[one], latest.seconds or 0.0)
        for one in set(accounts.values())
    }
    store.add_totals(totals)


def now(tenant: Tenant) -> Totals:
    """The account's messages a second in and out and its backlog on all its clusters, as last sampled."""
    found = [one for cluster in _clusters(tenant) if (one := Store(cluster.name).latest_total(tenant.pk)) is not None]
    if not found:
        return Totals(in_tps=None, out_tps=None, backlog=None, sampled_at=None)
    step = _together(0, [[one] for one in found])
    sampled_at = min(one.at_ms for one in found)
    return Totals(in_tps=step.in_tps, out_tps=step.out_tps, backlog=step.backlog, sampled_at=sampled_at)


def history(tenant: Tenant, span: str, *, before_ms: int = 0) -> list[Step]:
    """The steps of a span (one of SPANS) up to now, or up to so long before now; summed over the account's clusters.

    What is further back than the single readings are kept has steps of five minutes at the least.
    """
    length_ms, step_ms = SPANS[span]
    is_rolled = before_ms > 0 or step_ms >= ROLLED_MS
    step_ms = max(step_ms, ROLLED_MS) if is_rolled else step_ms
    now_ms = int(time.time() * 1000)
    end_ms = (now_ms // step_ms + 1) * step_ms - before_ms
    starts = range(end_ms - length_ms, end_ms, step_ms)
    summed = [
        _steps(Store(cluster.name).totals(tenant.pk, starts[0], end_ms, is_rolled), step_ms)
        for cluster in _clusters(tenant)
    ]
    return [_together(start, [steps[start] for steps in summed if start in steps]) for start in starts]


def _clusters(tenant: Tenant) -> QuerySet[Cluster]:
    return Cluster.objects.filter(instances__tenant=tenant).distinct()


def _steps(totals: Iterable[Total], step_ms: int) -> dict[int, list[Total]]:
    found: dict[int, list[Total]] = defaultdict(list)
    for total in totals:
        found[(total.at_ms - 1) // step_ms * step_ms].append(total)
    return found


def _together(start: int, clusters: Sequence[list[Total]]) -> Step:
    """One step of all clusters."""
    if not clusters:
        return Step(start)
    return Step(
        start,
        in_tps=_rate(clusters, lambda one: one.received),
        out_tps=_rate(clusters, lambda one: one.consumed),
        backlog=sum(totals[-1].backlog for totals in clusters),
        died=sum(one.died for totals in clusters for one in totals),
    )


def _rate(clusters: Sequence[list[Total]], count: Callable[[Total], int]) -> float | None:
    """Messages a second, of the clusters of which it is known."""
    known = [
        sum(map(count, totals)) / seconds for totals in clusters if (seconds := sum(one.seconds for one in totals))
    ]
    return round(sum(known), 3) if known else None


def _summed(counts: Mapping[str, int], owners: Mapping[str, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for name, count in counts.items():
        if name in owners:
            found[owners[name]] += count
    return found


_ByName = Callable[[Cluster, Sequence[str]], Iterable[tuple[str, int]]]


def _owners(cluster: Cluster, accounts: Mapping[str, int], names: Iterable[str], by_name: _ByName) -> dict[str, int]:
    """Whose each name on the wire is: by its namespace, which is an instance, else as the database says."""
    found, bare = {}, []
    for name in names:
        namespace, has_namespace, _ = name.partition("%")
        if has_namespace and namespace in accounts:
            found[name] = accounts[namespace]
        else:
            bare.append(name)
    for start in range(0, len(bare), _NAMES_AT_ONCE):
        found.update(by_name(cluster, bare[start : start + _NAMES_AT_ONCE]))
    return found


def _topics_by_name(cluster: Cluster, names: Sequence[str]) -> Iterable[tuple[str, int]]:
    return Topic.objects.filter(cluster=cluster, physical_name__in=names).values_list(
        "physical_name", "instance__tenant_id"
    )


def _groups_by_name(cluster: Cluster, names: Sequence[str]) -> Iterable[tuple[str, int]]:
    return Group.objects.filter(cluster=cluster, physical_name__in=names).values_list(
        "physical_name", "instance__tenant_id"
    )
