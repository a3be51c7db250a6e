"""Requests to webhooks through real web servers and the real process that fills logs, which are killed meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from analytics.inflow.event_reader import Reader
from console.accounts.actor import Actor
from console.feeds import queries, services
from console.feeds.models import Arrival, Feed, Kind, Waiting
from tests.inflow.test_tracking import Capturing, alice, capturing
from tests.support import processes
from tests.support.patience import Patience
from tests.support.redis_server import RedisServer
from tests.support.web_server import WebServer, web_server

__all__ = ["alice", "capturing"]
pytestmark = [pytest.mark.process]
WAIT_S, REQUESTS = 40, 60


@pytest.fixture
def hook(alice: Actor) -> Feed:
    return services.keep(
        tenant=alice.tenant, name="orders", holder="inflow-1", kind=Kind.WEBHOOK, told={}, retention_days=7
    )


@pytest.fixture
def servers(redis: RedisServer, alice: Actor) -> Iterator[list[WebServer]]:
    """Two of them on the test's database."""
    database = f"sqlite:///{connection.settings_dict['NAME']}"
    with ExitStack() as stack:
        yield [
            stack.enter_context(web_server(redis, database_url=database, gantry_secret_key=settings.SECRET_KEY))
            for _ in range(2)
        ]


class Sender(threading.Thread):
    """Sends numbered requests, each until it is answered, with the number as the key for sending again."""

    def __init__(self, servers: list[WebServer], token: str, numbers: range) -> None:
        super().__init__(daemon=True)
        self._servers, self._token, self._numbers = servers, token, numbers
        #: IDs by the number, as they were answered.
        self.answered: dict[int, str] = {}
        self.start()

    def run(self) -> None:
        for number in self._numbers:
            patience, turn = Patience(WAIT_S, 0.1), number
            while number not in self.answered and not patience.is_over():
                self._send(self._servers[turn % len(self._servers)], number)
                turn += 1

    def _send(self, server: WebServer, number: int) -> None:
        asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        headers = {"content-type": "application/json", "idempotency-key": str(number)}
        try:
            asked.request("POST", f"/hooks/{self._token}/{number}", json.dumps({"n": number}), headers)
            answer = asked.getresponse()
            if answer.status == 200:
                self.answered[number] = json.loads(answer.read())["id"]
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        finally:
            asked.close()


def status_of(server: WebServer, token: str, size: int) -> int:
    """What a body of so many bytes is answered; one that is not stored."""
    asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    asked.request("POST", f"/hooks/{token}", b"[" * size, {"content-type": "application/json"})
    try:
        return asked.getresponse().status
    finally:
        asked.close()


def kept(feed: Feed) -> list[tuple[str, int]]:
    """ID and number of each event in the log."""
    with Reader(queries.folder_of(feed)) as reader:
        entries = reader.read(0)
    return [(entry.position, json.loads(entry.event)["data"]["body"]["n"]) for entry in entries]


def test_what_was_answered_is_in_the_log_once_whoever_is_killed(
    hook: Feed, servers: list[WebServer], capturing: Capturing
) -> None:
    token = services.renew_token(hook)
    assert [status_of(servers[0], token, size) for size in (1 << 20, (1 << 20) + 1)] == [400, 413]
    capturing.start()
    half = REQUESTS // 2
    senders = [Sender(servers, token, range(half)), Sender(servers, token, range(half, REQUESTS))]
    patience = Patience(WAIT_S, 0.1)
    for reached in (10, 25, 40):
        while sum(len(one.answered) for one in senders) < reached:
            assert not patience.is_over()
            time.sleep(0.02)
        capturing.end(signal.SIGKILL)  # between a row, the log, and the row's end
        Feed.objects.filter(pk=hook.pk).update(heartbeat_at=None)  # as if the lease had ended
        capturing.start()
        if reached == 25:
            for pid in servers[0].pids:
                with suppress(ProcessLookupError):  # what it had started may have ended with it
                    os.kill(pid, signal.SIGKILL)  # amid requests: what it did not answer is sent again
            processes.end(servers[0].process)
    for one in senders:  # each gives a request up by itself
        while one.is_alive():
            one.join(1)
    answered = senders[0].answered | senders[1].answered
    assert sorted(answered) == list(range(REQUESTS))
    while Arrival.objects.exists():
        assert not patience.is_over(), list(Feed.objects.values("code", "sentence"))
        time.sleep(0.1)
    events = kept(hook)
    assert Counter(events) == Counter((identity, number) for number, identity in answered.items())
    for one in senders:  # each sent one after the other, and so they came
        mine = [number for _, number in events if number in one.answered]
        assert mine == sorted(mine)
    assert list(Waiting.objects.values_list("events", "bytes")) == [(0, 0)]
    assert token not in servers[1].log.read_text()


def test_a_schedule_is_sent_by_the_process(alice: Actor, capturing: Capturing) -> None:
    """What was due in the last hour, since nobody was there: each minute once, over a kill of the process."""
    told = {"cron": "* * * * *", "timeZone": "UTC", "event": {"job": "x"}}
    feed = services.keep(
        tenant=alice.tenant, name="late", holder="inflow-2", kind=Kind.SCHEDULE, told=told, retention_days=7
    )
    services.resume(feed)
    feed.refresh_from_db()
    Feed.objects.filter(pk=feed.pk).update(begins_at=feed.begins_at - timedelta(minutes=10))
    capturing.start()
    patience = Patience(WAIT_S, 0.1)
    while queries.range_of(feed).last < 10:
        assert not patience.is_over()
        time.sleep(0.1)
    capturing.end(signal.SIGKILL)
    Feed.objects.filter(pk=feed.pk).update(heartbeat_at=None)
    capturing.start()
    while not (Feed.objects.get(pk=feed.pk).fence == 2 and Feed.objects.get(pk=feed.pk).worker):
        assert not patience.is_over()
        time.sleep(0.1)
    capturing.end()
    with Reader(queries.folder_of(feed)) as reader:
        positions = [entry.position for entry in reader.read(0)]
    assert len(positions) >= 10
    assert positions == sorted(set(positions))
