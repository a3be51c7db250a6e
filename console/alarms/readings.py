"""What one round of evaluation knows: the sampler's last reading and the names of each instance, each read once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.db.models import QuerySet

from brokercore.client.errors import ClientError
from brokercore.names import dead_letter_topic
from console.accounts.models import Tenant
from console.alarms.models import Rule
from console.cluster import brokers
from console.cluster.brokers import Health
from console.instances.models import Cluster, Instance
from console.messaging.status import clients_of
from console.metrics.queries import messages_within, rates, topics_by_group
from console.metrics.store import HOT_WINDOW_MS, HotSample, Store
from console.topics.live import Rates
from console.topics.models import Group, Topic

#: Groups of which the brokers are asked in one round whether a client is connected; others wait for the next one.
MOST_ASKED = 200


class Unknown(Exception):  # noqa: N818
    """Nothing can be told now: an alarm neither begins nor ends by it."""


@dataclass(frozen=True)
class Named:
    """The names of an instance: what people call it, and its physical name."""

    instance: Instance
    physical: Mapping[str, str]


@dataclass
class Readings:
    """Of one round."""

    now_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _rates: dict[int, Rates] = field(default_factory=dict)
    _healths: dict[int, Health] = field(default_factory=dict)
    _online: dict[str, bool] = field(default_factory=dict)

    def of_groups(self, rule: Rule) -> list[Named]:
        """The groups of the rule's instance, or of all instances of its account."""
        return [self._named(instance, is_topic=False) for instance in self._of(rule)]

    def of_topics(self, rule: Rule) -> list[Named]:
        """The same of topics."""
        return [self._named(instance, is_topic=True) for instance in self._of(rule)]

    def rates(self, instance: Instance) -> Rates:
        """The last reading of the instance's cluster. Raises Unknown when there is no recent one."""
        number = instance.cluster_id
        if number not in self._rates:
            self._rates[number] = rates(instance.cluster)
        if self._rates[number].sampled_at is None:
            raise Unknown
        return self._rates[number]

    def came(self, instance: Instance, physical: Iterable[str], minutes: int) -> dict[str, int]:
        """Messages that came to each of these topics within the last minutes."""
        names = list(physical)
        begin = self.now_ms - max(1, minutes) * 60_000
        found = messages_within(instance.cluster, [f"in:{name}" for name in names], begin, self.now_ms)
        return dict(zip(names, found, strict=True))

    def delays_s(self, named: Named, behind: Mapping[str, int]) -> dict[str, float]:
        """How old the oldest message is that each of these groups has not consumed, seconds, by their backlogs.

        By what came: a group is behind by what its topics received since then. More than the hot window is told as
        the window.
        """
        cluster = named.instance.cluster
        topics = topics_by_group(cluster, [named.physical[name] for name in behind])
        series = sorted({topic for of_group in topics.values() for topic in of_group})
        begin = self.now_ms - HOT_WINDOW_MS
        came = dict(
            zip(series, Store(cluster.name).hot((f"in:{one}" for one in series), begin, self.now_ms), strict=True)
        )
        return {
            name: self._age_s([came[topic] for topic in topics[named.physical[name]]], number)
            for name, number in behind.items()
        }

    def _age_s(self, came: Iterable[list[HotSample]], left: int) -> float:
        for sample in sorted((one for samples in came for one in samples), key=lambda one: -one.at_ms):
            left -= sample.count
            if left <= 0:
                return max(0.0, (self.now_ms - sample.at_ms) / 1000 + sample.seconds)
        return HOT_WINDOW_MS / 1000

    def is_online(self, group: Group) -> bool:
        """Whether a client of the group is connected. Raises Unknown where the brokers do not tell, or too many are."""
        if group.physical_name not in self._online:
            if len(self._online) >= MOST_ASKED:
                raise Unknown
            try:
                self._online[group.physical_name] = clients_of(group) is not None
            except ClientError as error:
                raise Unknown from error
        return self._online[group.physical_name]

    def healths(self, tenant: Tenant) -> list[Health]:
        """The clusters of an account and their brokers."""
        return [self._health(one) for one in {one.cluster_id: one.cluster for one in self._all_of(tenant)}.values()]

    def _health(self, cluster: Cluster) -> Health:
        if cluster.pk not in self._healths:
            self._healths[cluster.pk] = brokers.health_of(cluster)
        return self._healths[cluster.pk]

    def _of(self, rule: Rule) -> list[Instance]:
        return [rule.instance] if rule.instance is not None else self._all_of(rule.tenant)

    def _all_of(self, tenant: Tenant) -> list[Instance]:
        return self._instances.get(tenant.pk, [])

    def _named(self, instance: Instance, *, is_topic: bool) -> Named:
        names = self._topics if is_topic else self._groups
        return Named(instance, names.get(instance.pk, {}))

    @cached_property
    def _instances(self) -> dict[int, list[Instance]]:
        """Of every account that has a rule."""
        found: dict[int, list[Instance]] = defaultdict(list)
        watched = Rule.objects.filter(enabled=True).values("tenant")
        for instance in Instance.objects.filter(tenant__in=watched).select_related("cluster"):
            found[instance.tenant_id].append(instance)
        return found

    @cached_property
    def _topics(self) -> dict[int, dict[str, str]]:
        rows = Topic.objects.filter(instance__tenant__in=_watching("topic.")).order_by()
        return _by_instance(rows.values_list("instance_id", "name", "physical_name"))

    @cached_property
    def _groups(self) -> dict[int, dict[str, str]]:
        rows = Group.objects.filter(instance__tenant__in=_watching("group.")).order_by()
        return _by_instance(rows.values_list("instance_id", "group_id", "physical_name"))


def _watching(conditions: str) -> QuerySet[Rule, int]:
    """The accounts that have rules of such conditions."""
    return Rule.objects.filter(enabled=True, condition__startswith=conditions).values_list("tenant", flat=True)


def _by_instance(rows: Iterable[tuple[int, str, str]]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for instance, name, physical in rows:
        found[instance][name] = physical
    return found


def letters_of(named: Named) -> dict[str, str]:
    """The dead-letter topic of each group, by what people call the group."""
    return {name: dead_letter_topic(physical) for name, physical in named.physical.items()}
