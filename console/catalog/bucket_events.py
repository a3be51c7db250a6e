"""Events of buckets: what happened to a file is told to the queues that want it, in the vendor's shape.

A change is written down before it is made (`BucketChange`), told once it is made, and forgotten in the same
transaction; what a crash leaves between is told by the sweep, which compares the file with what it was. So each change
is told at least once. Nothing is written down for a bucket without a rule that fits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import IO

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics import lake
from analytics.errors import LakeError
from analytics.lake import LakeFile, Place, parse_location
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.catalog.models import Bucket, BucketChange, BucketRule
from console.outbox import services as outbox

log = logging.getLogger(__name__)

PUT, DELETE, DELETE_MANY = "ObjectCreated:PutObject", "ObjectRemoved:DeleteObject", "ObjectRemoved:DeleteObjects"
#: What a rule can ask for.
NAMES = ("ObjectCreated:*", PUT, "ObjectRemoved:*", DELETE, DELETE_MANY)
#: Whose maker has not told of a change for so long is taken for dead, when the file shows that it was made.
_LATE = timedelta(minutes=1)
#: A file is not under way for so long: a change that was not made by then is forgotten.
_LONGEST = timedelta(hours=1)
_SWEPT = 500
_MD5 = re.compile(r"[0-9a-fA-F]{32}(?:-\d+)?")


class Digested:
    """A file that is read once, and the MD5 of what was read."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content = content
        self._digest = hashlib.md5(usedforsecurity=False)

    def read(self, size: int = -1) -> bytes:
        """As the file's."""
        piece = self._content.read(size)
        self._digest.update(piece)
        return piece

    @property
    def hexadecimal(self) -> str:
        """The digest so far."""
        return self._digest.hexdigest()


def matches(rule: BucketRule, event: str, key: str) -> bool:
    """Whether a rule wants to hear of it."""
    kind = event.partition(":")[0]
    wanted = event in rule.events or f"{kind}:*" in rule.events
    return wanted and key.startswith(rule.prefix) and key.endswith(rule.suffix)


@contextmanager
def removed(actor: Actor, location: str) -> Iterator[None]:
    """What the block removes of a folder is told, also when it fails halfway. Raises LakeError before the block."""
    with _settled(begin_removal(actor, location)):
        yield


@contextmanager
def told(actor: Actor, event: str, places: Iterable[Place]) -> Iterator[list[BucketChange]]:
    """What the block does to these files is told, also when it fails halfway. Raises LakeError before the block."""
    with _settled(begin(actor, event, places)) as changes:
        yield changes


@contextmanager
def _settled(changes: list[BucketChange]) -> Iterator[list[BucketChange]]:
    try:
        yield changes
    except BaseException:
        settle(changes)
        raise
    settle(changes, is_done=True)


def begin(actor: Actor, event: str, places: Iterable[Place]) -> list[BucketChange]:
    """Write down what is about to be done to files of one bucket, for `settle`. Raises LakeError."""
    places = list(places)
    rules = _rules(actor.tenant, places[0].bucket) if places else []
    wanted = [place for place in places if any(matches(rule, event, place.key) for rule in rules)]
    changes = []
    for place in wanted:
        before = lake.file(place)
        if before is None and event != PUT:
            continue
        change = _change(actor, actor.tenant, rules[0].bucket, event, place.key)
        change.before_version, change.before_size = (before.version, before.size) if before else ("", 0)
        changes.append(change)
    return BucketChange.objects.bulk_create(changes)


def begin_removal(actor: Actor, location: str) -> list[BucketChange]:
    """Write down what rules want to hear of when a folder, or a bucket, goes with its files. Raises LakeError."""
    if not is_told(actor.tenant, location):
        return []
    places = [parse_location(file.location) for file in lake.files(location)]
    return begin(actor, DELETE_MANY, places)


def is_told(tenant: Tenant, location: str) -> bool:
    """Whether any rule can want to hear of files in a folder."""
    return bool(_rules(tenant, parse_location(location).bucket))


def note(author: Actor | None, tenant: Tenant, task_id: str, written: list[LakeFile], removed: list[LakeFile]) -> None:
    """Write down which files a statement has put in place and removed, for `confirm`; in place of an earlier note.

    The statement's files have names of their own, so none of those that it has put in place was there before.
    """
    bucket = next((file.location for file in (*written, *removed)), "oss://").split("/")[2]
    rules = _rules(tenant, bucket)
    changes = []
    for event, file in [(PUT, file) for file in written] + [(DELETE_MANY, file) for file in removed]:
        key = parse_location(file.location).key
        if any(matches(rule, event, key) for rule in rules):
            change = _change(author, tenant, rules[0].bucket, event, key)
            is_there = event == PUT
            change.task_id, change.version = task_id, file.version if is_there else ""
            change.before_size, change.size = (0, file.size) if is_there else (file.size, 0)
            changes.append(change)
    with transaction.atomic():
        BucketChange.objects.filter(task_id=task_id).delete()
        BucketChange.objects.bulk_create(changes)


def confirm(task_id: str) -> None:
    """Tell what was noted of a statement, in the transaction that ends it."""
    changes = list(BucketChange.objects.filter(task_id=task_id).select_related("bucket__tenant").order_by("pk"))
    _tell(changes)


