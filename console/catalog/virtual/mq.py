"""The tables of schema `mq`: one for each topic, retry topic and dead-letter topic that the caller may subscribe to.

A table has the physical name of its topic (docs/use/messages-in-sql.md). One decision is made for each table that a
statement names, `mq:SUB` as for a consumer; nothing is listed for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from django.db.models import Q
from django.utils.translation import gettext as _

from analytics.errors import QueryRefused
from analytics.specs import Column, TableSpec
from brokercore.names import group_of, topics_of
from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.statements.like import is_like
from console.topics.access import is_reachable, received_grants
from console.topics.models import Group, Topic
from console.topics.queries import visible_groups, visible_topics
from console.web.provided import Provided

SCHEMA = "mq"
SUBSCRIBE = "mq:SUB"
#: Name, Spark's type, what it holds.
COLUMNS = (
    ("broker", "string", "name of the broker that keeps the message"),
    ("queue", "int", "number of the queue on that broker"),
    ("offset", "bigint", "place in the queue"),
    ("message_id", "string", "the id that its producer gave it"),
    ("offset_message_id", "string", "the id that tells where it was stored"),
    ("keys", "array<string>", "business keys, null without any"),
    ("tag", "string", "tag, null without one"),
    ("properties", "map<string,string>", "all properties, the system's among them"),
    ("body", "string", "body as text, null when it is not UTF-8"),
    ("body_binary", "binary", "body as bytes, unpacked"),
    ("born_time", "timestamp", "when the producer made it"),
    ("store_time", "timestamp", "when the broker stored it"),
    ("born_host", "string", "address of the producer"),
    ("reconsume_times", "int", "deliveries that failed before"),
)


@dataclass(frozen=True)
class Archived:
    """What an account has of a topic in the lake: where, and the next offset by "<broker>:<queue>"."""

    location: str
    offsets: dict[str, int]


class Archives(Protocol):
    """What is to be known of archives, which stand above the catalog. None where nothing is archived yet."""

    def of_topic(self, tenant: Tenant, topic: Topic) -> Archived | None:
        """The account's archive of a topic."""

    def of_deleted(self, tenant: Tenant, physical_name: str) -> Archived | None:
        """The account's last archive of a topic that is no more."""


archives = Provided[Archives](f"{__name__}.archives", "console.archive")


def find(actor: Actor, name: str) -> TableSpec | None:
    """The table of this name, as `virtual.lookup` promises.

    A name without namespace means the caller's own topic when there is exactly one, besides a topic that has this
    physical name. Raises QueryRefused when several are meant.
    """
    if group_of(name):
        return _of_group(actor, name)
    topics = [topic for topic in _candidates(actor, name) if _may_subscribe(actor, topic)]
    own = [topic for topic in topics if topic.physical_name == name and topic.instance.tenant_id == actor.tenant.pk]
    topics = own or topics
    if len(topics) > 1:
        names = ", ".join(f"{SCHEMA}.`{topic.physical_name}`" for topic in topics)
        raise QueryRefused(
            _("%(schema)s.%(name)s may mean one of %(names)s; name that one.")
            % {"schema": SCHEMA, "name": name, "names": names}
        )
    if not topics:
        return _deleted(actor, name)
    topic = topics[0]
    archived = archives.get().of_topic(actor.tenant, topic)
    return _table(name, reader=reader_options(topic.physical_name, topic.instance.cluster), archived=archived)


def names(actor: Actor, like: str | None, limit: int) -> list[str]:
    """Physical names of the topics the caller may subscribe to, by instance and name."""
    return list(islice((name for name in _names(actor) if is_like(name, like)), limit))


def _names(actor: Actor) -> Iterator[str]:
    granted = received_grants(actor).values("topic__instance")
    mine = Q(tenant=actor.tenant) | Q(pk__in=granted)
    for instance in Instance.objects.filter(mine).select_related("tenant").order_by("name", "pk"):
        topics = visible_topics(actor, instance, SUBSCRIBE)
        yield from topics.order_by("name").values_list("physical_name", flat=True).iterator()
    for instance in Instance.objects.filter(mine).select_related("tenant").order_by("name", "pk"):
        groups = visible_groups(actor, instance, SUBSCRIBE)
        for group in groups.values_list("physical_name", flat=True).iterator():
            yield from topics_of(group)


def _candidates(actor: Actor, name: str) -> list[Topic]:
    """Own topics with this physical or plain name, and a granted one with this physical name.

    A granted topic never hides an own one: the account that granted it chose its name.
    """
    own = Q(instance__tenant=actor.tenant) & (Q(physical_name=name) | Q(name=name))
    granted = Q(pk__in=received_grants(actor).values("topic"), physical_name=name)
    found = Topic.objects.filter(own | granted).select_related("instance__tenant", "instance__cluster")
    # SQLite compares as written, other databases may not.
    return [topic for topic in found.order_by("physical_name")[:20] if name in {topic.physical_name, topic.name}]


def _may_subscribe(actor: Actor, topic: Topic) -> bool:
    return actor.decide(SUBSCRIBE, mq_resource(topic.physical_name), owner=topic.instance.tenant).allowed


def _deleted(actor: Actor, name: str) -> TableSpec | None:
    """The last archive of a topic that is no more, for who might subscribe to it if it were."""
    archived = archives.get().of_deleted(actor.tenant, name)
    if archived is None:
        return None
    if not actor.decide(SUBSCRIBE, mq_resource(name), owner=actor.tenant).allowed:
        return None
    return _table(name, reader=None, archived=archived)


def _of_group(actor: Actor, name: str) -> TableSpec | None:
    """Retry and dead letters are the group's: whoever may consume with it may read them."""
    group = (
        Group.objects.filter(owner=actor.tenant, physical_name=group_of(name))
        .select_related("instance__cluster", "owner", "creator")
        .first()
    )
    if group is None or not is_reachable(actor, group):
        return None
    resource = mq_resource(group.physical_name)
    if not actor.decide(SUBSCRIBE, resource, owner=group.owner, holder=group.holder).allowed:
        return None
    return _table(name, reader=reader_options(name, group.instance.cluster))


def reader_options(topic: str, cluster: Cluster) -> dict[str, str]:
    """How Spark reads a topic. The key is the console's own: the decision was made, and it was made here."""
    key, trust = broker.credentials_of(cluster), broker.trust_of(cluster)
    options = {"namesrv": cluster.namesrv, "topic": topic}
    if key is not None:
        options |= {"accessKeyId": key.access_key_id, "accessKeySecret": key.access_key_secret}
    return options | ({"ca": trust} if trust else {})


def _table(name: str, *, reader: dict[str, str] | None, archived: Archived | None = None) -> TableSpec:
    """The table over what the broker has and what the archive has, either of which may be missing."""
    options = dict(reader or {})
    location = ""
    if archived is not None:
        location = archived.location
        options["begin"] = json.dumps(archived.offsets)
    columns = tuple(Column(name, kind) for name, kind, _unused in COLUMNS)
    return TableSpec(name, location, "mq", columns, options=tuple(sorted(options.items())))
