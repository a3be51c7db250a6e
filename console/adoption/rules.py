"""Rules: what comes to a cluster later is adopted by itself.

Of several rules that fit a name, the one that names it most closely takes it, then the oldest: `payments-*` before `*`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from brokercore.client.errors import ClientError
from console.adoption import services, worker
from console.adoption.models import Kind, Purpose, Rule, RunName
from console.adoption.patterns import closeness, matcher
from console.adoption.room import room
from console.adoption.unowned import Unowned, unowned
from console.instances.models import Cluster

log = logging.getLogger(__name__)
_LOOKED_AT = 20_000


@dataclass(frozen=True)
class Conflict:
    """A name that rules of different instances fit: `winner` takes it."""

    name: str
    kind: str
    winner: Rule
    others: tuple[Rule, ...]


class Decider:
    """Whose a name is by the rules of a cluster."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [(rule, matcher(rule.include, rule.exclude), closeness(rule.include)) for rule in rules]

    def fitting(self, kind: str, name: str) -> list[Rule]:
        """The rules that fit, the one that takes it first."""
        found = [
            (-close(name), rule.pk, rule) for rule, fits, close in self._rules if rule.kind in ("", kind) and fits(name)
        ]
        return [rule for _, _, rule in sorted(found, key=lambda one: one[:2])]


def apply(cluster: Cluster) -> int:
    """Adopt what the rules of a cluster say; returns how many names were taken up. Raises ClientError.

    What was forgotten stays so, and so does what no account can have.
    """
    rules = list(_of(cluster))
    if not rules:
        return 0
    decider, taken = Decider(rules), defaultdict[Rule, list[Unowned]](list)
    for one in unowned(cluster):
        if one.refusal or one.forgotten:
            continue
        fitting = decider.fitting(one.kind, one.name)
        if fitting:
            taken[fitting[0]].append(one)
    for rule, names in taken.items():
        wanted = []
        for kind in Kind:
            left = room(kind, rule.instance.tenant, rule.instance)
            wanted += [one for one in names if one.kind is kind][: left.left if left else None]
        if wanted:
            pairs = [(one.kind.value, one.name) for one in wanted[: services.MOST_NAMES]]
            run = services.add_run(
                rule.instance, Purpose.ADOPT, pairs, rule=rule, requester=f"rule {rule.pk}: {rule.include}"[:150]
            )
            worker.work(run.pk)
    return sum(len(names) for names in taken.values())


def conflicts(cluster: Cluster, names: Iterable[tuple[str, str]], most: int = 100) -> list[Conflict]:
    """Of kinds and names, those that rules of different instances fit, `most` at most."""
    decider, found = Decider(_of(cluster)), []
    for kind, name in names:
        fitting = decider.fitting(kind, name)
        others = tuple(rule for rule in fitting[1:] if rule.instance_id != fitting[0].instance_id)
        if others:
            found.append(Conflict(name, kind, fitting[0], others))
            if len(found) == most:
                break
    return found


def conflicts_of(rule: Rule) -> list[Conflict]:
    """Names that rules have taken, or that no account has, and that this rule and one of another instance fit.

    A cluster that does not answer tells none of the latter.
    """
    names = [
        (kind, name)
        for kind, name in RunName.objects.filter(run__rule__cluster=rule.cluster).values_list("kind", "name")[
            :_LOOKED_AT
        ]
    ]
    try:
        names += [(one.kind.value, one.name) for one in unowned(rule.cluster)]
    except ClientError:
        log.info("%s does not answer: conflicts are told of adopted names alone", rule.cluster)
    found = conflicts(rule.cluster, dict.fromkeys(names))
    return [one for one in found if rule in (one.winner, *one.others)]


def _of(cluster: Cluster) -> Iterable[Rule]:
    return Rule.objects.filter(cluster=cluster).select_related("instance__tenant", "instance__cluster", "cluster")