def forget(task_id: str) -> None:
    """Tell nothing of a statement whose files are taken back."""
    BucketChange.objects.filter(task_id=task_id).delete()


def settle(changes: Iterable[BucketChange], *, is_done: bool = False) -> None:
    """Tell of the changes that were made, and forget the others; what the lake cannot say now is the sweep's.

    `is_done` says that all were made: the same content once more looks like none in some storages.
    """
    try:
        made = [change for change in changes if _is_made(change, is_done=is_done)]
    except LakeError as error:
        log.warning("events of buckets wait for the lake: %s", error.user_message)
        return
    with transaction.atomic():
        BucketChange.objects.filter(pk__in={c.pk for c in changes} - {c.pk for c in made}).delete()
        _tell(made)


def settle_again(changes: Iterable[BucketChange]) -> None:
    """As `settle`, after what it did was rolled back."""
    kept = BucketChange.objects.filter(pk__in=[change.pk for change in changes]).select_related("bucket__tenant")
    settle(list(kept))


def sweep() -> None:
    """Tell of changes whose makers died before they did."""
    late = BucketChange.objects.filter(began_at__lt=timezone.now() - _LATE).select_related("bucket__tenant")
    for change in late.order_by("pk")[:_SWEPT]:
        try:
            made = _is_made(change)
        except LakeError as error:
            log.warning("events of buckets wait for the lake: %s", error.user_message)
            return
        over = change.began_at < timezone.now() - _LONGEST
        # Of a statement that is not over nobody can say yet whether its files are taken back.
        if (made and not change.task_id) or over:
            settle([change])


def _is_made(change: BucketChange, *, is_done: bool = False) -> bool:
    """Whether the file shows the change; then also fills in what it is now."""
    if change.size is not None:
        return True
    found = lake.file(Place(change.bucket.name, change.key))
    if change.event == PUT:
        made = found is not None and (is_done or found.version != change.before_version)
    else:
        made = is_done or found is None
    if made:
        left = found if change.event == PUT else None
        change.size, change.version = (left.size, left.version) if left else (0, "")
    return made


def _tell(changes: list[BucketChange]) -> None:
    """Hand the events of changes to the outbox and forget the changes, in one transaction."""
    with transaction.atomic():
        held = BucketChange.objects.select_for_update().filter(pk__in=[change.pk for change in changes])
        left = set(held.values_list("pk", flat=True))
        held.delete()
        # What is not left somebody else has told of.
        for bucket in {change.bucket for change in changes}:
            rules = _rules(bucket.tenant, bucket.name)
            outbox.enqueue_events(
                bucket.tenant,
                (
                    outbox.Event(rule.queue, str(rule.pk), change.event, json.dumps(body(change, rule.name)))
                    for change in changes
                    for rule in rules
                    if change.pk in left and change.bucket == bucket and matches(rule, change.event, change.key)
                ),
            )


def body(change: BucketChange, rule_id: str) -> dict[str, object]:
    """The event as the vendor's object store sends it; sizes in bytes, the time UTC."""
    tenant, size = change.bucket.tenant, change.size or 0
    at = timezone.now()
    event = {
        "eventName": change.event,
        "eventSource": "acs:oss",
        "eventTime": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
        "eventVersion": "1.0",
        "oss": {
            "bucket": {
                "arn": f"acs:oss:{settings.REGION}:{tenant.uid}:{change.bucket.name}",
                "name": change.bucket.name,
                "ownerIdentity": tenant.uid,
                "virtualBucket": "",
            },
            "object": {
                "deltaSize": size - change.before_size,
                "eTag": _etag(change),
                "key": change.key,
                "readFrom": 0,
                "readTo": 0,
                "size": size,
            },
            "ossSchemaVersion": "1.0",
            "ruleId": rule_id,
        },
        "region": settings.REGION,
        "requestParameters": {"sourceIPAddress": change.source_ip},
        "responseElements": {"requestId": change.request_id},
        "userIdentity": {"principalId": change.principal},
    }
    return {"events": [event]}


def _etag(change: BucketChange) -> str:
    """The MD5 of the content where it is known, else a text that changes with it, as of an upload in parts."""
    version = change.version.strip('"')
    if change.digest or not version:
        return change.digest.upper()
    if _MD5.fullmatch(version):
        return version.upper()
    derived = hashlib.md5(f"{change.key}:{version}".encode(), usedforsecurity=False).hexdigest()
    return f"{derived.upper()}-1"


def _rules(tenant: Tenant, bucket: str) -> list[BucketRule]:
    rules = BucketRule.objects.filter(bucket__tenant=tenant, bucket__name=bucket)
    return list(rules.select_related("bucket__tenant"))


def _change(author: Actor | None, tenant: Tenant, bucket: Bucket, event: str, key: str) -> BucketChange:
    if author is None:
        return BucketChange(bucket=bucket, key=key, event=event, principal=tenant.uid)
    principal = author.user.uid if author.user else author.name if author.role else tenant.uid
    return BucketChange(
        bucket=bucket, key=key, event=event, principal=principal, source_ip=author.source_ip,
        request_id=author.request_id,
    )  # fmt: skip
