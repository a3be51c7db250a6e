"""Lists as CSV files: exactly the rows of the list, in its order, harmless in a spreadsheet, and audited."""

from __future__ import annotations

import csv
import io
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.urls import reverse

from console.accounts import downloads
from console.audit.models import Entry
from console.metrics.store import Change, Latest, Store
from console.sql.models import QueryTask
from console.topics.models import Group, Topic
from tests.support.cast import Cast, make_group, make_topic


def file_of(cast: Cast, url: str, name: str = "alice", **query: str) -> list[dict[str, str]]:
    of_instance = url.startswith(("topics.", "groups."))
    address = reverse(url, args=[cast.instance.instance_id] if of_instance else [])
    answer: Any = cast.client(name).get(address, {"as": "csv", **query})
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/csv; charset=utf-8" and "attachment" in answer["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode(), newline="")))


@pytest.fixture
def figures(cast: Cast) -> None:
    """Of `topic-N`, N of 0 to 24, N messages are stored; group `GID_N` is N behind; of the last none is known."""
    change = Change(Latest(int(time.time() * 1000), 10.0, ["broker-a"], []))
    for n in range(25):
        topic, group = (
            make_topic(cast.alice, cast.instance, f"topic-{n}"),
            make_group(cast.alice, cast.instance, f"GID_{n}"),
        )
        if n < 24:
            change.stored[topic.physical_name] = n
            change.in_rates[topic.physical_name] = n / 10
            change.backlog[group.physical_name] = n
    with Store(cast.cluster.name).lease() as token:
        assert Store(cast.cluster.name).commit(token, change)


@pytest.mark.usefixtures("figures")
def test_a_file_has_the_rows_of_all_pages_that_the_filter_finds_in_the_order_of_the_list(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_AT_ONCE", 7)
    rows = file_of(cast, "topics.list")
    assert [row["topic"] for row in rows] == sorted(f"topic-{n}" for n in range(25))
    assert {row["message_type"] for row in rows} == {"Normal"} and rows[0]["created_at"].endswith("Z")
    rows = file_of(cast, "topics.list", sort="-stored", q="topic-2", page="2")
    assert [(row["topic"], row["stored"]) for row in rows] == [
        ("topic-23", "23"), ("topic-22", "22"), ("topic-21", "21"), ("topic-20", "20"), ("topic-2", "2"),
        ("topic-24", ""),
    ]  # fmt: skip
    rows = file_of(cast, "groups.list", sort="-backlog")
    assert [row["backlog"] for row in rows] == [str(n) for n in range(23, -1, -1)] + [""]
    del rows[0]["created_at"], rows[0]["out_messages_per_second"]
    assert rows[0] == {
        "group": "GID_23", "remark": "", "consumption": "Enabled", "used_by": "All users", "backlog": "23",
        "dead_letters": "0",
    }  # fmt: skip


def test_who_may_see_some_rows_gets_these_in_the_file(cast: Cast) -> None:
    for name in ("GID_mine", "GID_theirs"):
        make_group(cast.alice, cast.instance, name, shared=False)
    Group.objects.filter(group_id="GID_mine").update(creator=cast.bob)
    assert {row["group"] for row in file_of(cast, "groups.list", "bob")} == {"GID_mine"}
    assert {row["group"] for row in file_of(cast, "groups.list")} == {"GID_mine", "GID_theirs"}
    refused = cast.client("charlie").get(reverse("groups.list", args=[cast.instance.instance_id]), {"as": "csv"})
    assert refused.status_code == 404
    assert cast.client("nora").get(reverse("accounts.users"), {"as": "csv"}).status_code == 403


@pytest.mark.parametrize("remark", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_is_a_formula(cast: Cast, remark: str) -> None:
    make_topic(cast.alice, cast.instance, "orders")
    Topic.objects.update(remark=remark)
    assert file_of(cast, "topics.list")[0]["remark"] == f"'{remark}"


@pytest.mark.parametrize("sort", ["topic-name", "-stored"])
def test_a_file_ends_with_a_line_that_says_that_there_are_more(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(downloads, "MOST", 5)
    monkeypatch.setattr(downloads, "_AT_ONCE", 2)
    for n in range(5):
        make_topic(cast.alice, cast.instance, f"topic-{n}")
    assert len(file_of(cast, "topics.list", sort=sort)) == 5
    make_topic(cast.alice, cast.instance, "topic-5")
    *rows, last = file_of(cast, "topics.list", sort=sort)
    assert len(rows) == 5
    assert last["topic"] == "There are more rows: a file has the first 5. Filter the list to get the others."


def test_taking_a_list_away_is_in_the_trail(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "orders")
    file_of(cast, "topics.list", "bob", q="ord", sort="-stored", page="3")
    entry = Entry.objects.get(action="topics.topic.export")
    assert (entry.actor, entry.resource) == ("bob@acme", cast.instance.instance_id)
    assert entry.detail == {"format": "csv", "filters": {"q": "ord", "sort": "-stored"}}


def test_instances_users_tasks_and_jobs_have_files_too(cast: Cast) -> None:
    (row,) = file_of(cast, "instances.list")
    assert (row["instance_id"], row["topics"], row["cluster"]) == (cast.instance.instance_id, "0", cast.cluster.name)
    users = {row["user"]: row for row in file_of(cast, "accounts.users")}
    assert users["admin@acme"]["policies"] == "everything in the account"
    assert (users["bob@acme"]["second_factor"], users["bob@acme"]["sign_in"]) == ("none", "enabled")
    QueryTask.objects.create(
        id="task-1", tenant=cast.acme, creator=cast.alice, submitter="admin", table_schema="shop",
        command="/*+ x */ SELECT 1", statement="SELECT 1", task_name="export",
    )  # fmt: skip
    (row,) = file_of(cast, "sql.tasks")
    assert (row["task_id"], row["statement"], row["status"], row["rows"]) == ("task-1", "SELECT 1", "QUEUED", "")
    assert file_of(cast, "jobs.list") == []


@pytest.mark.django_db(transaction=True)
def test_an_asynchronous_server_streams_it(cast: Cast) -> None:
    """A plain iterator would be collected as a whole first, which Django warns of; warnings are errors here."""
    make_topic(cast.alice, cast.instance, "orders")
    client = AsyncClient()
    client.cookies = cast.client("alice").cookies

    async def fetched() -> str:
        response: Any = await client.get(reverse("topics.list", args=[cast.instance.instance_id]), {"as": "csv"})
        return b"".join([part async for part in response.streaming_content]).decode()

    assert "orders" in async_to_sync(fetched)()
