"""The audit page: filters, paging, and nothing of other accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.audit.models import Entry
from console.audit.services import record
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
