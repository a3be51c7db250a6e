"""Lists of topics and groups sorted by figures: the most first, over all pages, of what the visitor may see."""

from __future__ import annotations

import re
import time

import pytest
from django.urls import reverse

from console.metrics.store import Change, Latest, Store
from tests.support.cast import Cast, make_group, make_topic

NUMBER = 45  # three pages


@pytest.fixture
def figures(cast: Cast) -> None:
    """Topic `topic-NN` holds NN messages and gets NN/10/s, group `GID_NN` is NN behind; of the last none is known."""
    change = Change(Latest(int(time.time() * 1000), 10.0, ["broker-a"], []))
    for n in range(NUMBER):
        topic = make_topic(cast.alice, cast.instance, f"topic-{n:02}")
        group = make_group(cast.alice, cast.instance, f"GID_{n:02}")
        if n < NUMBER - 1:
            change.stored[topic.physical_name] = n
            change.stored[f"%DLQ%{group.physical_name}"] = NUMBER - n
            change.in_rates[topic.physical_name] = n / 10
            change.backlog[group.physical_name] = n
            change.counts[f"in:{topic.physical_name}"] = (n, 10.0)
    store = Store(cast.cluster.name)
    with store.lease() as token:
        assert store.commit(token, change)


def names(cast: Cast, url: str, **query: str | int | list[str]) -> list[str]:
    found = cast.client("alice").get(reverse(url, args=[cast.instance.instance_id]), query)
    assert found.status_code == 200
    shown = found.content.decode().partition('id="results"')[2]
    return list(dict.fromkeys(re.findall(r">(topic-\d\d|GID_\d\d)<", shown)))


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize(
    ("page", "extra", "column", "prefix"),
    [
        ("topics.list", {}, "stored", "topic-"), ("topics.list", {}, "in_tps", "topic-"),
        ("groups.list", {}, "backlog", "GID_"), ("metrics.index", {}, "in_tps", "topic-"),
        ("metrics.index", {"tab": "groups"}, "backlog", "GID_"),
    ],
)  # fmt: skip
def test_the_most_comes_first_and_what_is_not_known_last(
    cast: Cast, page: str, extra: dict[str, str], column: str, prefix: str
) -> None:
    assert names(cast, page, sort=f"-{column}", **extra)[:2] == [f"{prefix}43", f"{prefix}42"]
    assert names(cast, page, sort=f"-{column}", page=3, **extra)[-1] == f"{prefix}44"
    assert names(cast, page, sort=f"-{column}", q="4", **extra)[:3] == [f"{prefix}43", f"{prefix}42", f"{prefix}41"]


@pytest.mark.usefixtures("figures")
def test_dead_letters_sort_and_a_second_column_that_is_no_figure_does_no_harm(cast: Cast) -> None:
    assert names(cast, "groups.list", sort="-dead_letters")[:2] == ["GID_00", "GID_01"]
    assert names(cast, "groups.list", sort=["group_id", "-dead_letters"])[:2] == ["GID_00", "GID_01"]
    assert names(cast, "topics.list", sort="-created_at")[0].startswith("topic-")


@pytest.mark.usefixtures("figures")
def test_a_figure_sorts_downwards_at_the_first_click_and_has_its_last_hour_beside_it(cast: Cast) -> None:
    page = cast.client("alice").get(reverse("topics.list", args=[cast.instance.instance_id])).content.decode()
    assert "sort=-stored" in page and "sort=queues" in page
    assert page.count('class="spark-line"') == 20
    sorted_down = cast.client("alice").get(
        reverse("topics.list", args=[cast.instance.instance_id]), {"sort": "-stored"}
    )
    assert 'aria-sort="descending"' in sorted_down.content.decode()


@pytest.mark.usefixtures("figures")
def test_who_sees_some_topics_sees_these_alone_sorted(cast: Cast) -> None:
    all_of_them = names(cast, "topics.list", sort="-stored")
    found = cast.client("charlie").get(reverse("topics.list", args=[cast.instance.instance_id]), {"sort": "-stored"})
    assert all_of_them and found.status_code == 404
    assert "topic-43" not in found.content.decode()
