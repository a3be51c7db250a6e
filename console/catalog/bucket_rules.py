"""The rules by which a bucket tells queues of its files: who may see and change them, and how they fare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Count
from django.utils.translation import gettext as _

from console.accounts.access import require
from console.accounts.actor import Actor, oss_resource
from console.audit import record as audit
from console.catalog.bucket_events import NAMES
from console.catalog.models import Bucket, BucketRule
from console.outbox import services as outbox
from console.outbox.models import BUCKET_EVENT, Notification, NotificationStatus
from console.outbox.queues import SEND
from console.queues import queries as queue_queries
from console.queues.access import require_queue
from console.queues.client import FIELD
from console.web.errors import Refused

READ, CHANGE = "dla:GetBucketNotification", "dla:PutBucketNotification"
#: Each rule that fits is a message for a change.
MOST_RULES = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: As long as a key can be, bytes.
_LONGEST_KEY = 1023


@dataclass(frozen=True, slots=True)
class RuleState:
    """A rule, and its events: those that wait, those delivered within a day, those given up within a week."""

    rule: BucketRule
    waiting: int
    delivered: int
    failed: int
    #: Why the latest event that waits again or was given up was not delivered.
    error: str


def states(bucket: Bucket) -> list[RuleState]:
    """The rules of a bucket by name, with how they fare."""
    found = list(bucket.rules.all())
    events = Notification.objects.filter(
        tenant_id=bucket.tenant_id, notify_by=BUCKET_EVENT, key__in=[str(rule.pk) for rule in found]
    )
    counts: dict[tuple[str, str], int] = {
        (key, status): count for key, status, count in events.values_list("key", "status").annotate(Count("pk"))
    }
    errors = dict(events.exclude(error="").order_by("pk").values_list("key", "error"))
    return [
        RuleState(
            rule,
            sum(counts.get((str(rule.pk), s), 0) for s in (NotificationStatus.PENDING, NotificationStatus.SENDING)),
            counts.get((str(rule.pk), NotificationStatus.SUCCESS), 0),
            counts.get((str(rule.pk), NotificationStatus.FAILURE), 0),
            errors.get(str(rule.pk), ""),
        )
        for rule in found
    ]


def create(
    actor: Actor,
    bucket: Bucket,
    *,
    name: str,
    events: Sequence[str],
    queue: str,
    key_prefix: str = "",
    key_suffix: str = "",
) -> BucketRule:
    """Tell a queue of the account of changes from now on.

    Needs the right to send to the queue as well: from then on the account itself does.
    Raises Refused and QueueServiceUnavailable.
    """
    resource = oss_resource(actor.tenant, bucket.name)
    require(actor, CHANGE, resource, owner=actor.tenant)
    if not _NAME.fullmatch(name):
        message = _("A rule's name has 1 to 64 letters, digits, _ and -, and begins with a letter or a digit.")
        raise Refused(FIELD, message, "name")
    unknown = [event for event in events if event not in NAMES]
    if unknown or not events:
        message = (
            _("There is no event %(event)r; allowed are %(names)s.")
            if unknown
            else _("Choose at least one event; allowed are %(names)s.")
        )
        raise Refused(FIELD, message % {"event": unknown[0] if unknown else "", "names": ", ".join(NAMES)}, "events")
    for field, text in (("key_prefix", key_prefix), ("key_suffix", key_suffix)):
        if len(text.encode(errors="surrogatepass")) > _LONGEST_KEY:
            message = _("The %(field)s has more than %(longest_key)s bytes, which is the longest key.") % {
                "field": field.removeprefix("key_"),
                "longest_key": f"{_LONGEST_KEY:,}",
            }
            raise Refused(FIELD, message, field)
    require_queue(actor, SEND, queue)
    _require_queue(actor, queue)
    try:
        with transaction.atomic():
            Bucket.objects.select_for_update().filter(pk=bucket.pk).first()
            if bucket.rules.count() >= MOST_RULES:
                raise Refused(
                    "BIZ_RULE_QUOTA_EXCEEDED",
                    _("A bucket has %(most_rules)s rules at most; delete one first.") % {"most_rules": MOST_RULES},
                )
            rule = BucketRule.objects.create(
                bucket=bucket, name=name, events=list(dict.fromkeys(events)), prefix=key_prefix, suffix=key_suffix,
                queue=queue, creator_name=actor.name,
            )  # fmt: skip
            detail = {"rule": name, "events": rule.events, "prefix": key_prefix, "suffix": key_suffix, "queue": queue}
            audit.record(actor, "sql.bucket.rule.create", resource, detail=detail)
    except IntegrityError as error:
        raise Refused(
            "BIZ_RULE_EXISTED",
            _("The bucket %(bucket)s has a rule %(name)s already.") % {"bucket": bucket.name, "name": name},
            "name",
        ) from error
    return rule


@transaction.atomic
def delete(actor: Actor, rule: BucketRule) -> None:
    """Tell the queue no more; events that wait are still delivered."""
    resource = oss_resource(actor.tenant, rule.bucket.name)
    require(actor, CHANGE, resource, owner=actor.tenant)
    audit.record(actor, "sql.bucket.rule.delete", resource, detail={"rule": rule.name, "queue": rule.queue})
    rule.delete()


@transaction.atomic
def send_again(actor: Actor, rule: BucketRule) -> int:
    """Try the events that were given up for another day; returns how many."""
    resource = oss_resource(actor.tenant, rule.bucket.name)
    require(actor, CHANGE, resource, owner=actor.tenant)
    count = outbox.send_events_again(actor.tenant, str(rule.pk))
    audit.record(actor, "sql.bucket.rule.resend", resource, detail={"rule": rule.name, "events": count})
    return count


def _require_queue(actor: Actor, queue: str) -> None:
    try:
        queue_queries.queue(actor.tenant, queue)
    except Refused as refused:
        raise Refused(refused.symbol, refused.message, "queue") from refused
