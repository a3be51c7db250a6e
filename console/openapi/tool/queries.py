"""What the API Tool lists: operations by service and keyword, the user's keys, names to choose from."""

from __future__ import annotations

from collections.abc import Iterable

from console.accounts import credentials
from console.accounts.actor import Actor
from console.accounts.models import AccessKey
from console.instances import queries as instance_queries
from console.instances.models import Instance
from console.openapi.reference import Reference, references
from console.topics import queries as topic_queries

_SUGGESTED = 200
"""Names to choose from at most; more are found by typing."""


def directory(service: str, keyword: str) -> list[Reference]:
    """Operations of a service (empty: all) whose name contains the keyword, in any case."""
    wanted = keyword.lower()
    return [r for r in references() if service in ("", r.service) and _contains(r, wanted)]


def _contains(reference: Reference, keyword: str) -> bool:
    return keyword in reference.path.lower() or keyword in reference.rpc.lower()


def services() -> list[str]:
    """The services, in order of name."""
    return sorted({reference.service for reference in references()})


def usable_keys(actor: Actor) -> list[AccessKey]:
    """The keys of the person that sign in this moment, oldest first."""
    return list(credentials.usable_keys().filter(user=actor.person, security_token="").order_by("created_at"))


def suggestions(
    actor: Actor, visible: Iterable[Instance], instance_id: str, wanted: set[str]
) -> dict[str, list[tuple[str, str]]]:
    """Names for the kinds in `wanted` (instances, topics, groups): (value, what it is), of the chosen instance."""
    found: dict[str, list[tuple[str, str]]] = {}
    if "instances" in wanted:
        found["instances"] = [(instance.instance_id, instance.name) for instance in visible]
    instance = instance_queries.instances(actor.tenant).filter(instance_id=instance_id).first()
    if instance is None:
        return found
    if "topics" in wanted:
        rows = topic_queries.visible_topics(actor, instance)[:_SUGGESTED]
        found["topics"] = [(topic.name, topic.remark) for topic in rows]
    if "groups" in wanted:
        groups = topic_queries.visible_groups(actor, instance)[:_SUGGESTED]
        found["groups"] = [(group.group_id, group.remark) for group in groups]
    return found
