"""Writes of the outbox: a notification is committed with what it tells of, then claimed, sent and ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from console.accounts.models import Tenant
from console.celery import app
from console.outbox.models import ALARM, BUCKET_EVENT, GIVE_UP_AFTER, Notification, NotificationStatus
from console.web.after_commit import after_commit

#: Pauses before the second and each further attempt, seconds; the last one is repeated. A broker that is started anew
#: is back before the third attempt; in a long outage nobody waits for the notice, but everybody sends his.
PAUSES = (0.5, 20.0, 60.0, 180.0, 600.0, 1200.0)
#: A longer pause is left to the sweep: a worker holds what it is told to do later in its memory.
_LONGEST_COUNTDOWN_S = 30.0
#: The sweep asks for the same notification only so often. In an outage each attempt takes seconds; without this
#: bound the queue of the workers would grow as long as the outage lasts.
ASKED_AGAIN_AFTER = timedelta(seconds=30)
#: The column has 31 bits; "send again" can come months after the commit.
_LONGEST_TIME_MS = 2**31 - 1
#: A sender that has not ended a notification for this long is taken for dead; a send times out far earlier.
SENDER_LOST_AFTER = timedelta(seconds=15)
#: Of a statement that writes thousands of files, the first events are asked for at once and the rest by the sweep.
_KICKED_AT_ONCE = 20
#: Of each kind, by one sweep.
_SWEPT_AT_ONCE = 500
#: So long a bucket's page can tell of events that were delivered, and of those that could not be.
_DELIVERED_KEPT, _FAILED_KEPT = timedelta(days=1), timedelta(days=7)


def enqueue(
    *,
    tenant: Tenant,
    notify_by: str,
    topic: str = "",
    queue: str = "",
    producer_id: str = "",
    endpoint: str = "",
    key: str,
    tag: str,
    body: str,
) -> Notification:
    """Add a notification to the current transaction and have it sent once that has committed.

    Nothing is checked here: a wrong destination ends the notification, not the transaction it tells of.
    """
    notification = Notification.objects.create(
        tenant=tenant,
        notify_by=notify_by[:8],
        topic=topic[:255],
        queue=queue[:255],
        producer_id=producer_id[:255],
        endpoint=endpoint[:512],
        key=key,
        tag=tag,
        body=body,
        due_at=timezone.now(),
    )
    after_commit(kick, notification.pk)
    return notification


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a file of a bucket, for a queue of the account; `key` is the rule that wants it."""

    queue: str
    key: str
    tag: str
    body: str


def enqueue_events(tenant: Tenant, events: Iterable[Event]) -> None:
    """Add events to the current transaction, and have them sent once that has committed."""
    now = timezone.now()
    rows = Notification.objects.bulk_create(
        Notification(
            tenant=tenant, notify_by=BUCKET_EVENT, queue=e.queue, key=e.key, tag=e.tag, body=e.body, due_at=now
        )
        for e in events
    )
    for row in rows[:_KICKED_AT_ONCE]:
        after_commit(kick, row.pk)


def forget_events() -> None:
    """Delete events and notices that ended long ago; notifications of tasks stay with their tasks."""
    now, events = timezone.now(), Notification.objects.filter(notify_by__in=(BUCKET_EVENT, ALARM))
    events.filter(status=NotificationStatus.SUCCESS, ended_at__lt=now - _DELIVERED_KEPT).delete()
    events.filter(status=NotificationStatus.FAILURE, ended_at__lt=now - _FAILED_KEPT).delete()


def send_events_again(tenant: Tenant, key: str) -> int:
    """Try the failed events of a rule anew, in the caller's transaction; returns how many."""
    now = timezone.now()
    failed = Notification.objects.filter(
        tenant=tenant, notify_by=BUCKET_EVENT, key=key, status=NotificationStatus.FAILURE
    )
    return failed.update(
        status=NotificationStatus.PENDING, attempts=0, error="", due_at=now, asked_again_at=now, swept_at=None,
        ended_at=None,
    )  # fmt: skip


def kick(notification_id: int, *, after_s: float = 0) -> None:
    """Ask a worker to deliver a notification. A lost request is mended by the sweep, a doubled one by the claim."""
    app.send_task("console.outbox.tasks.deliver", [notification_id], countdown=after_s or None, retry=False)


