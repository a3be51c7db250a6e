"""Writes of the outbox: a notification is committed with what it tells of, then claimed, sent and ended."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from console.accounts.models import Tenant
from console.celery import app
from console.outbox.models import Notification, NotificationStatus

MAX_ATTEMPTS = 3
#: Pause before the second and the third attempt, seconds: the last one comes after a broker has been started again.
PAUSES = (0.5, 20.0)
#: A sender that has not ended a notification for this long is taken for dead; a send times out far earlier.
SENDER_LOST_AFTER = timedelta(seconds=15)


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
    transaction.on_commit(partial(kick, notification.pk), robust=True)
    return notification


def kick(notification_id: int, *, after_s: float = 0) -> None:
    """Ask a worker to deliver a notification. A lost request is mended by the sweep, a doubled one by the claim."""
    app.send_task("console.outbox.tasks.deliver", [notification_id], countdown=after_s or None, retry=False)


def claim(notification_id: int) -> Notification | None:
    """Take a due notification for this caller alone, also from a sender that died; None when there is nothing to do."""
    now = timezone.now()
    due = Q(status=NotificationStatus.PENDING, due_at__lte=now)
    abandoned = Q(status=NotificationStatus.SENDING, claimed_at__lt=now - SENDER_LOST_AFTER)
    claimed = Notification.objects.filter(due | abandoned, pk=notification_id).update(
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
        total_time_ms=round((now - notification.created_at) / timedelta(milliseconds=1)),
    )


def attempt_failed(notification: Notification, reason: str) -> None:
    """Count a failed attempt: another one after a pause, or the end after MAX_ATTEMPTS."""
    attempts = notification.attempts + 1
    if attempts >= MAX_ATTEMPTS:
        refuse(notification, f"Not delivered after {attempts} attempts. {reason}")
        return
    pause = PAUSES[attempts - 1]
    _claimed(notification).update(
        status=NotificationStatus.PENDING,
        attempts=attempts,
        error=reason[:512],
        due_at=timezone.now() + timedelta(seconds=pause),
    )
    kick(notification.pk, after_s=pause + 0.05)


def refuse(notification: Notification, reason: str) -> None:
    """End a claimed notification that cannot be delivered."""
    _claimed(notification).update(
        status=NotificationStatus.FAILURE,
        error=reason[:512],
        attempts=F("attempts") + 1,
        ended_at=timezone.now(),
    )


def sweep() -> int:
    """Ask for every notification that is due or whose sender died; returns how many. Mends lost requests."""
    now = timezone.now()
    due = Q(status=NotificationStatus.PENDING, due_at__lte=now - timedelta(seconds=1))
    abandoned = Q(status=NotificationStatus.SENDING, claimed_at__lt=now - SENDER_LOST_AFTER)
    waiting = list(Notification.objects.filter(due | abandoned).order_by("due_at").values_list("pk", flat=True)[:500])
    for notification_id in waiting:
        kick(notification_id)
    return len(waiting)


def _claimed(notification: Notification) -> QuerySet[Notification]:
    """The row, as long as the claim is still this caller's."""
    return Notification.objects.filter(
        pk=notification.pk, status=NotificationStatus.SENDING, claimed_at=notification.claimed_at
    )
