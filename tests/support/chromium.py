"""A person of the cast in a real browser, on the console that pytest-django serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from tests.support.needs import need_tool

_ANSWERED = "the server responded with a status of 422"
"""Chromium tells a refused form as an error of the page; it is none."""
#: Chromium's own calls home fail on a closed network and would only disturb.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def visiting(address: str, user: str = "bob@acme", *, scripts: bool = True, **context: Any) -> Iterator[Page]:
    """A page of Debian's Chromium in which `user` is signed in; fails when anything went wrong in it meanwhile."""
    # Not above: the browser is of use to who has no Django too.
    from tests.support.cast import PASSWORD

    chromium = need_tool("chromium")
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=str(chromium), args=ARGUMENTS)
        page = chrome.new_page(base_url=address, locale="en-GB", java_script_enabled=scripts, **context)
        page.set_default_timeout(60_000)
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.goto("/account/login/")
        page.get_by_label("User name").fill(user)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        yield page
        chrome.close()
    told = [trouble for trouble in troubles if _ANSWERED not in trouble]
    assert not told, told
