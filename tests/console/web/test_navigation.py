"""The side navigation and the tabs offer what their pages would not refuse."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from console.accounts.models import Policy
from tests.support.cast import Cast, make_group, make_topic

ACCOUNT_PAGES = ("accounts.users", "accounts.groups", "accounts.roles", "accounts.policies", "audit.list")


@pytest.mark.parametrize(("who", "offered"), [("alice", True), ("bob", False), ("nora", False)])
def test_pages_of_the_account_are_offered_to_whom_they_let_in(cast: Cast, who: str, offered: bool) -> None:
    page = cast.client(who).get(reverse("accounts.keys")).content.decode()
    assert [f'href="{reverse(name)}"' in page for name in ACCOUNT_PAGES] == [offered] * len(ACCOUNT_PAGES)
    assert [cast.client(who).get(reverse(name)).status_code == 200 for name in ACCOUNT_PAGES] == [offered] * 5


@pytest.mark.parametrize(("who", "offered"), [("alice", True), ("bob", True), ("rita", False)])
def test_publishing_is_offered_to_publishers(cast: Cast, who: str, offered: bool) -> None:
    topic = make_topic(cast.alice, cast.instance)
    where = [cast.instance.instance_id, topic.name]
    page = cast.client(who).get(reverse("topics.detail", args=where)).content.decode()
    assert (reverse("messaging.publish", args=where) in page) == offered


@pytest.mark.parametrize(
    ("url_name", "query", "what"),
    [
        ("metrics.index", {}, "No topic that you may see"),
        ("metrics.index", {"tab": "groups"}, "No group that you may see"),
        ("messaging.dead_letter_index", {}, "No group that you may see"),
    ],
)
def test_lists_of_figures_and_letters_say_so_too(cast: Cast, url_name: str, query: dict[str, str], what: str) -> None:
    make_topic(cast.alice, cast.instance)
    make_group(cast.alice, cast.instance)
    document = {
        "Version": "1",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["mq:QueryInstance", "mq:QueryTrend", "mq:QueryGroup"],
                "Resource": f"acs:mq:*:*:{cast.instance.instance_id}",
            }
        ],
    }
    cast.nora.policies.add(Policy.objects.create(tenant=cast.acme, name="the-instance-alone", document=document))
    page = cast.client("nora").get(reverse(url_name, args=[cast.instance.instance_id]), query).content.decode()
    assert what in page


def test_what_somebody_may_not_see_is_not_said_to_be_none(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    one = Policy.objects.create(
        tenant=cast.acme,
        name="the-instance-alone",
        document={
            "Version": "1",
            "Statement": [{"Effect": "Allow", "Action": "mq:QueryInstance", "Resource": "*"}],
        },
    )
    nora = cast.client("nora")
    overview = nora.get(reverse("instances.overview")).content.decode()
    assert "No instance that you may see" in overview
    assert "No instance yet" not in overview
    cast.nora.policies.add(one)
    topics = nora.get(reverse("topics.list", args=[cast.instance.instance_id])).content.decode()
    assert "No topic that you may see" in topics
    assert "No topic yet" not in topics
    assert "Create topic" not in topics
    # In an account that has none, it is none.
    charlies = reverse("topics.list", args=[cast.charlies.instance_id])
    assert "No topic yet" in cast.client("charlie").get(charlies).content.decode()


@pytest.mark.parametrize(
    ("url_name", "more", "crumbs"),
    [
        ("topics.list", [], []),
        ("topics.detail", ["orders"], ["Topics"]),
        ("messaging.publish", ["orders"], ["Topics"]),
        ("groups.detail", ["GID_orders"], ["Groups"]),
        ("messaging.reset", ["GID_orders"], ["Groups"]),
        ("messaging.dead_letters", ["GID_orders"], ["Dead letters"]),
    ],
)
def test_a_page_says_what_it_is_below_of(cast: Cast, url_name: str, more: list[str], crumbs: list[str]) -> None:
    make_topic(cast.alice, cast.instance)
    make_group(cast.alice, cast.instance)
    page = cast.client("alice").get(reverse(url_name, args=[cast.instance.instance_id, *more])).content.decode()
    found = re.findall(r'<li class="breadcrumb-item"><a href="[^"]+">([^<]+)</a>', page)
    assert found == crumbs
    assert page.count('aria-label="Breadcrumb"') == bool(crumbs)
