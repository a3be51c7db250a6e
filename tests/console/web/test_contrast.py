"""What is written in colour can be read: 4.5 to 1 in both themes (WCAG 2.2, 1.4.3), measured by a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.support.chromium import ARGUMENTS
from tests.support.needs import need_tool

#: It starts a browser.
pytestmark = pytest.mark.process
STATIC = Path(__file__).resolve().parents[3] / "static"
SHEETS = (
    "css/tabler.css",
    "css/tokens.css",
    "css/base.css",
    "css/layout.css",
    "css/lists.css",
)
COLOURS = ("green", "red", "yellow", "azure", "orange", "purple", "secondary")
ALERTS = ("info", "success", "warning", "danger")
ENOUGH = 4.5
#: Of every text the contrast to what lies behind it; colours come in any notation, so a canvas reads them.
MEASURE = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat([1]);
  const linear = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const found = {};
  for (const one of document.querySelectorAll("[data-what]")) {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.unshift(rgba(getComputedStyle(at).backgroundColor));
    const below = layers.reduce((all, layer) => over(layer, all), [255, 255, 255, 1]);
    const ends = [light(over(rgba(getComputedStyle(one).color), below)), light(below)].sort((a, b) => b - a);
    found[one.dataset.what] = (ends[0] + 0.05) / (ends[1] + 0.05);
  }
  return found;
}"""


def pieces() -> str:
    """Everything that pages write in colour, in a card and beside one."""
    badges = "".join(f'<span data-what="badge {one}" class="badge bg-{one}-lt">x</span>' for one in COLOURS)
    alerts = "".join(f'<div data-what="alert {one}" class="alert alert-{one}">x</div>' for one in ALERTS)
    buttons = "".join(
        f'<button data-what="button {one}" class="btn {one}">x</button>'
        for one in ("", "btn-primary", "btn-danger", "btn-outline-primary", "btn-outline-danger", "btn-ghost-danger")
    )
    texts = "".join(
        f'<p data-what="{one}" class="{one}">x</p>'
        for one in (
            "text-secondary", "text-danger", "text-red", "text-green", "text-warning", "page-subtitle", "form-hint",
            "figure-note", "invalid-feedback d-block",
        )
    )  # fmt: skip
    tabs = '<nav class="tabs"><ul class="nav nav-tabs"><li><a data-what="tab" class="nav-link active">x</a></li></ul>'
    whole = f"{badges}{alerts}{buttons}{texts}{tabs}</nav><a data-what='link' href='#'>x</a>"
    beside = whole.replace('data-what="', 'data-what="beside a card: ').replace("data-what='", "data-what='beside ")
    frame = '<a class="skip-link" data-what="skip link">x</a>'
    frame += '<div class="topbar"><span class="avatar" data-what="avatar">x</span></div>'
    return f'{frame}<div class="card"><div class="card-body">{whole}</div></div>{beside}'


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    chromium = need_tool("chromium")
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=str(chromium), args=ARGUMENTS)
        page = chrome.new_page()
        page.set_content(f"<!doctype html><html><body>{pieces()}</body></html>")
        for sheet in SHEETS:
            page.add_style_tag(content=(STATIC / sheet).read_text())
        yield page
        chrome.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_coloured_texts_can_be_read(page: Page, theme: str) -> None:
    page.evaluate("theme => document.documentElement.setAttribute('data-bs-theme', theme)", theme)
    page.add_style_tag(content="* { transition: none !important }")
    found = page.evaluate(MEASURE)
    assert len(found) > 50
    assert {what: round(ratio, 2) for what, ratio in found.items() if ratio < ENOUGH} == {}
