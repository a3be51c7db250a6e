"""The curves in a browser: a part of them by the mouse, their address, their picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.console.metrics.flowing import Flowing, flowing
from tests.support.broker import eventually
from tests.support.cast import Cast
from tests.support.chromium import visiting


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


@pytest.fixture
def found(cast: Cast) -> Flowing:
    return flowing(cast, 50, waiting=9000)


@pytest.fixture
def page(found: Flowing, cast: Cast, live_server: Any, settings: Any) -> Iterator[Page]:
    """The group's statistics, as Alice sees them in Tokyo."""
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    allowed = ["clipboard-read", "clipboard-write"]
    with visiting(live_server.url, "admin@acme", timezone_id="Asia/Tokyo", permissions=allowed) as page:
        page.goto(reverse("metrics.group", args=[cast.instance.instance_id, found.group.group_id]))
        expect(page.locator("[data-chart] .nsewdrag").first).to_be_visible()
        yield page


@pytest.mark.django_db(transaction=True)
def test_dragging_over_the_curves_asks_for_that_part_of_them(page: Page, found: Flowing) -> None:
    plane = page.locator("[data-chart] .nsewdrag").first.bounding_box()
    assert plane is not None
    middle = plane["y"] + plane["height"] / 2
    page.mouse.move(plane["x"] + plane["width"] * 0.5, middle)
    page.mouse.down()
    page.mouse.move(plane["x"] + plane["width"] * 0.75, middle, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile("begin="))
    asked = parse_qs(urlsplit(page.url).query)
    assert asked["whole"] == ["1h"] and asked["begin"][0].endswith(":00Z")
    rows = page.locator(".curve-table tbody tr")
    assert 14 <= rows.count() <= 17  # a quarter of an hour, in whole minutes
    expect(rows.first).to_contain_text("3")
    page.get_by_role("link", name="Back to the last hour").click()
    page.wait_for_url(re.compile("range=1h"))
    assert 60 <= rows.count() <= 61


@pytest.mark.django_db(transaction=True)
def test_a_view_is_copied_as_a_link_and_saved_as_a_picture(page: Page, found: Flowing) -> None:
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".copied")).to_be_visible()
    asked = parse_qs(urlsplit(page.evaluate("navigator.clipboard.readText()")).query)
    assert asked["end"][0].endswith("Z") and asked["period"] == ["1"] and "range" not in asked
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == f"{found.group.group_id}.png"
    data = Path(download.value.path()).read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) > 20_000


@pytest.mark.django_db(transaction=True)
def test_the_colours_are_those_of_the_theme_and_narrow_screens_show_all(page: Page) -> None:
    line = page.locator("[data-chart] path.js-line").first
    light = line.evaluate("line => getComputedStyle(line).stroke")
    page.evaluate("gantryTheme('dark')")
    expect(line).not_to_have_css("stroke", light)
    page.set_viewport_size({"width": 390, "height": 800})
    eventually(lambda: page.evaluate("document.documentElement.scrollWidth") <= 390)
