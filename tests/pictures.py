"""Pictures of every kind of page, for people to judge: `make pictures`, `python -m tests.pictures [folder] [kind …]`.

1440 px wide in both themes and 390 px, in English, and some in Chinese at 1440. A copy of the product is started for
it, with the demo's traffic, unless GANTRY_PICTURES_OF names the home of one that runs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.e2e.conftest import Visitor
from tests.e2e.kinds import KINDS, Kind, pages, prepare
from tests.support.chromium import ARGUMENTS
from tests.support.needs import need_tool
from tests.support.product import ROOT, Product

FOLDER = ROOT / "screenshots"
WIDE, NARROW, HEIGHT = 1440, 390, 900
#: So long the demo's traffic flows before the first picture, for curves to have something to show.
_TRAFFIC_SECONDS = 90
IN_CHINESE = {
    "overview", "group", "groups", "dead-letters-of-group", "topic", "group-statistics", "alarm-rule", "sql", "jobs",
    "audit", "delete-many", "user-create", "messages-found", "keys", "not-found",
}  # fmt: skip


@contextlib.contextmanager
def _running() -> Iterator[Product]:
    if home := os.environ.get("GANTRY_PICTURES_OF"):
        yield Product(Path(home))
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Product(Path(folder) / "home", environ={"GANTRY_DEMO": "true"}).start()
        traffic = subprocess.Popen(
            [sys.executable, "-m", "launcher", "run", "manage.py", "traffic", "--rate", "30"],
            cwd=ROOT, env=copy.environ, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(_TRAFFIC_SECONDS)
            yield copy
        finally:
            traffic.terminate()
            traffic.wait(30)
            copy.stop()


def _shoot(page: Page, width: int, theme: str, path: Path) -> None:
    """The whole page, drawn anew at its own height: what sticks to the window, such as the navigation, fills it."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.evaluate("theme => document.documentElement.setAttribute('data-bs-theme', theme)", theme)
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": width, "height": max(HEIGHT, min(height, 6000))})
    page.wait_for_timeout(400)  # curves are drawn anew
    page.screenshot(path=path)
    if page.evaluate("document.documentElement.scrollWidth") > width:
        sys.stdout.write(f"{path.name} is wider than {width} px\n")


def _all_of(kind: Kind, page: Page, visitor: Visitor, folder: Path) -> None:
    page.set_viewport_size({"width": WIDE, "height": HEIGHT})
    kind.open(page, visitor.product.demo["console"], visitor.instance_path)
    page.wait_for_timeout(700)  # what the stream brings
    for width, theme in ((WIDE, "light"), (WIDE, "dark"), (NARROW, "light")):
        _shoot(page, width, theme, folder / f"{kind.name}-{width}-{theme}.png")


def _in_chinese(kinds: list[Kind], browser: Browser, visitor: Visitor, folder: Path) -> None:
    context = browser.new_context(
        viewport={"width": WIDE, "height": HEIGHT},
        locale="zh-CN",
        timezone_id="Asia/Shanghai",
        storage_state=visitor.page.context.storage_state(),
    )
    page = context.new_page()
    for kind in kinds:
        # Steps are named in English.
        page.goto(visitor.product.demo["console"] + kind.path.replace("~", visitor.instance_path))
        page.wait_for_timeout(700)
        _shoot(page, WIDE, "light", folder / f"{kind.name}-chinese.png")
    context.close()


def main(folder: Path, names: set[str]) -> None:
    """Write the pictures of these kinds, or of all, as PNG files named by kind, width and theme."""
    folder.mkdir(parents=True, exist_ok=True)
    with _running() as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(need_tool("chromium")), args=ARGUMENTS)
        context = browser.new_context(viewport={"width": WIDE, "height": HEIGHT}, timezone_id="Europe/Berlin")
        visitor = Visitor(context.new_page(), product)
        visitor.sign_in()
        prepare(visitor)
        kinds = [kind for kind in KINDS if not names or kind.name in names]
        with pages(visitor, WIDE) as found:
            for kind in kinds:
                page = found[kind.role]
                page.set_default_timeout(30_000)
                try:
                    _all_of(kind, page, visitor, folder)
                except (Error, AssertionError) as error:
                    sys.stdout.write(f"no picture of {kind.name}: {str(error).splitlines()[0]}\n")
        _in_chinese([kind for kind in kinds if kind.name in IN_CHINESE], browser, visitor, folder)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER, set(sys.argv[2:]))
