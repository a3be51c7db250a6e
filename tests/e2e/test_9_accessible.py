"""Every kind of page as axe-core sees it: what a screen reader is told, what one can reach, what one can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Visitor
from tests.e2e.kinds import BY_SUBJECT, pages, prepare

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
#: WCAG 2.2 on level AA.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
#: A desk, a tablet (a table still, and no side navigation any more), a phone.
WIDTHS = (1440, 900, 390)
#: The editor of SQL is CodeMirror's, whose text area is hidden beside what it draws.
NOT_OURS = [[".CodeMirror"]]
#: The frame is the same on every page: it is looked at on the first of each role, and where a menu of it is open.
FRAME = [[".sidebar"], [".topbar"]]
WITH_FRAME = {"overview", "appearance", "user-menu", "instance-chooser", "platform-accounts"}
#: What an open menu covers in part is no smaller for that: the page without the menu is looked at too.
MENUS = {"appearance", "user-menu", "instance-chooser", "columns", "views"}
STILL = "*, ::before, ::after, ::backdrop { transition: none !important; animation: none !important }"


def violations(page: Page, theme: str, not_in: list[list[str]], *, is_covered: bool = False) -> set[str]:
    """What axe finds, as the rule and the beginning of the element. The dark theme differs in its colours alone."""
    page.evaluate("theme => document.documentElement.setAttribute('data-bs-theme', theme)", theme)
    only: dict[str, str | Sequence[str]] = {"type": "tag", "values": RULES}
    found = page.evaluate(
        "([only, not, sized]) => axe.run({ exclude: not },"
        " { runOnly: only, rules: { 'target-size': { enabled: sized } }, resultTypes: ['violations'] })",
        [only if theme == "light" else {"type": "rule", "values": ["color-contrast"]}, not_in, not is_covered],
    )
    return {f"{one['id']}: {node['html'][:120]}" for one in found["violations"] for node in one["nodes"]}


@pytest.fixture(scope="module")
def prepared(_visitor: Visitor, traffic: Path) -> Visitor:
    """Somebody in whose account every kind of page has something to show."""
    prepare(_visitor)
    _visitor.troubles.clear()
    return _visitor


@pytest.mark.parametrize("subject", BY_SUBJECT)
def test_no_page_keeps_anybody_out(prepared: Visitor, subject: str) -> None:
    found: dict[str, set[str]] = {}
    with pages(prepared, WIDTHS[0]) as by_role:
        for kind in BY_SUBJECT[subject]:
            page = by_role[kind.role]
            page.set_viewport_size({"width": WIDTHS[0], "height": 900})
            kind.open(page, prepared.product.demo["console"], prepared.instance_path)
            page.add_style_tag(content=STILL)
            page.wait_for_timeout(300)  # what a page asks for when it is there
            page.evaluate(AXE)
            not_in = NOT_OURS if kind.name in WITH_FRAME else NOT_OURS + FRAME
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                for theme in ("light", "dark"):
                    for one in violations(page, theme, not_in, is_covered=kind.name in MENUS):
                        found.setdefault(one, set()).add(f"{kind.name} {width} {theme}")
    assert {one: sorted(where)[:3] for one, where in found.items()} == {}
