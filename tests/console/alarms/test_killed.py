"""Workers that are killed between finding, telling and delivering, and workers that race: told at least once, keyed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection

from console.alarms import services
from console.alarms.models import Alarm, Condition, Recipient, RecipientKind, Rule
from console.alarms.services import RecipientValues
from console.outbox.models import ALARM, Notification, NotificationStatus
from console.pipelines.models import Kind, Pipeline, State
from tests.console.alarms.conftest import MakeRule
from tests.support.cast import Cast
from tests.support.receivers import receiver
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.broker]

#: A worker: rounds, and what is due delivered. It is killed at the point that it is told, if any.
WORKER = """
import os, signal, sys, django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from django.utils import timezone
from console.alarms import notices, rounds, sending
from console.outbox import services, tasks
from console.outbox.models import Notification

def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

services.kick = lambda *_, **__: None
point = sys.argv[2]
if point == "before it is told":
    rounds._tell = dies
elif point == "before the commit":
    enqueue = notices.enqueue
    notices.enqueue = lambda *arguments: (enqueue(*arguments), dies())
elif point == "after the commit":
    rounds.queries.note_round = dies
elif point == "after it was taken":
    services.delivered = dies
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    rounds.run()
    for pk in Notification.objects.filter(status="PENDING").values_list("pk", flat=True):
        tasks.deliver(pk)
"""


@pytest.fixture
def failed(cast: Cast) -> Pipeline:
    return Pipeline.objects.create(name="late", kind=Kind.JOB, tenant=cast.acme, state=State.FAILED, reason="Gone.")


def worker(redis: RedisServer, point: str = "") -> subprocess.Popen[str]:
    """One that has started and waits for its go."""
    ours = {
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "REDIS_URL": redis.url,
        "GANTRY_MASTER_KEY": django_settings.MASTER_KEY,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(connection.settings_dict["NAME"]), point],
        cwd=django_settings.BASE_DIR,
        text=True,
        env=os.environ | ours,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def to(cast: Cast, url: str) -> Recipient:
    values = RecipientValues(name="hook", kind=RecipientKind.WEBHOOK, address=url)
    return services.create_recipient(actor=cast.actor("alice"), values=values)


@pytest.mark.parametrize("point", ["before it is told", "before the commit", "after the commit", "after it was taken"])
def test_a_killed_worker_loses_no_notice(
    cast: Cast, make_rule: MakeRule, failed: Pipeline, redis: RedisServer, point: str
) -> None:
    with receiver() as taker:
        make_rule(Condition.PIPELINE, recipients=[to(cast, taker.url)])
        killed = worker(redis, point)
        killed.communicate("go\n", timeout=120)
        assert killed.returncode == -signal.SIGKILL
        assert len(taker.pushed) == (point == "after it was taken")
        # What a dead sender holds is another's after a while.
        Notification.objects.filter(status=NotificationStatus.SENDING).update(status=NotificationStatus.PENDING)
        after = worker(redis)
        after.communicate("go\n", timeout=120)
        assert after.returncode == 0
        pushed = list(taker.pushed)
    assert len(pushed) == (2 if point == "after it was taken" else 1)
    alarm = Alarm.objects.get()
    assert {one.headers["x-gantry-request-id"] for one in pushed} == {
        f"alarm-{alarm.pk}-fired-{Recipient.objects.get(name='hook').pk}"
    }
    assert Notification.objects.get(notify_by=ALARM).status == NotificationStatus.SUCCESS


def test_workers_that_race_tell_each_thing_once(cast: Cast, make_rule: MakeRule, redis: RedisServer) -> None:
    for number in range(20):
        Pipeline.objects.create(name=f"p{number}", kind=Kind.JOB, tenant=cast.acme, state=State.FAILED)
    with receiver() as taker:
        make_rule(Condition.PIPELINE, recipients=[to(cast, taker.url)], repeat_minutes=5)
        _race(redis)
        assert len(taker.pushed) == 20
        # It is time to tell all of them again.
        for alarm in Alarm.objects.all():
            assert alarm.told_at is not None
            Alarm.objects.filter(pk=alarm.pk).update(told_at=alarm.told_at - timedelta(minutes=6))
        _race(redis)
        bodies: list[dict[str, Any]] = [json.loads(body) for body in taker.bodies]
        Pipeline.objects.update(state=State.RUNNING)
        _race(redis)
        assert len(taker.pushed) == 60
    assert Alarm.objects.count() == 20
    assert [one["event"] for one in bodies] == ["fired"] * 20 + ["repeated"] * 20
    assert len({one["alarm"] for one in bodies[20:]}) == 20
    assert Rule.objects.get().alarms.filter(ended_at__isnull=False).count() == 20


def _race(redis: RedisServer) -> None:
    workers = [worker(redis) for _ in range(3)]
    for one in workers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in workers:
        one.communicate(timeout=120)
        assert one.returncode == 0
