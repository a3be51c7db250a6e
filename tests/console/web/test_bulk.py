"""Choosing rows of a list in a browser: with keys, by the head, over all pages, on a phone, and without scripts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, ViewportSize, expect

from console.topics.models import Topic
from console.web import bulk
from tests.support.cast import Cast, make_topic
from tests.support.chromium import visiting

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = ViewportSize(width=390, height=844)


@pytest.fixture
def listed(cast: Cast, settings: Any) -> str:
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    for number in range(6):
        make_topic(cast.alice, cast.instance, f"orders-{number}")
    return reverse("topics.list", args=[cast.instance.instance_id])


def left() -> list[str]:
    return list(Topic.objects.order_by("name").values_list("name", flat=True))


def test_rows_are_chosen_with_keys_and_their_number_is_said(
    listed: str, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    monkeypatch.setattr(bulk, "STEP_SECONDS", 60.0)
    with visiting(live_server.url) as page:
        page.goto(listed)
        bar = page.get_by_role("form", name="What to do with the chosen rows")
        expect(bar).to_be_hidden()
        page.get_by_role("checkbox", name="Choose orders-1").focus()
        page.keyboard.press("Space")
        expect(bar.get_by_role("status")).to_have_text("1")
        head = page.get_by_role("checkbox", name="Choose all on this page")
        assert head.evaluate("e => e.indeterminate")
        head.check()
        expect(bar.get_by_role("status")).to_have_text("6")
        page.get_by_role("checkbox", name="Choose orders-0").uncheck()
        expect(bar.get_by_role("status")).to_have_text("5")
        _ask_again(page)
        expect(bar.get_by_role("status")).to_have_text("5")
        expect(page.get_by_role("checkbox", name="Choose orders-0")).not_to_be_checked()
        bar.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", name="Delete 5 topics")).to_be_visible()
        page.get_by_label("which is how many you chose").fill("5")
        page.get_by_role("button", name="Delete 5 topics").click()
        # Two a step: the page goes on by itself, and keeps the results of the steps before.
        expect(page.get_by_role("status").filter(has_text="5 done")).to_be_visible()
        expect(page.get_by_role("list", name="Results").get_by_role("listitem")).to_have_count(5)
        expect(page.get_by_text("Done.")).to_be_visible()
        page.get_by_role("link", name="Back to the list").click()
        expect(page.get_by_role("link", name="orders-0", exact=True)).to_be_visible()
    assert left() == ["orders-0"]


def _ask_again(page: Page) -> None:
    """What the page does every 15 seconds."""
    with page.expect_response(re.compile("/topics/")):
        page.evaluate("htmx.ajax('GET', location.pathname, {source: document.getElementById('results')})")


def test_all_that_the_filters_find_are_chosen_on_a_phone(listed: str, live_server: Any, cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "payments")
    with visiting(live_server.url, viewport=PHONE) as page:
        page.goto(f"{listed}?q=orders")
        box = page.get_by_role("checkbox", name="Choose orders-2")
        box.check()
        place = box.bounding_box()
        assert place and place["x"] > 300, "beside the name of the card"
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        page.get_by_label("All 6 that the filters find").check()
        expect(page.locator("[data-bulk-count]", has_text="6")).to_be_visible()
        page.get_by_role("button", name="Set mode").click()
        page.get_by_label("Mode").select_option("4")
        page.get_by_role("button", name="Set the mode of 6 topics").click()
        expect(page.get_by_role("status").filter(has_text="6 done")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert set(Topic.objects.filter(perm=4).values_list("name", flat=True)) == {f"orders-{n}" for n in range(6)}


def test_it_works_without_scripts(listed: str, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    monkeypatch.setattr(bulk, "STEP_SECONDS", 60.0)
    with visiting(live_server.url, scripts=False) as page:
        page.goto(listed)
        for number in (0, 1, 2):
            page.get_by_role("checkbox", name=f"Choose orders-{number}").check()
        page.get_by_role("button", name="Delete").click()
        page.get_by_label("which is how many you chose").fill("3")
        page.get_by_role("button", name="Delete 3 topics").click()
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_text("3 done")).to_be_visible()
    assert left() == ["orders-3", "orders-4", "orders-5"]
