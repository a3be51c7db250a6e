"""Live parts: 204 when nothing changed, and in a browser the reader's place survives what did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from playwright.sync_api import Page, Route, expect

from console.web.live import HEADER, LiveMiddleware, digest
from tests.support.cast import Cast
from tests.support.chromium import visiting

PART = b'<div><input name="csrfmiddlewaretoken" value="%s"><time datetime="x" data-ago title="t">%s</time>%s</div>'


def asked(content: bytes, shown: str | None, method: str = "GET") -> HttpResponse:
    headers = {} if shown is None else {HEADER: shown}
    request = RequestFactory().generic(method, "/part", headers=headers)
    return LiveMiddleware(lambda _: HttpResponse(content))(request)


def test_a_part_that_shows_the_same_is_answered_with_nothing() -> None:
    first = asked(PART % (b"masked", b"just now", b"5"), "none")
    assert (first.status_code, first[HEADER]) == (200, digest(PART % (b"", b"", b"5")))
    again = asked(PART % (b"otherwise", b"9 minutes ago", b"5"), first[HEADER])
    assert (again.status_code, again.content) == (204, b"")
    changed = asked(PART % (b"masked", b"just now", b"6"), first[HEADER])
    assert (changed.status_code, changed[HEADER] != first[HEADER]) == (200, True)


def test_only_live_parts_are_compared() -> None:
    assert HEADER not in asked(b"page", None)
    assert asked(b"page", digest(b"page"), "POST").status_code == 200


@pytest.fixture
def page(cast: Cast, live_server: Any, settings: Any) -> Iterator[Page]:
    """A page of Bob's, signed in, whose clock stands still until a test lets it go on."""
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    with visiting(live_server.url) as page:
        yield page


LIVE = (
    '<div id="probe" hx-get="/probe" hx-trigger="every 1s" hx-swap="morph:outerHTML" class="table-scroll">'
    '<p id="text">Reading {number}</p><details id="more"><summary>More</summary>{number} more</details>'
    '<form><input id="name" name="name" value=""><textarea id="note"></textarea>'
    '<select id="kind"><option selected>one</option><option>two</option></select>'
    '<input type="checkbox" id="tick"></form><p id="same">what the reader selects</p></div>'
)
BEGIN = """html => {
  document.getElementById("main").insertAdjacentHTML("beforeend", html);
  window.htmx.process(document.getElementById("probe"));
}"""


class Readings:
    """The server's side of a live part, which says something else at every question until it is told to rest."""

    def __init__(self, page: Page) -> None:
        self.asked = 0
        self.marks: list[str | None] = []
        page.route("**/probe", self.answer)
        page.evaluate(BEGIN, LIVE.format(number=0))

    def answer(self, route: Route) -> None:
        self.asked += 1
        self.marks.append(route.request.headers.get("x-gantry-live"))
        route.fulfill(
            body=LIVE.format(number=self.asked),
            content_type="text/html",
            headers={"X-Gantry-Live": f"mark{self.asked}"},
        )


@pytest.mark.django_db(transaction=True)
def test_an_update_keeps_what_the_reader_has_open_typed_ticked_and_selected(page: Page) -> None:
    readings = Readings(page)
    page.locator("#more summary").click()
    page.locator("#note").fill("half a senten")
    page.locator("#kind").select_option("two")
    page.locator("#tick").check()
    page.locator("#name").press_sequentially("ord")
    page.evaluate("getSelection().selectAllChildren(document.getElementById('same'))")
    before = readings.asked
    # Scripts of strangers may evaluate no text on these pages, so what is shown is looked at from here.
    expect(page.locator("#text")).to_have_text(re.compile(rf"Reading (?!({before}|{before + 1})$)[1-9]\d*"))
    assert page.locator("#more").evaluate("e => e.open")
    assert page.locator("#note").input_value() == "half a senten"
    assert page.locator("#kind").input_value() == "two"
    assert page.locator("#tick").is_checked()
    assert page.locator("#name").input_value() == "ord"
    assert page.evaluate("getSelection().toString()") == "what the reader selects"
    assert page.evaluate("document.activeElement.id") == "name"
    assert readings.marks[:2] == ["none", "mark1"]


@pytest.mark.django_db(transaction=True)
def test_a_hidden_tab_asks_nothing_and_at_once_when_it_is_seen(page: Page) -> None:
    readings = Readings(page)
    expect(page.locator("#text")).not_to_have_text("Reading 0")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); %s }"
    page.evaluate(hide % "", True)
    page.wait_for_timeout(500)
    rested = readings.asked
    page.wait_for_timeout(3_000)
    assert readings.asked == rested
    page.evaluate(hide % "document.dispatchEvent(new Event('visibilitychange'))", False)
    expect(page.locator("#text")).not_to_have_text(f"Reading {rested}")
