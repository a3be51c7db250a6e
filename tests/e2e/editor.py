"""The SQL editor as a person uses it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page


def write(page: Page, text: str) -> None:
    """Replace what stands in the editor, as a paste does."""
    page.locator(".CodeMirror").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def written(page: Page) -> str:
    """What stands in the editor."""
    return str(page.evaluate("gantrySql.editor.getValue()"))


def run(page: Page, text: str, button: str = "Run") -> Locator:
    """Run a statement by a button; the newest pane."""
    write(page, text)
    page.keyboard.press("Escape")
    page.get_by_role("button", name=button, exact=True).click()
    pane = page.locator("[data-sql-run-pane]").first
    pane.get_by_title(text.split("\n", maxsplit=1)[0][:20]).first.wait_for()
    return pane
