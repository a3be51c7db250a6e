"""Notifications of Alice's account on a running broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.models import Role
from console.outbox import routing, services
from console.outbox.models import Notification
from console.topics.models import Group, Topic
from tests.console.live import Live
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast

TRUSTED: dict[str, object] = {
    "Action": "sts:AssumeRole",
    "Effect": "Allow",
    "Principal": {"Service": ["openanalytics.example"]},
}


@pytest.fixture(autouse=True)
def published_keys(broker: BrokerProcess, settings: Any) -> None:
    """New AccessKeys reach the running broker."""
    settings.REDIS_URL = broker.redis_url


@pytest.fixture
def role(cast: Cast) -> Role:
    """The role of the query service in Alice's account."""
    return accounts.create_role(
        actor=cast.actor("alice"),
        name=routing.ROLE,
        description="",
        trust_policy={"Version": "1", "Statement": [TRUSTED]},
        policies=[policy_documents.system_policy("AliyunMQFullAccess")],
    )


@pytest.fixture
def kicked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notifications that Celery was asked to deliver; it does not run here."""
    asked: list[int] = []

    def kick(notification_id: int, *, after_s: float = 0) -> None:
        asked.append(notification_id)

    monkeypatch.setattr(services, "kick", kick)
    return asked


Make = Callable[..., Notification]


@pytest.fixture
def make(live: Live, cast: Cast, role: Role) -> Make:
    """A notification that can be delivered, with any field changed."""
    topic, group = live.topic(), live.group()

    def notification(**fields: object) -> Notification:
        return Notification.objects.create(
            **{
                "tenant": cast.acme,
                "notify_by": "ons",
                "topic": topic.name,
                "producer_id": group.group_id,
                "endpoint": f"http://{live.instance.instance_id}.localhost",
                "key": "q1",
                "tag": "SUCCESS",
                "body": '{"id": "q1"}',
                "due_at": timezone.now(),
            }
            | fields
        )

    return notification


def topic_of(notification: Notification) -> Topic:
    return Topic.objects.get(name=notification.topic)


def group_of(notification: Notification) -> Group:
    return Group.objects.get(group_id=notification.producer_id)
