"""The picture on the first page: the account's own, for who may see trends, and what was done beside it."""

from __future__ import annotations

import html
import time

import pytest
from django.urls import reverse

from console.audit import record as audit
from console.metrics.store import Store, Total
from console.overview import queries
from console.overview.history import picture
from console.topics.live import GroupHour
from tests.support.cast import Cast, make_group

SECOND = 1000


@pytest.fixture
def flowed(cast: Cast) -> None:
    """Of both accounts on one cluster: 20 messages a second, and a backlog that has grown from 100 to 400."""
    now_ms = int(time.time() * SECOND)
    for ago_s, backlog in ((120, 100), (60, 300), (1, 400)):
        of_acme = Total(now_ms - ago_s * SECOND, 200, 150, 3, backlog, 10.0)
        theirs = Total(now_ms - ago_s * SECOND, 9_000, 9_000, 0, 77_000, 10.0)
        Store(cast.cluster.name).add_totals({cast.acme.pk: of_acme, cast.charlies.tenant.pk: theirs})


@pytest.mark.usefixtures("flowed")
def test_it_says_what_it_shows_and_shows_nobody_elses(cast: Cast) -> None:
    part = cast.client("alice").get(reverse("instances.overview_history"), {"span": "1h"}).content.decode()
    assert "20/s in, 15/s out, backlog 400; the largest backlog was 400" in part
    assert "9,000" not in part and "77,000" not in part
    theirs = cast.client("charlie").get(reverse("instances.overview_history")).content.decode()
    assert "backlog 77,000" in theirs


@pytest.mark.usefixtures("flowed")
def test_what_stands_beneath_the_mouse_comes_once_a_mouse_does(cast: Cast) -> None:
    here = reverse("instances.overview_history")
    plain = cast.client("alice").get(here).content.decode()
    assert "history-band" not in plain and "told=1" in plain and "mouseenter once" in plain
    told = html.unescape(cast.client("alice").get(here, {"told": "1"}).content.decode())
    assert "20/s in, 15/s out, backlog 400, 3 died" in told
    assert f'hx-get="{here}?span=1h&compare=&told=1" hx-trigger="every' in told


@pytest.mark.usefixtures("flowed")
def test_the_figures_tell_how_the_backlog_has_changed_and_what_died(cast: Cast) -> None:
    hour = queries.last_hour(cast.actor("alice"))
    assert (hour.backlog_grown, hour.died, hour.in_tps_yesterday) == (300, 9, None)
    assert [value for value in hour.lines["backlog"] if value is not None] == [100, 300, 400]


def test_who_may_not_see_trends_gets_none_of_it(cast: Cast) -> None:
    for page in ("instances.overview_history", "instances.overview_figures"):
        assert cast.client("nora").get(reverse(page)).status_code == 403
    assert 'id="history"' not in cast.client("nora").get("/").content.decode()


@pytest.mark.usefixtures("flowed")
@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({"span": "6h", "compare": "week"}, "span=6h&compare=week"),
        ({"span": "<b>", "compare": "'"}, "span=1h&compare="),
    ],
)
def test_what_one_chose_stays_chosen_and_anything_else_is_the_usual(
    cast: Cast, asked: dict[str, str], kept: str
) -> None:
    part = html.unescape(cast.client("alice").get(reverse("instances.overview_history"), asked).content.decode())
    assert f'{reverse("instances.overview_history")}?{kept}"' in part and "<b>" not in part


@pytest.mark.usefixtures("flowed")
def test_a_reset_stands_in_the_picture_for_who_may_read_the_audit(cast: Cast) -> None:
    audit.record(cast.actor("bob"), "messaging.offset.reset", "GID_<orders>", detail={})
    audit.record(cast.actor("charlie"), "messaging.offset.reset", "GID_theirs", detail={})
    (mark,) = picture(cast.actor("alice"), "1h").marks
    assert mark.text.endswith("offset reset by bob@acme: GID_<orders>") and 0 <= mark.x <= 1000
    assert picture(cast.actor("bob"), "1h").marks == []
    part = cast.client("alice").get(reverse("instances.overview_history")).content.decode()
    assert "GID_&lt;orders&gt;" in part and "GID_<orders>" not in part


def test_where_nothing_was_sampled_it_says_so(cast: Cast) -> None:
    part = cast.client("alice").get(reverse("instances.overview_history")).content.decode()
    assert "No samples in this time" in part and "<svg" not in part and "every 5s" in part


def test_a_group_is_told_to_stand_or_to_fall_behind(cast: Cast) -> None:
    group = make_group(cast.alice, cast.instance)
    hour = GroupHour([0, None, 50, 60, 90, 120, 400], [1.0] * 7)

    def condition(backlog: int, out_tps: float) -> queries.Condition:
        return queries.Behind(group, backlog, out_tps, last_hour=hour).condition

    assert condition(400, 0.0) == queries.Condition.STANDS
    assert condition(400, 5.0) == queries.Condition.BEHIND
    assert condition(40_000, 5.0) == queries.Condition.WELL  # 350 more are little of so many


@pytest.mark.usefixtures("flowed")
@pytest.mark.parametrize(("wire", "shown"), [("MQ_INST_1_x%GID_orders", "GID_orders"), ("orders%late", "orders%late")])
def test_a_mark_names_what_it_is_about_without_its_namespace(cast: Cast, wire: str, shown: str) -> None:
    audit.record(cast.actor("bob"), "messaging.offset.reset", wire, detail={})
    (mark,) = picture(cast.actor("alice"), "1h").marks
    assert mark.text.endswith(f" by bob@acme: {shown}")
