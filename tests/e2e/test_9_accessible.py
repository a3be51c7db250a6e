"""Every kind of page as axe-core sees it: what a screen reader is told, what one can reach, what one can read."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Visitor

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
#: WCAG 2.2 on level AA.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PAGES = (
    "/", "/alarms/", "/alarms/rules/", "/instances/", "~/", "~/client/", "~/topics/", "~/topics/flights/",
    "~/topics/flights/live/", "~/topics/flights/publish/", "~/topics/flights/statistics/", "~/create-topic/",
    "~/groups/", "~/groups/GID_flights/", "~/groups/GID_flights/reset/", "~/groups/GID_flights/dead-letters/",
    "~/messages/", "~/dead-letters/", "~/statistics/", "/queues/", "/queue-topics/", "/grants/", "/sql/", "/sql/tasks/",
    "/sql/lake/", "/jobs/", "/tracking/", "/inflow/", "/archives/", "/keys/", "/users/", "/roles/", "/policies/",
    "/single-sign-on/", "/security/", "/audit/", "/api-tool/", "/drift/", "/docs/", "/docs/use/messages/",
)  # fmt: skip
#: What differs where there is a table still and no side navigation any more: lists, and pages of columns.
OF_A_TABLET = (
    "/", "/alarms/rules/", "/instances/", "~/", "~/topics/", "~/topics/flights/", "~/groups/", "~/groups/GID_flights/",
    "~/dead-letters/", "/queues/", "/sql/", "/sql/tasks/", "/users/", "/audit/",
)  # fmt: skip
#: The editor of SQL is CodeMirror's, whose text area is hidden beside what it draws.
NOT_OURS = [[".CodeMirror"]]


def violations(page: Page) -> set[str]:
    """What axe finds, as the rule and the beginning of the element."""
    page.evaluate(AXE)
    found = page.evaluate(
        "([rules, not]) => axe.run({ exclude: not }, { runOnly: { type: 'tag', values: rules },"
        " resultTypes: ['violations'] })",
        [RULES, NOT_OURS],
    )
    return {f"{one['id']}: {node['html'][:120]}" for one in found["violations"] for node in one["nodes"]}


@pytest.mark.parametrize(
    ("width", "themes", "paths"),
    [(1440, ("light", "dark"), PAGES), (900, ("light",), OF_A_TABLET), (390, ("light",), PAGES)],
)
def test_no_page_keeps_anybody_out(
    visitor: Visitor, width: int, themes: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    # The pages' own policy forbids the scripts that a test brings along.
    context = visitor.page.context.browser.new_context(  # type: ignore[union-attr]
        viewport={"width": width, "height": 900}, storage_state=visitor.page.context.storage_state(), bypass_csp=True
    )
    page = context.new_page()
    found: dict[str, set[str]] = {}
    for path in paths:
        answer = page.goto(visitor.product.demo["console"] + path.replace("~", visitor.instance_path))
        assert answer is not None and answer.status == 200, path
        page.add_style_tag(content="* { transition: none !important; animation: none !important }")
        page.wait_for_timeout(300)  # what a page asks for when it is there
        for theme in themes:
            page.evaluate("theme => document.documentElement.setAttribute('data-bs-theme', theme)", theme)
            for one in violations(page):
                found.setdefault(one, set()).add(f"{path} {theme}")
    context.close()
    assert {one: sorted(where)[:3] for one, where in found.items()} == {}
