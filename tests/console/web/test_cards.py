"""Lists on a phone: a card for each row, which those who hear it still hear as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, ViewportSize, expect

from tests.support.cast import Cast, make_topic
from tests.support.chromium import visiting

PHONE, TABLET = ViewportSize(width=390, height=844), ViewportSize(width=900, height=900)
LABELS = """cells => cells.map(cell => [getComputedStyle(cell, "::before").content.split(" / ")[0],
                                        Math.round(cell.getBoundingClientRect().top)])"""

ENDS = """cells => cells.map(cell => { const range = document.createRange(); range.selectNodeContents(cell);
                                       return Math.round(range.getBoundingClientRect().right); })"""


@pytest.fixture
def page(cast: Cast, live_server: Any, settings: Any) -> Iterator[Page]:
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    make_topic(cast.alice, cast.instance, "orders")
    make_topic(cast.alice, cast.instance, "a-name-as-long-as-names-may-be-" + "x" * 60)
    with visiting(live_server.url, viewport=PHONE) as page:
        page.goto(reverse("topics.list", args=[cast.instance.instance_id]))
        yield page


@pytest.mark.django_db(transaction=True)
def test_a_row_is_a_card_on_a_phone_and_a_row_of_a_table_for_all_who_hear_it(page: Page) -> None:
    row = page.get_by_role("row").filter(has_text="orders")
    labels = dict(row.get_by_role("cell").evaluate_all(LABELS))
    assert list(labels)[:4] == ["none", '"Message type"', '"Mode"', '"Queues"'] and '"Created"' in labels
    assert list(labels.values()) == sorted(set(labels.values())), "one below the other"
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.locator(".table-scroll").evaluate("e => e.scrollWidth - e.clientWidth") == 0
    expect(page.get_by_role("table")).to_have_count(1)
    # A browser may take the meaning from what is not displayed as a table, unless it is said.
    expect(
        page.locator(":is(.list-table, .list-table *):is(table, thead, tbody, tr, th, td):not([role])")
    ).to_have_count(0)
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("columnheader")).to_have_count(9)
    right = row.locator(".num-cell").evaluate_all(ENDS)
    assert len(right) == 3 and len(set(right)) == 1, "numbers stand below each other"

    page.get_by_role("link", name="Queues").click()
    expect(page).to_have_url(re.compile("sort=queues"))
    expect(page.locator("th[aria-sort]")).to_have_text(re.compile("Queues"))

    page.set_viewport_size(TABLET)
    labels = dict(row.get_by_role("cell").evaluate_all(LABELS))
    assert set(labels) == {"none"} and len(set(labels.values())) == 1
    assert page.locator("td.wide-cell").first.is_hidden()


@pytest.mark.django_db(transaction=True)
def test_columns_are_chosen_in_a_menu_that_a_short_list_does_not_cut_off(page: Page) -> None:
    page.get_by_text("Columns", exact=True).click()
    for title in ("Mode", "1 h", "Created"):
        page.get_by_label(title, exact=True).uncheck()
    page.get_by_role("button", name="Show these").click()
    expect(page.get_by_role("columnheader")).to_have_count(6)
    with page.expect_download() as begun:
        page.get_by_role("link", name="CSV").click()
    assert re.fullmatch(r"topics-\w+-\d{8}T\d{6}Z\.csv", begun.value.suggested_filename)
    assert "mode" in begun.value.path().read_text().splitlines()[0], "a file has all columns"