def claim(notification_id: int) -> Notification | None:
    """Take a due notification for this caller alone, also from a sender that died; None when there is nothing to do."""
    now = timezone.now()
    claimed = Notification.objects.filter(_to_send(now), pk=notification_id).update(
        status=NotificationStatus.SENDING, claimed_at=now
    )
    return Notification.objects.select_related("tenant").get(pk=notification_id) if claimed else None


def delivered(notification: Notification, message_id: str) -> None:
    """End a claimed notification whose send was acknowledged."""
    now = timezone.now()
    _claimed(notification).update(
        status=NotificationStatus.SUCCESS,
        message_id=message_id,
        error="",
        attempts=F("attempts") + 1,
        ended_at=now,
        total_time_ms=min(round((now - notification.created_at) / timedelta(milliseconds=1)), _LONGEST_TIME_MS),
    )


def attempt_failed(notification: Notification, reason: str) -> None:
    """Count a failed attempt: another one after a pause, the last one when GIVE_UP_AFTER is over, then the end."""
    now, attempts = timezone.now(), notification.attempts + 1
    last = notification.tried_until
    if now >= last:
        hours = GIVE_UP_AFTER // timedelta(hours=1)
        refuse(notification, f"Not delivered after {attempts} attempts in {hours} hours. {reason}")
        return
    pause = PAUSES[min(attempts, len(PAUSES)) - 1]
    kept = _claimed(notification).update(
        status=NotificationStatus.PENDING,
        attempts=attempts,
        error=reason[:512],
        due_at=min(now + timedelta(seconds=pause), last),
    )
    if kept and pause <= _LONGEST_COUNTDOWN_S:
        kick(notification.pk, after_s=pause + 0.05)


def refuse(notification: Notification, reason: str) -> None:
    """End a claimed notification that cannot be delivered."""
    _claimed(notification).update(
        status=NotificationStatus.FAILURE,
        error=reason[:512],
        attempts=F("attempts") + 1,
        ended_at=timezone.now(),
    )


def send_again(notification: Notification) -> bool:
    """Try a failed notification anew, for as long as a new one; False when it has not failed.

    In the caller's transaction; it is sent once that has committed.
    """
    now = timezone.now()
    found = Notification.objects.filter(pk=notification.pk, status=NotificationStatus.FAILURE).update(
        status=NotificationStatus.PENDING,
        attempts=0,
        error="",
        due_at=now,
        asked_again_at=now,
        swept_at=None,
        ended_at=None,
    )
    if found:
        after_commit(kick, notification.pk)
    return bool(found)


def sweep() -> int:
    """Ask for every notification that is due or whose sender died; returns how many. Mends lost requests."""
    now = timezone.now()
    unasked = Q(swept_at__isnull=True) | Q(swept_at__lt=now - ASKED_AGAIN_AFTER) | Q(swept_at__lt=F("due_at"))
    found = Notification.objects.filter(_to_send(now, late=timedelta(seconds=1)), unasked)
    longest_first = found.order_by(Coalesce("swept_at", "due_at"))
    # Events come by the thousand, and no notice of a statement waits behind them.
    kinds = (longest_first.exclude(notify_by=BUCKET_EVENT), longest_first.filter(notify_by=BUCKET_EVENT))
    waiting = [pk for kind in kinds for pk in kind.values_list("pk", flat=True)[:_SWEPT_AT_ONCE]]
    Notification.objects.filter(pk__in=waiting).update(swept_at=now)
    for notification_id in waiting:
        kick(notification_id)
    return len(waiting)


def _to_send(now: datetime, late: timedelta = timedelta(0)) -> Q:
    """What waits for a sender for longer than `late`, or has one that died."""
    due = Q(status=NotificationStatus.PENDING, due_at__lte=now - late)
    return due | Q(status=NotificationStatus.SENDING, claimed_at__lt=now - SENDER_LOST_AFTER)


def _claimed(notification: Notification) -> QuerySet[Notification]:
    """The row, as long as the claim is still this caller's."""
    return Notification.objects.filter(
        pk=notification.pk, status=NotificationStatus.SENDING, claimed_at=notification.claimed_at
    )
