"""Delivery to a running broker, signed with a temporary key of the role."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis
from django.utils import timezone

from console.accounts.models import AccessKey, Role
from console.outbox import sending, services, tasks
from console.outbox.models import GIVE_UP_AFTER, Notification, NotificationStatus
from tests.console.live import Live
from tests.console.outbox.conftest import Make, group_of, topic_of
from tests.support.broker import BrokerProcess, eventually
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a database of its own, so kept keys of roles would be another test's."""
    monkeypatch.setattr(sending, "_keys", {})


def delivered(notification: Notification) -> Notification:
    tasks.deliver(notification.pk)
    notification.refresh_from_db()
    return notification


def test_a_consumer_receives_it(make: Make, live: Live) -> None:
    notification = delivered(make())
    assert (notification.status, notification.error) == (NotificationStatus.SUCCESS, "")
    got = live.consume(live.group(), topic_of(notification))
    message = eventually(lambda: got and got[0])
    assert (message.keys, message.tags, message.body) == ("q1", "SUCCESS", b'{"id": "q1"}')
    assert message.message_id == notification.message_id
    assert len(notification.message_id) == 32
    assert notification.total_time_ms is not None


def test_it_is_signed_with_a_key_of_the_role(make: Make, role: Role) -> None:
    delivered(make())
    delivered(make())
    assert AccessKey.objects.filter(role=role).count() == 1


def test_on_a_cluster_of_ones_own_it_is_signed_with_the_consoles_key(make: Make, role: Role, cast: Cast) -> None:
    """Brokers with lists of their own know no temporary keys."""
    cast.bring_cluster()
    assert delivered(make()).status == NotificationStatus.SUCCESS
    assert not AccessKey.objects.filter(role=role).exists()


def test_delivered_twice_is_sent_once(make: Make, live: Live) -> None:
    notification = delivered(make())
    tasks.deliver(notification.pk)
    stats = live.admin.topics.stats(topic_of(notification).physical_name)
    assert sum(q.max_offset for q in stats.values()) == 1


def test_after_a_kill_between_commit_and_send_it_is_delivered(make: Make, kicked: list[int]) -> None:
    notification = make()
    assert services.claim(notification.pk)  # the sender dies here
    Notification.objects.update(claimed_at=notification.due_at - services.SENDER_LOST_AFTER)
    services.sweep()
    assert kicked == [notification.pk]
    assert delivered(notification).status == NotificationStatus.SUCCESS


def test_a_wrong_destination_ends_it_at_once(make: Make) -> None:
    notification = delivered(make(topic="nowhere"))
    assert (notification.status, notification.attempts) == (NotificationStatus.FAILURE, 1)
    assert "'nowhere' does not exist" in notification.error


def test_a_broker_that_is_away_is_tried_again(make: Make, live: Live, kicked: list[int]) -> None:
    notification = make()
    cluster = live.instance.cluster
    namesrv, cluster.namesrv = cluster.namesrv, "127.0.0.1:1"
    cluster.save()
    notification.endpoint = f"http://{live.instance.instance_id}"
    notification.save()
    assert delivered(notification).status == NotificationStatus.PENDING
    assert "127.0.0.1:1" in notification.error
    cluster.namesrv = namesrv
    cluster.save()
    Notification.objects.update(due_at=notification.created_at)
    assert delivered(notification).status == NotificationStatus.SUCCESS


def test_the_group_of_the_hint_sends_it(make: Make, live: Live) -> None:
    notification = delivered(make())
    stored = live.admin.messages.query(topic_of(notification).physical_name, "q1")
    assert [m.properties.get("PGROUP", group_of(notification).physical_name) for m in stored] == [
        group_of(notification).physical_name
    ]


def test_after_a_day_of_attempts_in_vain_it_ends_with_the_reason(make: Make, live: Live, kicked: list[int]) -> None:
    notification = make()
    cluster = live.instance.cluster
    cluster.namesrv = "127.0.0.1:1"
    cluster.save()
    Notification.objects.update(endpoint=f"http://{live.instance.instance_id}")
    for age in (timedelta(0), GIVE_UP_AFTER - timedelta(minutes=1), GIVE_UP_AFTER):
        assert notification.status == NotificationStatus.PENDING
        Notification.objects.update(due_at=notification.created_at, created_at=timezone.now() - age)
        notification = delivered(notification)
    assert (notification.status, notification.attempts) == (NotificationStatus.FAILURE, 3)
    assert notification.error.startswith("Not delivered after 3 attempts in 24 hours. ")
    assert "127.0.0.1:1" in notification.error


def test_a_message_that_no_broker_takes_fails_at_once_with_the_reason(make: Make, kicked: list[int]) -> None:
    notification = delivered(make(body="x" * (5 << 20)))
    assert (notification.status, notification.attempts) == (NotificationStatus.FAILURE, 1)
    assert "bytes" in notification.error
    assert kicked == []


@pytest.mark.parametrize("key_was_drawn_before", [True, False])
def test_a_store_that_is_full_is_tried_again(
    make: Make, kicked: list[int], broker: BrokerProcess, key_was_drawn_before: bool
) -> None:
    if key_was_drawn_before:
        delivered(make())
    notification = make()
    with redis.Redis.from_url(broker.redis_url) as store:
        store.config_set("maxmemory", "1mb")
        try:
            notification = delivered(notification)
        finally:
            store.config_set("maxmemory", "0")
    assert (notification.status, notification.attempts) == (NotificationStatus.PENDING, 1)
    assert ("not available" if key_was_drawn_before else "No permission") in notification.error
    Notification.objects.update(due_at=notification.created_at)
    assert delivered(notification).status == NotificationStatus.SUCCESS


def test_an_error_of_ours_is_an_attempt_too(make: Make, kicked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise KeyError("an inner detail")

    monkeypatch.setattr(sending, "send", fail)
    notification = make()
    assert delivered(notification).status == NotificationStatus.PENDING
    Notification.objects.update(due_at=notification.created_at, created_at=timezone.now() - GIVE_UP_AFTER)
    notification = delivered(notification)
    assert notification.status == NotificationStatus.FAILURE
    assert "Internal error" in notification.error
    assert "inner detail" not in notification.error
