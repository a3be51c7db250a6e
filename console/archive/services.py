"""Writes of archives on behalf of a user: start, keep going by the hour, delete."""

from __future__ import annotations

import re
import secrets

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import lake
from console.accounts.actor import Actor, requester
from console.accounts.models import Tenant
from console.archive import lifecycle
from console.archive.access import resource
from console.archive.models import BUSY, ArchiveStatus, TopicArchive
from console.audit import record as audit
from console.catalog import bucket_events, storage
from console.catalog.models import Bucket
from console.topics.models import Topic
from console.web.after_commit import after_commit
from console.web.errors import Refused


def bucket_name(tenant: Tenant) -> str:
    """The bucket of an account's archives."""
    return f"gantry-archive-{tenant.uid}"


@transaction.atomic
def start(*, actor: Actor, topic: Topic) -> TopicArchive:
    """Archive the topic's messages from where the archive ends to now; a run that is under way is left alone.

    From now on the archive runs with the rights of the actor. Raises Refused when somebody else's bucket has the name.
    """
    archive, created = TopicArchive.objects.select_for_update().get_or_create(
        tenant=actor.tenant, topic=topic, defaults=_requested(actor) | {"physical_name": topic.physical_name}
    )
    if created:
        archive.location = _location(actor.tenant, topic)
        archive.save(update_fields=["location"])
    elif archive.status in BUSY:
        return archive
    else:
        TopicArchive.objects.filter(pk=archive.pk).update(**_requested(actor))
        archive.refresh_from_db()
    _record(actor, "start", archive)
    after_commit(lifecycle.hand_over, archive.pk)
    return archive


@transaction.atomic
def set_hourly(*, actor: Actor, archive: TopicArchive, hourly: bool) -> None:
    """Go on by itself every hour, or no longer; with the rights of the actor. Raises Refused without a topic."""
    if hourly and archive.topic_id is None:
        raise Refused("ARCHIVE_WITHOUT_TOPIC", _("The topic was deleted; there is nothing more to archive."))
    changes: dict[str, object] = {"hourly": hourly}
    if hourly:
        changes |= requester(actor)
    TopicArchive.objects.filter(pk=archive.pk).update(**changes)
    _record(actor, "schedule", archive, {"hourly": hourly})


def delete(*, actor: Actor, archive: TopicArchive) -> None:
    """Delete the archive with its files. Raises Refused while it runs.

    The row goes first: no statement reads files that are being deleted. Files that stay after a crash belong to nobody
    but the account, whose bucket they lie in.
    """
    with transaction.atomic():
        idle = TopicArchive.objects.filter(pk=archive.pk).exclude(status=ArchiveStatus.RUNNING)
        if not idle.delete()[0]:
            raise Refused("ARCHIVE_BUSY", _("The archive is being written now; delete it when the run has ended."))
        _record(actor, "delete", archive, {"messages": archive.messages, "location": archive.location})
    with bucket_events.removed(actor, archive.location):
        lake.remove(archive.location)
    storage.changed(actor.tenant)


def _requested(actor: Actor) -> dict[str, object]:
    now = timezone.now()
    return requester(actor) | {
        "status": ArchiveStatus.QUEUED,
        "error": "",
        "requested_at": now,
        "heartbeat_at": now,
    }


def _location(tenant: Tenant, topic: Topic) -> str:
    """A folder that no other archive ever had, also not one of a topic with the same name."""
    bucket, _unused = Bucket.objects.get_or_create(name=bucket_name(tenant), defaults={"tenant": tenant})
    if bucket.tenant_id != tenant.pk:
        raise Refused("BUCKET_TAKEN", _("The bucket %(bucket)s belongs to another account.") % {"bucket": bucket.name})
    # RocketMQ takes names with % and |, which no path of the lake has.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", topic.name)
    return f"oss://{bucket.name}/{topic.instance.instance_id}/{name}-{secrets.token_hex(4)}/"


def _record(actor: Actor, verb: str, archive: TopicArchive, detail: dict[str, object] | None = None) -> None:
    audit.record(actor, f"archive.topic.{verb}", resource(actor, archive.physical_name), detail=detail or {})
