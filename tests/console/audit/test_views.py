"""The audit page: filters, paging, and nothing of other accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts.models import Policy
from console.audit import queries
from console.audit.models import Entry
from console.audit.record import record
from console.instances.services import update_instance
from console.web import paging
from tests.console.audit.trail import emptied, entry_at
from tests.support.cast import Cast

URL = "/audit/"


def test_it_shows_the_accounts_own_entries_only(cast: Cast) -> None:
    record(cast.actor("bob"), "topics.topic.create", "ours-1")
    record(cast.actor("charlie"), "topics.topic.create", "theirs-1")
    page = cast.client("alice").get(reverse("audit.list")).content.decode()
    assert "ours-1" in page
    assert "theirs-1" not in page


def test_it_filters_by_text_result_channel_and_day(cast: Cast) -> None:
    emptied()
    actor = cast.actor("bob")
    record(actor, "topics.topic.create", "alpha")
    record(actor, "mq:PUB", "beta", result="refused")
    actor.channel = "api"
    entry_at(datetime(2026, 1, 2, 23, 59, tzinfo=UTC), actor, "topics.topic.delete", "gamma")
    client = cast.client("alice")

    def shown(**query: str) -> set[str]:
        return {row.record.resource for row in client.get(URL, query).context["table"].rows}

    assert shown() == {"alpha", "beta", "gamma"}
    assert shown(q="alph") == {"alpha"}
    assert shown(result="refused") == {"beta"}
    assert shown(channel="api") == {"gamma"}
    assert shown(begin="2026-01-02", end="2026-01-02") == {"gamma"}
    assert shown(begin="2026-01-03") == {"alpha", "beta"}


def test_a_day_is_one_of_the_viewers_zone_and_so_is_a_time(cast: Cast) -> None:
    emptied()
    entry_at(datetime(2026, 1, 2, 23, 30, tzinfo=UTC), cast.actor("bob"), "topics.topic.create", "alpha")
    client = cast.client("alice")

    def page(day: str, zone: str) -> str:
        client.cookies["gantry_zone"] = zone
        return client.get(URL, {"begin": day, "end": day}).content.decode()

    berlin = page("2026-01-03", "Europe/Berlin")
    assert ">2026-01-03 00:30:00<" in berlin
    assert "From (Europe/Berlin)" in berlin
    assert "alpha" not in page("2026-01-02", "Europe/Berlin")
    assert "alpha" not in page("2026-01-03", "Mars/Olympus")
    utc = page("2026-01-02", "Mars/Olympus")
    assert ">2026-01-02 23:30:00<" in utc
    assert "From (UTC)" in utc


def test_an_odd_filter_is_said_and_not_applied(cast: Cast) -> None:
    response = cast.client("alice").get(URL, {"begin": "yesterday", "result": "odd"})
    assert response.status_code == 200
    assert set(response.context["form"].errors) == {"begin", "result"}
    ends = cast.client("alice").get(URL, {"begin": "0001-01-01", "end": "9999-12-31"})
    assert set(ends.context["form"].errors) == {"begin", "end"}


def test_it_finds_what_people_type(cast: Cast) -> None:
    emptied()
    bob = cast.actor("bob")
    record(bob, "topics.topic.delete", "MQ_INST_x%orders")
    record(bob, "topics.topic.create", "MQ_INST_x%orders")
    record(bob, "topics.topic.delete", "MQ_INST_x%paid")
    record(bob, "messaging.offset.reset", "MQ_INST_x%GID_orders")
    record(bob, "accounts.policy.update", "readers")

    def shown(text: str) -> set[tuple[str, str]]:
        rows = cast.client("alice").get(URL, {"q": text}).context["table"].rows
        return {(row.record.action, row.record.resource.rpartition("%")[2]) for row in rows}

    deleted = {("topics.topic.delete", "orders")}
    for text in ("deleted topic orders", "who deleted the topic orders", "orders removed", "deleting Orders by bob"):
        assert shown(text) == deleted, text
    assert shown("created topics") == {("topics.topic.create", "orders")}
    assert shown("reset offsets") == {("messaging.offset.reset", "GID_orders")}
    assert shown("changed policies") == {("accounts.policy.update", "readers")}
    assert shown("deleted topic nothing") == set()
    assert shown("topic.delete") == deleted | {("topics.topic.delete", "paid")}


def test_an_entry_says_what_changed_before_and_after(cast: Cast) -> None:
    instance = cast.instance
    update_instance(actor=cast.actor("alice"), instance=instance, name="renamed", remark="<b>x")
    entry = Entry.objects.filter(action="instances.instance.update").latest("pk")
    page = cast.client("alice").get(reverse("audit.entry", args=[entry.pk])).content.decode()
    table = page.partition("What changed")[2].partition("</table>")[0]
    assert "renamed" in table
    assert entry.detail["before"]["name"] in table
    assert "&lt;b&gt;x" in table


def test_an_end_before_the_start_is_said_on_the_page_and_in_its_part(cast: Cast) -> None:
    turned = {"begin": "2026-01-02T00:00", "end": "2026-01-01T00:00"}
    for headers in ({}, {"HX-Request": "true"}):
        page = cast.client("alice").get(URL, turned, headers=headers).content.decode()
        assert "The end is before the start." in page


def test_it_pages_with_the_same_queries_for_more_rows(cast: Cast) -> None:
    client, actor = cast.client("alice"), cast.actor("bob")
    counts = []
    for number in (3, 70):
        while Entry.objects.filter(tenant=cast.acme).count() < number:
            record(actor, "topics.topic.create", "row")
        client.get(URL)
        with CaptureQueriesContext(connection) as captured:
            client.get(URL)
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert len(client.get(URL, {"page": "2"}).context["table"].page.object_list) >= 20


def test_latest_comes_first(cast: Cast) -> None:
    second = record(cast.actor("bob"), "a", "second")
    entry_at(second.at - timedelta(minutes=1), cast.actor("bob"), "a", "first")
    rows = [row.record.resource for row in cast.client("alice").get(URL, {"q": "bob@acme"}).context["table"].rows]
    assert rows.index("second") < rows.index("first")


def test_it_narrows_to_whole_values_and_to_beginnings(cast: Cast) -> None:
    emptied()
    bob = cast.actor("bob")
    bob.access_key_id, bob.request_id = "LTAI1", "r-1"
    record(bob, "topics.topic.create", "alpha")
    record(cast.actor("rita"), "topics.group.create", "alphabet")
    client = cast.client("alice")

    def shown(**query: str) -> set[str]:
        return {row.record.resource for row in client.get(URL, query).context["table"].rows}

    assert shown(resource="alpha") == {"alpha"}
    assert shown(resource="alpha*") == {"alpha", "alphabet"}
    assert shown(who="rita@acme") == {"alphabet"}
    assert shown(key="LTAI1") == shown(request_id="r-1") == shown(action="topics.topic.*") == {"alpha"}
    assert shown(who="rita@acme", key="LTAI1") == set()


def test_a_range_of_time_has_its_last_minute(cast: Cast) -> None:
    emptied()
    entry_at(datetime(2026, 1, 2, 10, 30, 59, tzinfo=UTC), cast.actor("bob"), "a.b.c", "alpha")
    client = cast.client("alice")
    assert len(client.get(URL, {"begin": "2026-01-02T10:30", "end": "2026-01-02T10:30"}).context["table"].rows) == 1
    assert not client.get(URL, {"begin": "2026-01-02T10:31"}).context["table"].page.object_list
    assert not client.get(URL, {"end": "2026-01-02T10:29"}).context["table"].page.object_list


def test_it_counts_so_far_and_no_further(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MOST_COUNTED", 60)
    for _ in range(70):
        record(cast.actor("bob"), "a.b.c", "row")
    with CaptureQueriesContext(connection) as captured:
        page = cast.client("alice").get(URL).content.decode()
    assert "of 60+" in page
    assert all("LIMIT" in q["sql"] for q in captured if "audit_entry" in q["sql"] and "SELECT" in q["sql"])
    assert cast.client("alice").get(URL, {"page": "99"}).context["table"].page.number == 2


def test_the_page_of_an_entry_shows_all_of_it_harmlessly(cast: Cast) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    entry = record(cast.actor("bob"), "topics.topic.create", hostile, detail={"name": hostile, "secret": "s3cr3t"})
    page = cast.client("alice").get(reverse("audit.entry", args=[entry.pk])).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "s3cr3t" not in page
    assert cast.client("charlie").get(reverse("audit.entry", args=[entry.pk])).status_code == 404


def test_a_role_that_may_read_the_trail_reads_it(cast: Cast) -> None:
    document = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "actiontrail:Read", "Resource": "*"}],
    }
    policy = Policy.objects.create(tenant=cast.acme, name="auditor", document=document)
    cast.nora.policies.add(policy)
    assert cast.client("nora").get(URL).status_code == 200
    assert cast.client("rita").get(URL).status_code == 403


def test_the_platform_sees_every_trail_and_can_narrow_to_one_account(cast: Cast) -> None:
    record(cast.actor("bob"), "a.b.c", "ours")
    record(cast.actor("charlie"), "a.b.c", "theirs")
    url, client = reverse("platform.audit"), cast.client("petra")
    assert {"ours", "theirs"} <= {r.record.resource for r in client.get(url, {"action": "a.b.c"}).context["table"].rows}
    for account in ("umbrella", cast.charlies.tenant.uid):
        rows = client.get(url, {"account": account, "action": "a.b.c"}).context["table"].rows
        assert {r.record.resource for r in rows} == {"theirs"}


def test_a_search_reads_so_many_entries_and_no_more(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "SEARCHED", 3)
    emptied()
    for number in range(5):
        record(cast.actor("bob"), "a.b.c", f"row-{number}")

    def shown(**query: str) -> set[str]:
        return {r.record.resource for r in cast.client("alice").get(URL, query).context["table"].rows}

    assert shown(q="row-") == {"row-2", "row-3", "row-4"}
    assert shown(q="row-", resource="row-0") == {"row-0"}


@pytest.mark.parametrize("column", ["actor", "action", "result", "resource", "access_key_id", "request_id"])
def test_an_exact_filter_is_answered_by_an_index_that_also_sorts(cast: Cast, column: str) -> None:
    found = Entry.objects.filter(tenant=cast.acme, **{column: "x"})[:50]
    plan = found.explain()
    if connection.vendor == "sqlite":
        assert f"tenant_id=? AND {column}=?" in plan
        assert "TEMP B-TREE" not in plan
