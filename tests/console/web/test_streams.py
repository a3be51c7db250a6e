"""One stream a page: who may have one, what it says and when, what it holds, and when it ends."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from console import request_limits
from console.web import streams
from console.web.streams import OF_A_SESSION, Streams
from tests.support.cast import Cast, make_group, make_topic
from tests.support.product import eventually
from tests.support.streams import Site, site

pytestmark = pytest.mark.django_db(transaction=True)
TASKS, ATTENTION, FIGURES = "/overview/tasks", "/overview/attention", "/overview/figures"


@pytest.fixture
def open_streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    """Streams of a process of their own."""
    fresh = Streams()
    monkeypatch.setattr("console.web.views.streams", fresh)
    return fresh


@pytest.fixture
def server(cast: Cast, open_streams: Streams) -> Iterator[Site]:
    with site() as running:
        yield running
    assert len(open_streams) == 0


def topics_of(cast: Cast) -> str:
    return reverse("topics.list", args=[cast.instance.instance_id])


def test_a_part_comes_when_it_says_something_new_and_never_twice(cast: Cast, server: Site) -> None:
    make_topic(cast.alice, cast.instance, "first")
    listener = server.listen(cast.client("alice"), topics_of(cast))
    assert listener.begins() == 200
    listener.hears("open")
    part = listener.hears("part")
    assert part["path"] == topics_of(cast)
    assert "first" in part["html"]
    assert 'id="results"' in part["html"]
    assert "<html" not in part["html"]
    # The page says 15 s itself, whatever the browser had asked for.
    assert listener.is_told_nothing(3)


def test_a_mark_that_is_still_right_is_answered_with_silence(cast: Cast, server: Site) -> None:
    alice = cast.client("alice")
    mark = alice.get(ATTENTION, headers={"HX-Request": "true", "X-Gantry-Live": "none"})["X-Gantry-Live"]
    listener = server.listen(alice, now=False)
    assert listener.begins() == 204
    query = [("part", f"1 {mark} {ATTENTION}"), ("now", "")]
    from tests.support.streams import Listener

    listener = Listener(server, alice, query, gzip=False, takes=True)
    server.listeners.append(listener)
    listener.hears("open")
    assert listener.is_told_nothing(3)


def test_what_a_stream_may_ask_is_marked_and_nothing_else_is(cast: Cast, server: Site) -> None:
    for path in ("/", "/nothing-here", "/account/logout/", "/instances/", "//overview/tasks", "https://example.com/"):
        listener = server.listen(cast.client("alice"), path)
        assert (listener.begins(), listener.headers["retry-after"]) == (204, "60"), path
    listener = server.listen(cast.client("alice"), "/instances/", TASKS)
    listener.hears("open")
    assert listener.hears("part")["path"] == TASKS


def test_nobody_gets_a_stream_without_a_session(cast: Cast, server: Site) -> None:
    listener = server.listen(cast.client("anonymous"), TASKS)
    assert listener.begins() == 200
    assert listener.headers["hx-redirect"].startswith("/account/login/")
    assert listener.ended.wait(30)


def test_another_account_and_who_has_no_right_are_shown_nothing(cast: Cast, server: Site) -> None:
    for who in ("charlie", "nora"):
        listener = server.listen(cast.client(who), topics_of(cast))
        listener.hears("open")
        refused = listener.hears("refused")
        assert set(refused) == {"path", "reason"}
        assert refused["reason"]
        assert listener.ended.wait(30), "no part is left"


def test_a_right_that_is_taken_away_closes_what_it_showed(
    cast: Cast, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_S", 1.0)
    make_topic(cast.alice, cast.instance, "secret")
    listener = server.listen(cast.client("rita"), topics_of(cast))
    listener.hears("open")
    assert "secret" in listener.hears("part")["html"]
    cast.rita.policies.clear()
    refused = listener.hears("refused")
    assert refused["path"] == topics_of(cast)
    assert "mq:" in refused["reason"]
    assert listener.ended.wait(30)


@pytest.mark.parametrize("how", ["session", "disabled"])
def test_who_is_signed_out_is_led_to_the_sign_in(
    cast: Cast, server: Site, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(streams, "LONGEST_S", 1.0)
    listener = server.listen(cast.client("bob"), TASKS)
    listener.hears("open")
    listener.hears("part")
    if how == "session":
        Session.objects.all().delete()
    else:
        type(cast.bob).objects.filter(pk=cast.bob.pk).update(is_active=False)
    assert listener.hears("redirect")["to"].startswith("/account/login/")
    assert listener.ended.wait(30)


def test_an_outage_is_told_once_and_the_part_comes_back(
    cast: Cast, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_S", 1.0)
    group = make_group(cast.alice, cast.instance)
    cluster, where = cast.cluster, cast.cluster.namesrv
    listener = server.listen(
        cast.client("alice"), reverse("messaging.status", args=[cast.instance.instance_id, group.group_id])
    )
    listener.hears("open")
    listener.hears("part")
    type(cluster).objects.filter(pk=cluster.pk).update(namesrv="127.0.0.1:9")
    outage = listener.hears("outage")
    assert "does not answer" in outage["html"]
    time.sleep(2)
    type(cluster).objects.filter(pk=cluster.pk).update(namesrv=where)
    assert 'id="status"' in listener.hears("part")["html"]


def test_a_session_has_so_many_streams_and_an_account_half_of_all(
    cast: Cast, server: Site, settings: Any, open_streams: Streams
) -> None:
    settings.WEB_STREAMS = 12
    of_alice = [server.listen(cast.client("alice"), TASKS) for _ in range(OF_A_SESSION)]
    assert [one.begins() for one in of_alice] == [200] * OF_A_SESSION
    assert server.listen(cast.client("alice"), TASKS).begins() == 204
    of_bob = [server.listen(cast.client("bob"), TASKS).begins() for _ in range(3)]
    assert of_bob == [200, 200, 204], "six of twelve are the account's"
    charlies = [server.listen(cast.client("charlie"), TASKS) for _ in range(OF_A_SESSION)]
    assert [one.begins() for one in charlies] == [200] * OF_A_SESSION
    assert len(open_streams) == 10
    of_alice[0].leave()
    assert server.listen(cast.client("alice"), TASKS).begins() == 200
    settings.WEB_STREAMS = 0
    assert server.listen(cast.client("petra"), TASKS).begins() == 204


def test_a_stream_at_rest_holds_no_place_and_no_thread(
    cast: Cast, server: Site, open_streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "OF_A_SESSION", 100)
    server.listen(cast.client("alice"), TASKS).hears("open")
    threads = threading.active_count()
    for _ in range(30):
        server.listen(cast.client("alice"), TASKS, every=300, now=False).hears("open")
    assert len(open_streams) == 31
    eventually(lambda: server.held() == 0, what="no place is held")
    eventually(lambda: threading.active_count() <= threads + 2, what="no thread for each stream")


def test_so_many_streams_of_an_account_ask_at_a_time(cast: Cast, server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others would stand before the account's requests, which are refused once too many wait."""
    asking, most = 0, 0
    may_end = asyncio.Event()

    async def until_told(_scope: object, parts: list[streams.Part], *_: object) -> list[streams.Event]:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await may_end.wait()
        asking -= 1
        for one in parts:
            one.asked(time.monotonic(), 0.0)
        return []

    monkeypatch.setattr(streams, "OF_A_SESSION", 100)
    monkeypatch.setattr(streams, "ask", until_told)
    for _ in range(20):
        server.listen(cast.client("alice"), TASKS).hears("open")
    eventually(lambda: most >= streams.TOGETHER, what="as many ask as may")
    time.sleep(1)  # in which one more would ask
    server.loop.call_soon_threadsafe(may_end.set)
    assert most == streams.TOGETHER


