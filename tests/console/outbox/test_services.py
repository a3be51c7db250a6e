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

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.real]


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


def test_it_ends_after_three_attempts(make: Make, kicked: list[int]) -> None:
    notification = make()
    for attempt in range(services.MAX_ATTEMPTS):
        Notification.objects.update(due_at=timezone.now())
        claimed = services.claim(notification.pk)
        assert claimed is not None, attempt
        services.attempt_failed(claimed, "No connection.")
    notification.refresh_from_db()
    assert notification.status == NotificationStatus.FAILURE
    assert notification.attempts == 3
    assert notification.error == "Not delivered after 3 attempts. No connection."
    assert kicked == [notification.pk] * 2


def test_a_failed_attempt_pauses(make: Make, kicked: list[int]) -> None:
    claimed = services.claim(make().pk)
    assert claimed is not None
    services.attempt_failed(claimed, "No connection.")
    assert services.claim(claimed.pk) is None
