"""What is done to many topics and groups at once: the question, each by itself, and nothing for who may not."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from console.audit.models import Entry
from console.topics.models import Group, Topic
from console.web import bulk
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic, on_broker

NAMES = ("orders-1", "orders-2", "payments")


@pytest.fixture
def topics(cast: Cast) -> None:
    for name in NAMES:
        make_topic(cast.alice, cast.instance, name)


def post(cast: Cast, url: str, who: str = "alice", **data: Any) -> tuple[int, str]:
    answer = cast.client(who).post(reverse(url, args=[cast.instance.instance_id]), data)
    body = b"".join(answer) if answer.streaming else answer.content
    return answer.status_code, unescape(body.decode())


def results(page: str) -> list[tuple[str, str]]:
    """Name and state of each row, as a page of results tells them."""
    rows = re.findall(r'<li class="list-group-item bulk-result">.*?</li>', page, re.DOTALL)
    return [tuple(re.sub(r"<[^>]*>", "\t", row).split("\t")[2::2][:2]) for row in rows]  # type: ignore[misc]


def left(page: str) -> str:
    found = re.search(r'name="keys" value="([^"]*)"', page)
    return found[1] if found else ""


@pytest.mark.usefixtures("topics")
def test_the_question_names_what_is_chosen_and_the_deed_wants_their_number(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP_SECONDS", 60.0)  # a slow machine would take two steps
    status, page = post(cast, "topics.delete_many", pick=["orders-1", "payments", "gone"])
    assert status == 200
    assert "Delete 2 topics" in page
    assert '<li class="text-break">orders-1</li>' in page
    assert "orders-2" not in page
    assert "No longer there, or hidden from you: 1" in page
    status, page = post(cast, "topics.delete_many", keys=left(page), confirmed="1", count="2")
    assert status == 422
    assert "Type 3, which is how many you chose." in page
    assert Topic.objects.count() == 3
    status, page = post(cast, "topics.delete_many", keys=left(page).replace("\n", "\r\n"), confirmed="1", count="3")
    assert status == 200
    assert "2 done, 1 failed" in page
    assert "It no longer exists." in page
    assert list(Topic.objects.values_list("name", flat=True)) == ["orders-2"]
    assert not on_broker(cast.cluster) & {cast.instance.physical_name(name) for name in ("orders-1", "payments")}
    entries = Entry.objects.filter(action="topics.topic.delete").values_list("resource", flat=True)
    assert sorted(one.rpartition("%")[2] for one in entries) == ["orders-1", "payments"]


@pytest.mark.usefixtures("topics")
def test_all_that_the_filters_find_are_chosen_over_all_pages(cast: Cast) -> None:
    _, page = post(cast, "topics.delete_many", pick="orders-1", all="1", filters="q=orders&sort=name")
    assert left(page).split("\n") == ["orders-1", "orders-2"]


@pytest.mark.usefixtures("topics")
def test_nothing_chosen_and_too_many_are_refused(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post(cast, "topics.delete_many")[0] == 422
    monkeypatch.setattr(bulk, "MOST", 2)
    status, page = post(cast, "topics.delete_many", pick=list(NAMES))
    assert status == 422
    assert "At most 2 at once" in page


@pytest.mark.usefixtures("topics")
def test_many_are_done_some_at_a_time_with_the_results_of_each_step(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    monkeypatch.setattr(bulk, "STEP_SECONDS", 60.0)
    given = {"keys": "\n".join(NAMES), "perm": "4", "confirmed": "1"}
    status, page = post(cast, "topics.mode_many", **given)
    assert (status, left(page), "2 of 3" in page) == (200, "payments", True)
    assert results(page) == [("orders-1", "done"), ("orders-2", "done")]
    assert set(Topic.objects.values_list("name", "perm")) == {("orders-1", 4), ("orders-2", 4), ("payments", 6)}
    status, page = post(cast, "topics.mode_many", keys=left(page), perm="4", begun="1", done="2", failed="0")
    assert "3 done" in page
    assert "Done." in page
    assert Topic.objects.get(name="payments").perm == 4


@pytest.mark.usefixtures("topics")
def test_the_mode_is_asked_for_and_a_wrong_one_changes_nothing(cast: Cast) -> None:
    _, page = post(cast, "topics.mode_many", pick="orders-1")
    assert 'name="perm"' in page
    status, _ = post(cast, "topics.mode_many", keys="orders-1", confirmed="1", perm="7")
    assert status == 422
    status, _ = post(cast, "topics.mode_many", keys="orders-1", begun="1", perm="7")
    assert status == 422
    assert Topic.objects.get(name="orders-1").perm == 6


@pytest.mark.usefixtures("topics")
def test_who_may_not_is_offered_nothing_told_why_and_refused_each(cast: Cast) -> None:
    listed = reverse("topics.list", args=[cast.instance.instance_id])
    assert 'name="pick"' not in cast.client("rita").get(listed).content.decode()
    page = cast.client("alice").get(listed).content.decode()
    assert re.findall(r'name="pick" value="([^"]*)"', page) == list(NAMES)
    assert "All 3 that the filters find" in page
    status, page = post(cast, "topics.delete_many", "rita", pick=["orders-1"])
    assert status == 200
    assert "There is nothing here that it can be done to." in page
    assert "Left as they are: 1" in page
    assert "Not allowed: " in page
    status, page = post(cast, "topics.delete_many", "rita", keys="orders-1", confirmed="1", count="1")
    assert "0 done, 1 failed" in page
    assert Topic.objects.filter(name="orders-1").exists()
    assert post(cast, "topics.delete_many", "nora", pick="orders-1")[0] == 403
    assert post(cast, "topics.delete_many", "charlie", pick="orders-1")[0] == 404


@pytest.mark.usefixtures("topics")
def test_another_accounts_topic_does_not_exist(cast: Cast) -> None:
    make_topic(cast.charlie, cast.charlies, "secret")
    _, page = post(cast, "topics.delete_many", keys="secret", confirmed="1", count="1")
    assert "It no longer exists." in page
    assert Topic.objects.filter(name="secret").exists()


@pytest.mark.usefixtures("topics")
def test_the_chosen_rows_are_had_as_a_file(cast: Cast) -> None:
    _, file = post(cast, "topics.export_many", pick=["payments"])
    assert [line.split(",")[0] for line in file.splitlines()] == ["topic", "payments"]
    _, file = post(cast, "topics.export_many", pick=["payments"], all="1", filters="q=orders")
    assert [line.split(",")[0] for line in file.splitlines()] == ["topic", "orders-1", "orders-2"]


def test_a_group_with_a_consumer_is_left_and_the_others_are_deleted(live: Live, cast: Cast) -> None:
    topic, busy = live.topic(queues=1), live.group()
    idle = make_group(cast.alice, cast.instance, "GID_idle")
    live.consume(busy, topic)
    keys = f"{busy.group_id}\n{idle.group_id}"
    _, page = post(cast, "groups.delete_many", keys=keys, confirmed="1", count="2")
    assert "1 done, 1 failed" in page
    assert "1 consumers online; stop them first" in page
    assert list(Group.objects.values_list("group_id", flat=True)) == [busy.group_id]


def test_offsets_of_groups_are_reset_in_all_that_they_consume(live: Live, cast: Cast) -> None:
    first, second, group = live.topic(queues=1), live.topic(queues=1), live.group()
    never = make_group(cast.alice, cast.instance, "GID_never")
    got = live.consume(group, first, second)
    for topic in (first, second):
        live.send(topic)
    eventually(lambda: len(got) == 2)
    live.stop_consumers()
    for topic in (first, second):
        live.send(topic)
    keys = f"{group.group_id}\n{never.group_id}"
    status, page = post(cast, "messaging.reset_many", keys=keys, confirmed="1", to="end")
    assert status == 200
    assert "1 done, 1 failed" in page
    assert "It consumes no topic that you see" in page
    backlog = live.admin.groups.stats(group.physical_name).queues.values()
    assert sum(one.broker_offset - one.consumer_offset for one in backlog if one.broker_offset) == 0
    entries = Entry.objects.filter(action="messaging.offset.reset").values_list("detail", flat=True)
    assert {one["topic"] for one in entries} == {first.physical_name, second.physical_name}
    status, page = post(cast, "messaging.reset_many", keys=keys, confirmed="1", to="time")
    assert status == 422
    assert "Choose the time." in page