def test_who_takes_nothing_is_dropped(
    cast: Cast, server: Site, open_streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limits, "WRITE_S", 0.5)
    listener = server.listen(cast.client("alice"), TASKS, takes=False)
    listener.hears("open")
    assert listener.ended.wait(30)
    assert len(open_streams) == 0


def test_all_end_when_the_server_stops_and_when_they_have_lasted_long(
    cast: Cast, server: Site, open_streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LIFE_S", 2.0)
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.5)
    short = server.listen(cast.client("alice"), TASKS, every=300, now=False)
    short.hears("open")
    short.hears("rest")
    assert short.ended.wait(30)
    monkeypatch.setattr(streams, "LIFE_S", 600.0)
    long = server.listen(cast.client("alice"), TASKS, every=300, now=False)
    long.hears("open")
    server.loop.call_soon_threadsafe(open_streams.end)
    assert long.ended.wait(5)
    assert server.listen(cast.client("alice"), TASKS).begins() == 204


def test_what_stays_the_same_costs_next_to_nothing_the_second_time(
    cast: Cast, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_S", 1.0)
    for number in range(10):
        make_topic(cast.alice, cast.instance, f"topic-{number}")
    listener = server.listen(cast.client("alice"), topics_of(cast), gzip=True)
    listener.hears("open")
    assert listener.headers["content-encoding"] == "gzip"
    assert "no-transform" in listener.headers["cache-control"]
    listener.hears("part")
    first = listener.size
    make_topic(cast.alice, cast.instance, "topic-new")
    assert "topic-new" in listener.hears("part")["html"]
    assert listener.size - first < first / 3


def live_views() -> Iterator[str]:
    """The names of the URLs whose views are marked."""

    def walk(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
        for one in patterns:
            if isinstance(one, URLResolver):
                yield from walk(one.url_patterns)
            elif getattr(one.callback, "is_live_part", False):
                yield one.name or ""

    return walk(get_resolver().url_patterns)


def test_each_part_that_asks_by_itself_can_be_streamed(cast: Cast, world: dict[str, str]) -> None:
    """Else a page would fall back to asking, and nobody would notice."""
    from tests.console.web.matrix import MATRIX

    seen, left = set(), {}
    marked = set(live_views())
    for row in MATRIX:
        if row.method != "get" or row.expected.alice != 200 or row.url_name == "account_logout":
            continue
        url = reverse(row.url_name, args=[world.get(argument, argument) for argument in row.arguments])
        response = cast.client("alice").get(url, {key: world.get(value, value) for key, value in row.data.items()})
        if response.streaming or "text/html" not in response["Content-Type"]:
            continue
        for tag in re.findall(r"<[^>]*hx-trigger=\"every[^>]*>", response.content.decode()):
            if 'hx-swap="morph' in tag:
                path = re.search(r'hx-get="([^"?]*)', tag)[1]  # type: ignore[index]
                from django.urls import resolve

                name = resolve(path).view_name
                seen.add(name)
                if name not in marked:
                    left[row.url_name] = name
    assert left == {}
    assert len(seen) >= 15, seen


def test_the_page_tells_where_its_stream_is(cast: Cast) -> None:
    assert 'data-live="/live"' in cast.client("alice").get("/").content.decode()
    assert reverse("live") == streams.PATH
    assert "/live" not in Path("static/js/stream.js").read_text().replace("gantryLive", "")
