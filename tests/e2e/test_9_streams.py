"""A page that stays open is kept current over one stream, keeps the reader's place, and asks by itself without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.e2e.conftest import Visitor
from tests.support.product import eventually

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


class Asked:
    """What a page has asked for since it was opened: paths with their queries."""

    def __init__(self, page: Page, address: str) -> None:
        self._start = len(address)
        self.paths: list[str] = []
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        self.paths.append(request.url[self._start :])

    def of(self, beginning: str) -> list[str]:
        return [path for path in self.paths if path.startswith(beginning)]

    def waits_for(self, page: Page, beginning: str, count: int = 1, seconds: float = 60) -> None:
        def there() -> bool:
            page.wait_for_timeout(200)
            return len(self.of(beginning)) >= count

        eventually(there, seconds=seconds, what=f"{count} requests for {beginning}")


@pytest.fixture
def page(visitor: Visitor) -> Iterator[Page]:
    """A tab of its own: what one test routes and hides is not the next one's."""
    page = visitor.page.context.new_page()
    page.set_default_timeout(60_000)
    yield page
    page.close()


def opened(visitor: Visitor, page: Page, path: str) -> Asked:
    asked = Asked(page, visitor.product.demo["console"])
    page.goto(visitor.product.demo["console"] + path.replace("~", visitor.instance_path))
    return asked


def test_one_stream_brings_what_changes_and_keeps_the_readers_place(
    visitor: Visitor, page: Page, traffic: Path
) -> None:
    asked = opened(visitor, page, "/")
    figure = page.locator("#figures .figure-value").first
    asked.waits_for(page, "/live?")
    begun = len(asked.paths)
    page.get_by_label("Compare with").focus()
    page.evaluate("scrollTo(0, 120)")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#figures .figure-label'))")
    scrolled = page.evaluate("scrollY")
    for _ in range(2):
        expect(figure).not_to_have_text(figure.inner_text(), timeout=120_000)
    assert page.evaluate("document.activeElement.name") == "compare"
    assert page.evaluate("getSelection().toString()").lower() == "messages in"
    assert page.evaluate("scrollY") == scrolled
    assert [path for path in asked.paths[begun:] if not path.startswith("/live?")] == []


def test_what_the_reader_chooses_is_what_the_next_stream_brings(visitor: Visitor, page: Page) -> None:
    asked = opened(visitor, page, "/")
    asked.waits_for(page, "/live?")
    page.get_by_role("button", name="15m").click()
    asked.waits_for(page, "/live?", 2)
    assert "span%3D15m" in asked.of("/live?")[1]
    expect(page.get_by_role("button", name="15m")).to_have_attribute("aria-pressed", "true")


def test_a_hidden_tab_has_no_stream_and_one_at_once_when_it_is_seen(visitor: Visitor, page: Page) -> None:
    asked = opened(visitor, page, "/")
    asked.waits_for(page, "/live?")
    with page.expect_event("requestfailed", lambda request: "/live?" in request.url):
        page.evaluate(HIDE, True)
    rested = len(asked.paths)
    page.wait_for_timeout(20_000)
    assert len(asked.paths) == rested
    page.evaluate(HIDE, False)
    asked.waits_for(page, "/live?now=", seconds=5)
    assert [path for path in asked.paths[rested:] if not path.startswith("/live?")] == []


@pytest.mark.parametrize("how", ["none to be had", "held back by a proxy"])
def test_a_page_without_a_stream_asks_by_itself(visitor: Visitor, page: Page, how: str) -> None:
    def answer(route: Route) -> None:
        if how == "none to be had":
            route.fulfill(status=204, headers={"Retry-After": "60"})

    page.route("**/live?*", answer)
    asked = opened(visitor, page, "/")
    asked.waits_for(page, "/live?")
    asked.waits_for(page, "/overview/figures", 2, seconds=90)
    assert len(asked.of("/live?")) == 1


def test_messages_of_a_topic_come_over_the_stream(visitor: Visitor, page: Page, traffic: Path) -> None:
    asked = opened(visitor, page, "~/topics/flights/live/")
    asked.waits_for(page, "/live?")
    news = f"{visitor.instance_path}/topics/flights/live/news"
    page.wait_for_timeout(2_000)
    before, rows = len(asked.of(news)), page.locator("[data-tail-rows] tr")
    shown = rows.count()
    expect(rows.nth(shown)).to_be_attached()
    assert len(asked.of(news)) == before
    ids = page.locator("[data-tail-rows] td:nth-child(2)").all_inner_texts()
    assert len(ids) == len(set(ids)), "each message once"
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-tail-status]")).to_contain_text("new message")
