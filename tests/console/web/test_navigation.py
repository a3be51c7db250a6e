"""The side navigation and the tabs offer what their pages would not refuse."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.support.cast import Cast, make_topic

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
