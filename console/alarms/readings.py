"""What one round of evaluation knows: the sampler's last reading and the names of each instance, each read once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.db.models import QuerySet

from brokercore.client.errors import ClientError
from brokercore.names import dead_letter_topic
from console.accounts.models import Tenant
from console.alarms import counters
from console.alarms.models import Condition, Rule
from console.alarms.sentences import LIMITS
from console.cluster import brokers
from console.cluster.brokers import Health
from console.instances.models import Cluster, Instance
from console.messaging.status import clients_of
from console.metrics.queries import Delay, counted_since_ms, delays, messages_within, rates
from console.pipelines import samples
from console.pipelines.models import Pipeline, State
from console.rights import limits
from console.rights.limits import Use
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
    _counted_ms: dict[int, int] = field(default_factory=dict)

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

    def delays(self, named: Named, behind: Mapping[str, int]) -> dict[str, Delay]:
        """As `metrics.queries.delays`, by what people call the groups."""
        cluster = named.instance.cluster
        if cluster.pk not in self._counted_ms:
            self._counted_ms[cluster.pk] = counted_since_ms(cluster, self.now_ms)
        names = {named.physical[name]: name for name in behind}
        physical = {named.physical[name]: number for name, number in behind.items()}
        found = delays(cluster, physical, self.now_ms, self._counted_ms[cluster.pk])
        return {names[one]: delay for one, delay in found.items()}

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
        return [self._health(one) for one in {one.cluster_id: one.cluster for one in self._all_of(tenant.pk)}.values()]

    def held_back(self, rule: Rule) -> dict[Instance, int]:
        """How often clients of each of the rule's instances were held back within its minutes. Raises Unknown."""
        grown = self._held_back
        if grown is None:
            raise Unknown
        return {one: self._within(rule, grown.get(counter_of_instance(one), [])) for one in self._of(rule)}

    def refused(self, rule: Rule) -> dict[str, int]:
        """Requests of the account that brokers refused for its limits within the rule's minutes, by reason.

        Raises Unknown.
        """
        grown = self._refused
        if grown is None:
            raise Unknown
        return {reason: self._within(rule, grown.get(counter_of_account(rule.tenant, reason), [])) for reason in LIMITS}

    def stored_percent(self, tenant: Tenant) -> float | None:
        """How much of the bytes that the account may store at the brokers it does; None without a limit.

        Raises Unknown.
        """
        if self._uses is None:
            raise Unknown
        limit = self._stored_limit(tenant)
        use = self._uses.get(tenant.uid)
        return 100 * (use.values["stored_bytes"] if use else 0) / limit if limit else None

    def _within(self, rule: Rule, grown: list[counters.Change]) -> int:
        return counters.within(grown, self.now_ms - max(1, rule.minutes) * 60_000, self.now_ms)

    def pipelines(self, rule: Rule) -> list[Pipeline]:
        """The account's pipelines that are not being deleted, by name."""
        return self._pipelines.get(rule.tenant_id, [])

    def pipeline_delay_ms(self, pipeline: Pipeline) -> int | None:
        """How far a pipeline that runs is behind its source; None where that is not known.

        Of a worker that is silent, it is what it told last and its silence.
        """
        now = self._reports.get(pipeline.pk)
        if now is None or pipeline.running_at is None:
            return None
        delay = samples.delay_ms(pipeline.kind, now)
        if delay is None or now.is_fresh:
            return delay
        return delay + self.now_ms - max(now.at_ms, int(pipeline.running_at.timestamp() * 1000))

    @cached_property
    def _stored_limit(self) -> Callable[[Tenant], int]:
        return limits.of_accounts("stored_bytes")

    @cached_property
    def _uses(self) -> dict[str, Use] | None:
        return limits.uses()

    @cached_property
    def _held_back(self) -> dict[str, list[counters.Change]] | None:
        """Of every instance that a rule watches."""
        told = limits.held_back()
        if told is None:
            return None
        names = [one for tenant in _watching(Condition.THROTTLED) for one in self._all_of(tenant)]
        return counters.note({counter_of_instance(one): told.get(one.instance_id, 0) for one in names}, self.now_ms)

    @cached_property
    def _refused(self) -> dict[str, list[counters.Change]] | None:
        """Of every account that has a rule about it, and every limit."""
        if self._uses is None:
            return None
        watched = Tenant.objects.filter(alarm_rules__enabled=True, alarm_rules__condition=Condition.REFUSED).distinct()
        numbers = {}
        for tenant in watched:
            use = self._uses.get(tenant.uid)
            for reason in LIMITS:
                numbers[counter_of_account(tenant, reason)] = use.refused.get(reason, 0) if use else 0
        return counters.note(numbers, self.now_ms)

    @cached_property
    def _pipelines(self) -> dict[int, list[Pipeline]]:
        found: dict[int, list[Pipeline]] = defaultdict(list)
        rows = Pipeline.objects.filter(tenant__in=_watching("pipeline."), deleted_at=None).order_by("name")
        for one in rows.only("tenant_id", "name", "kind", "state", "reason", "running_at"):
            found[one.tenant_id].append(one)
        return found

    @cached_property
    def _reports(self) -> dict[int, samples.Now]:
        running = [one.pk for of in self._pipelines.values() for one in of if one.state == State.RUNNING]
        return samples.latest(running)

    def _health(self, cluster: Cluster) -> Health:
        if cluster.pk not in self._healths:
            self._healths[cluster.pk] = brokers.health_of(cluster)
        return self._healths[cluster.pk]

    def _of(self, rule: Rule) -> list[Instance]:
        return [rule.instance] if rule.instance is not None else self._all_of(rule.tenant_id)

    def _all_of(self, tenant: int) -> list[Instance]:
        return self._instances.get(tenant, [])

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


def counter_of_instance(instance: Instance) -> str:
    """The counter of how often clients of an instance were held back."""
    return f"held:{instance.instance_id}"


def counter_of_account(tenant: Tenant, reason: str) -> str:
    """The counter of requests of an account that were refused for a reason."""
    return f"refused:{tenant.uid}:{reason}"


def _watching(conditions: str) -> QuerySet[Rule, int]:
    """The accounts that have rules of such conditions."""
    found = Rule.objects.filter(enabled=True, condition__startswith=conditions)
    return found.values_list("tenant", flat=True).distinct()


def _by_instance(rows: Iterable[tuple[int, str, str]]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for instance, name, physical in rows:
        found[instance][name] = physical
    return found


def letters_of(named: Named) -> dict[str, str]:
    """The dead-letter topic of each group, by what people call the group."""
    return {name: dead_letter_topic(physical) for name, physical in named.physical.items()}
