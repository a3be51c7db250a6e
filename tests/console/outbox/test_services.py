"""Claims and ends of notifications."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from console.outbox import services
from console.outbox.models import Notification, NotificationStatus
from tests.console.outbox.conftest import Make
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)


def enqueue(cast: Cast) -> Notification:
    return services.enqueue(tenant=cast.acme, notify_by="ons", topic="t", key="q1", tag="SUCCESS", body="{}")


def test_it_is_sent_once_the_transaction_has_committed(cast: Cast, kicked: list[int]) -> None:
    with transaction.atomic():
        notification = enqueue(cast)
        assert kicked == []
    assert kicked == [notification.pk]


def test_a_transaction_that_fails_notifies_nobody(cast: Cast, kicked: list[int]) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        enqueue(cast)
        raise RuntimeError("no commit")
    assert kicked == []
    assert not Notification.objects.exists()


def test_senders_racing_claim_it_once(make: Make) -> None:
    notification = make()
    start, claims = threading.Barrier(6), []

    def race() -> None:
        start.wait()
        claims.append(services.claim(notification.pk))
        connection.close()

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([c for c in claims if c]) == 1


def test_the_request_lost_between_commit_and_send_is_mended_by_the_sweep(make: Make, kicked: list[int]) -> None:
    notification = make(due_at=timezone.now() - timedelta(seconds=2))
    assert services.sweep() == 1
    assert kicked == [notification.pk]


def test_a_dead_senders_notification_is_claimed_again(make: Make, kicked: list[int]) -> None:
    notification = make()
    first = services.claim(notification.pk)
    assert first is not None
    assert services.claim(notification.pk) is None
    assert services.sweep() == 0
    Notification.objects.update(claimed_at=timezone.now() - timedelta(seconds=16))
    assert services.sweep() == 1
    second = services.claim(notification.pk)
    assert second is not None
    services.delivered(first, "late")
    assert Notification.objects.get().status == NotificationStatus.SENDING
    services.delivered(second, "id")
    assert Notification.objects.get().message_id == "id"


def fail(notification: Notification) -> Notification:
    """An attempt, now, that does not reach the broker."""
    Notification.objects.update(due_at=timezone.now())
    claimed = services.claim(notification.pk)
    assert claimed is not None
    services.attempt_failed(claimed, "No connection.")
    notification.refresh_from_db()
    return notification


def aged(notification: Notification, by: timedelta) -> None:
    """All that happened to it was so long ago."""
    for name in ("created_at", "asked_again_at"):
        if moment := getattr(notification, name):
            Notification.objects.update(**{name: moment - by})


def test_an_outage_of_a_night_is_outlived_with_growing_pauses(make: Make, kicked: list[int]) -> None:
    notification, waited, pauses = make(), timedelta(0), []
    while True:
        notification = fail(notification)
        if notification.status != NotificationStatus.PENDING:
            break
        pause = notification.due_at - timezone.now()
        pauses.append(pause)
        waited += pause
        aged(notification, pause)
    assert timedelta(hours=24) <= waited + timedelta(minutes=1) < timedelta(hours=24, minutes=2)
    assert pauses[:-1] == sorted(pauses[:-1], key=lambda pause: pause // timedelta(seconds=2))
    assert 70 < len(pauses) < 200
    assert notification.status == NotificationStatus.FAILURE
    assert notification.attempts == len(pauses) + 1
    assert notification.error == f"Not delivered after {len(pauses) + 1} attempts in 24 hours. No connection."


def test_a_worker_is_not_told_of_what_is_due_in_minutes(make: Make, kicked: list[int]) -> None:
    notification = make()
    for _ in services.PAUSES:
        notification = fail(notification)
    assert kicked == [notification.pk] * len([pause for pause in services.PAUSES if pause <= 30])


def test_a_failed_one_is_sent_again_for_as_long_as_a_new_one(make: Make, kicked: list[int]) -> None:
    notification = make()
    assert not services.send_again(notification)
    aged(notification, timedelta(days=40))
    assert fail(notification).status == NotificationStatus.FAILURE
    kicked.clear()
    assert services.send_again(notification)
    assert not services.send_again(notification)
    assert kicked == [notification.pk]
    assert fail(notification).status == NotificationStatus.PENDING
    Notification.objects.update(due_at=timezone.now())
    claimed = services.claim(notification.pk)
    assert claimed is not None
    services.delivered(claimed, "id")
    notification.refresh_from_db()
    assert notification.status == NotificationStatus.SUCCESS
    assert notification.total_time_ms == 2**31 - 1


def test_the_sweep_asks_for_each_in_turn_and_not_every_time(make: Make, kicked: list[int]) -> None:
    first = make(due_at=timezone.now() - timedelta(minutes=2))
    assert services.sweep() == 1
    second = make(due_at=timezone.now() - timedelta(minutes=1))
    assert services.sweep() == 1
    assert kicked == [first.pk, second.pk]
    Notification.objects.filter(pk=first.pk).update(swept_at=timezone.now() - services.ASKED_AGAIN_AFTER)
    assert services.sweep() == 1
    assert kicked == [first.pk, second.pk, first.pk]


def test_each_further_attempt_waits_for_its_own_pause(make: Make, kicked: list[int]) -> None:
    notification = make()
    for pause in services.PAUSES:
        Notification.objects.update(due_at=timezone.now())
        claimed = services.claim(notification.pk)
        assert claimed is not None
        before = timezone.now()
        services.attempt_failed(claimed, "No connection.")
        notification.refresh_from_db()
        assert before <= notification.due_at - timedelta(seconds=pause) <= timezone.now()
    assert len(set(services.PAUSES)) == len(services.PAUSES)
    assert list(services.PAUSES) == sorted(services.PAUSES)


def test_a_failed_attempt_pauses(make: Make, kicked: list[int]) -> None:
    claimed = services.claim(make().pk)
    assert claimed is not None
    services.attempt_failed(claimed, "No connection.")
    assert services.claim(claimed.pk) is None
