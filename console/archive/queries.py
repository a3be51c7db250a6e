"""Reads of archives. The actor comes first."""

from __future__ import annotations

from django.db.models import QuerySet

from console.accounts.actor import Actor
from console.archive.models import TopicArchive
from console.topics.models import Topic


def archives(actor: Actor, text: str = "") -> QuerySet[TopicArchive]:
    """The archives of the actor's account, by topic; `text` is part of a topic's name."""
    found = TopicArchive.objects.filter(tenant=actor.tenant, physical_name__icontains=text)
    return found.select_related("topic__instance")


def archive_of(actor: Actor, topic: Topic) -> TopicArchive | None:
    """The archive that the actor's account has of the topic."""
    return TopicArchive.objects.filter(tenant=actor.tenant, topic=topic).first()
