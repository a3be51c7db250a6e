"""The first page is light: for who comes for the first time, and for who comes again."""

from __future__ import annotations

from tests.e2e.conftest import Visitor
from tests.support.weight import Meter

MOST_REQUESTS, MOST_COLD, MOST_WARM = 14, 100_000, 10_000
#: Of a page that stays open: bytes and requests in a minute.
MOST_A_MINUTE, MOST_REQUESTS_A_MINUTE = 20_000, 3


def test_the_first_page_asks_for_little_and_for_less_the_next_time(visitor: Visitor) -> None:
    browser = visitor.page.context.browser
    assert browser is not None
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, storage_state=visitor.page.context.storage_state()
    )
    page = context.new_page()
    meter = Meter(page)

    def open_it() -> None:
        page.goto(visitor.product.demo["console"] + "/", wait_until="networkidle")

    cold = meter.of(open_it)
    warm = meter.of(open_it)
    page.locator("#storage table").wait_for()
    page.locator("#limits .card-body").wait_for()
    minute = meter.of(lambda: page.wait_for_timeout(60_000))
    context.close()
    assert cold.requests <= MOST_REQUESTS, cold.addresses
    assert cold.size <= MOST_COLD, cold
    assert warm.size <= MOST_WARM, warm
    assert warm.requests < cold.requests, warm.addresses
    assert minute.size <= MOST_A_MINUTE, minute
    assert minute.requests <= MOST_REQUESTS_A_MINUTE, minute.addresses
