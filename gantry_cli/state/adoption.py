"""Steps that adopt and forget names of instances without namespace, and make and end their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gantry_cli.state.files import AdoptionRule, Group, Instance, Topic
from gantry_cli.state.steps import CREATE, DELETE, Call, Step, compared
from gantry_cli.texts import _

NAMES, ADOPTION_RULE = "names", "adoption rule"
_MOST_CHARACTERS = 500_000
"""Of a call's names: a form holds a mebibyte."""
_TOLD = 20


def adoption_steps(instance: Instance, known: Instance, *, prune: bool) -> Iterator[Step]:
    """The steps to the adopted names and the rules of `instance`, of which `known` is there."""
    cluster = known.cluster or instance.cluster
    wanted = [*_adopted(instance)]
    there = {("topic", one.name) for one in known.topics or ()} | {
        ("group", one.group_id) for one in known.groups or ()
    }
    new = [one for one in wanted if one not in there]
    if new:
        yield _step(CREATE, "adoption/adopt", new, cluster, instance.name)
    if prune:
        yield from forgetting(instance, known)
    yield from _rules(instance, known, cluster, prune=prune)


def forgetting(instance: Instance | None, known: Instance) -> Iterator[Step]:
    """Forget what is adopted and not in the lists of `instance`, or with None all of it; the cluster keeps it."""
    named: set[tuple[str, str]] = set()
    kinds = {"topic", "group"}
    if instance is not None:
        named = _names(instance)
        lists = {"topic": instance.topics, "group": instance.groups}
        kinds = {kind for kind, entries in lists.items() if entries is not None}
    gone = [one for one in _adopted(known) if one[0] in kinds and one not in named]
    if gone:
        yield _step(DELETE, "adoption/forget", gone, known.cluster, known.name)


def _names(instance: Instance) -> set[tuple[str, str]]:
    """Kind and name of all topics and groups."""
    topics = {("topic", one.name) for one in instance.topics or ()}
    return topics | {("group", one.group_id) for one in instance.groups or ()}


def _adopted(instance: Instance) -> Iterator[tuple[str, str]]:
    """Kind and name of what is adopted."""
    topics: Iterable[Topic] = instance.topics or ()
    groups: Iterable[Group] = instance.groups or ()
    yield from (("topic", one.name) for one in topics if one.adopted)
    yield from (("group", one.group_id) for one in groups if one.adopted)


def _step(sign: str, operation: str, names: list[tuple[str, str]], cluster: str, instance: str) -> Step:
    keys = [f"{kind}:{name}" for kind, name in names]
    calls: list[Call] = []
    for chunk in _chunks(keys):
        calls.append((operation, {"names": "\n".join(chunk)} | ({"cluster": cluster} if cluster else {})))
    more = (_("and %(count)s more") % {"count": len(keys) - _TOLD},) if len(keys) > _TOLD else ()
    title = _("of the cluster, %(count)s") if sign == CREATE else _("that the cluster keeps, %(count)s")
    return Step(sign, NAMES, title % {"count": len(keys)}, tuple(calls), instance, (*keys[:_TOLD], *more))


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for key in keys:
        if chunk and size + len(key) > _MOST_CHARACTERS:
            yield chunk
            chunk, size = [], 0
        chunk.append(key)
        size += len(key) + 1
    if chunk:
        yield chunk


def _rules(instance: Instance, known: Instance, cluster: str, *, prune: bool) -> Iterator[Step]:
    def make(rule: AdoptionRule) -> Iterator[Step]:
        given = {"include": rule.include, "exclude": rule.exclude, "kind": rule.kind, "cluster": cluster}
        parameters = {name: value for name, value in given.items() if value}
        yield Step(CREATE, ADOPTION_RULE, rule.name, (("adoption/createRule", parameters),), instance.name)

    def gone(rule: AdoptionRule) -> Iterator[Step]:
        calls = (("adoption/deleteRule", {"rule": str(rule.number)}),)
        yield Step(DELETE, ADOPTION_RULE, rule.name, calls, instance.name)

    given = instance.adoption_rules, known.adoption_rules
    yield from compared(*given, make=make, change=lambda rule, old: (), gone=gone, prune=prune)
