"""Who may archive a topic: who may read its messages, and keep them in the account's lake."""

from __future__ import annotations

from django.http import Http404

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.accounts.http import Request
from console.archive.models import TopicArchive
from console.topics import access as topics
from console.topics.models import Topic

ARCHIVE, SUBSCRIBE = "dla:ArchiveTopic", "mq:SUB"


def resource(actor: Actor, physical_name: str) -> str:
    """The resource of the archive that the actor's account has of a topic."""
    return dla_resource(actor.tenant, "mq", physical_name)


def topic(request: Request, instance_id: str, name: str) -> Topic:
    """A topic that the actor may subscribe to and archive; one that it may not see does not exist."""
    found = topics.topic(request, instance_id, name, SUBSCRIBE)
    require_archive(request.actor, found.physical_name)
    return found


def require_archive(actor: Actor, physical_name: str) -> None:
    """Raise PermissionDenied unless the actor may archive this topic."""
    require(actor, ARCHIVE, resource(actor, physical_name), owner=actor.tenant)


def archive(request: Request, number: int) -> TopicArchive:
    """An archive of the actor's account."""
    found = TopicArchive.objects.filter(tenant=request.actor.tenant, pk=number).first()
    if found is None:
        raise Http404("no such archive")
    require_archive(request.actor, found.physical_name)
    return found


def may_archive(actor: Actor, found: Topic) -> bool:
    """The same decisions, for a run that goes on without its requester."""
    subscribes = actor.decide(SUBSCRIBE, mq_resource(found.physical_name), owner=found.instance.tenant)
    archives = actor.decide(ARCHIVE, resource(actor, found.physical_name), owner=actor.tenant)
    return subscribes.allowed and archives.allowed
