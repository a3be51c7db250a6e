"""A webhook and a schedule as sources, from a request and a due time to a message, by the processes of `make up`.

The worker of pipelines is killed between, and neither what came while it was dead nor what it had begun is lost.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from console.feeds import queries as feeds
from console.feeds.models import Feed
from console.inflow import services
from console.pipelines import lifecycle
from console.pipelines.models import Pipeline, State
from tests.console.inflow.conftest import document
from tests.inflow.test_tracking import Capturing, capturing
from tests.inflow.test_worker import arrived
from tests.pipelines.test_worker import WorkerProcess, is_in, start_worker, wait
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, cast, console, make_topic, queues, running_queues
from tests.support.redis_server import RedisServer
from tests.support.web_server import WebServer, web_server

__all__ = ["capturing", "cast", "console", "queues", "running_queues", "start_worker"]
pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
BATCH = {"messages": 10, "interval": 0}


@pytest.fixture
def server(redis: RedisServer) -> Iterator[WebServer]:
    """A web server on the test's database."""
    database = f"sqlite:///{connection.settings_dict['NAME']}"
    with web_server(redis, database_url=database, gantry_secret_key=settings.SECRET_KEY) as found:
        yield found


def made(cast: Cast, name: str, topic: str, source: dict[str, Any]) -> Pipeline:
    """A task that is started, into a topic of its own."""
    make_topic(cast.alice, cast.instance, topic)
    told = document(cast, name=name, source=source | BATCH, pattern={})
    sink = {"topic": topic, "instanceID": cast.instance.instance_id}
    return services.create(actor=cast.actor("alice"), document=told | {"sink": sink})


def post(server: WebServer, path: str, number: int) -> None:
    """A numbered order to a webhook, which has to take it."""
    asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"id": number})
    asked.request("POST", f"{path}/orders", body, {"content-type": "application/json"})
    answer = asked.getresponse()
    assert answer.status == 200, answer.read()
    asked.close()


def test_requests_and_due_times_become_messages_and_a_killed_worker_loses_none(
    cast: Cast,
    broker: BrokerProcess,
    server: WebServer,
    capturing: Capturing,
    start_worker: Callable[..., WorkerProcess],
) -> None:
    hook = made(cast, "orders", "order_requests", {"kind": "webhook"})
    path, _ = services.new_webhook(actor=cast.actor("alice"), pipeline=hook)
    clock = made(cast, "each-minute", "due_times", {"kind": "schedule", "cron": "* * * * *", "event": {"job": "x"}})
    feed = feeds.feed(cast.acme, clock.name)
    assert feed is not None
    # As if it had been saved three minutes ago, and no process had run since.
    Feed.objects.filter(pk=feed.pk).update(begins_at=feed.begins_at - timedelta(minutes=3))

    def orders() -> set[int]:
        return {one["data"]["body"]["id"] for one in arrived(broker, cast, "order_requests")}

    def due() -> list[str]:
        return sorted({one["time"] for one in arrived(broker, cast, "due_times")})

    post(server, path, 1)
    capturing.start()
    first = start_worker()
    wait(lambda: is_in(hook, State.RUNNING) and is_in(clock, State.RUNNING), first)
    wait(lambda: orders() == {1} and len(due()) >= 3, first)
    for number in range(2, 30):
        post(server, path, number)
    first.kill()  # amid them, as likely as not
    for number in range(30, 40):
        post(server, path, number)
    # The lease of a dead worker ends after a while; here it ends at once.
    Pipeline.objects.update(heartbeat_at=timezone.now() - lifecycle.LEASE - timedelta(seconds=1))

    second = start_worker()
    wait(lambda: is_in(hook, State.RUNNING) and is_in(clock, State.RUNNING), second)
    wait(lambda: orders() == set(range(1, 40)), second)
    before = len(due())
    wait(lambda: len(due()) > before, second)  # a minute that passes meanwhile
    found = [datetime.fromisoformat(one) for one in due()]
    assert found == [found[0] + timedelta(minutes=number) for number in range(len(found))], "no minute is missing"
    assert hook.restarts == clock.restarts == 1
    assert path.rsplit("/", 1)[1] not in first.log + second.log + server.log.read_text()
