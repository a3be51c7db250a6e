"""Reads of archives. The actor, or the account, comes first."""

from __future__ import annotations

from django.db.models import QuerySet

from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.archive.models import TopicArchive
from console.catalog.virtual.mq import Archived
from console.topics.models import Topic


def archives(actor: Actor, text: str = "") -> QuerySet[TopicArchive]:
    """The archives of the actor's account, by topic; `text` is part of a topic's name."""
    found = TopicArchive.objects.filter(tenant=actor.tenant, physical_name__icontains=text)
    return found.select_related("topic__instance")


def archive_of(actor: Actor, topic: Topic) -> TopicArchive | None:
    """The archive that the actor's account has of the topic."""
    return TopicArchive.objects.filter(tenant=actor.tenant, topic=topic).first()


def of_topic(tenant: Tenant, topic: Topic) -> Archived | None:
    """What `console.catalog.virtual.mq.Archives` says."""
    return _archived(TopicArchive.objects.filter(tenant=tenant, topic=topic).first())


def of_deleted(tenant: Tenant, physical_name: str) -> Archived | None:
    """What `console.catalog.virtual.mq.Archives` says."""
    deleted = TopicArchive.objects.filter(tenant=tenant, topic=None, physical_name=physical_name)
    return _archived(deleted.order_by("-pk").first())


def _archived(archive: TopicArchive | None) -> Archived | None:
    return Archived(archive.location, archive.offsets) if archive is not None and archive.offsets else None
