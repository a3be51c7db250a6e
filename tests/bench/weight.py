"""What the pages that people leave open cost: when they are opened, when they are opened again, and each minute."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.bench import figures
from tests.bench.copy import running_copy
from tests.support.chromium import ARGUMENTS
from tests.support.needs import need_tool
from tests.support.weight import Cost, Meter

PAGES = {
    "overview": "/",
    "topics": "~/topics/",
    "groups": "~/groups/",
    "group": "~/groups/GID_flights/",
    "curves of a group": "~/groups/GID_flights/statistics/",
    "dead letters": "~/groups/GID_flights/dead-letters/",
    "live messages": "~/topics/flights/live/",
    "alarms": "/alarms/",
    "tasks of SQL": "/sql/tasks/",
    "SQL jobs": "/jobs/",
    "inflow tasks": "/inflow/",
    "queues": "/queues/",
}
#: What a page asks for when it is there has come by then.
_SETTLED_MS = 3_000
_MINUTE_MS = 60_000
#: A machine with other work takes its time.
_PATIENCE_MS = 180_000


def main(demo_file: Path | None) -> str:
    """Count in a browser of its own for each page, and return the table."""
    rows = []
    with running_copy(demo_file) as demo, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(need_tool("chromium")), args=ARGUMENTS)
        signed_in = chromium.new_context()
        page = signed_in.new_page()
        page.goto(demo["console"])
        page.get_by_label("User name").fill(demo["username"])
        page.get_by_label("Password").fill(demo["password"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        for name, path in PAGES.items():
            address = demo["console"] + path.replace("~", f"/i/{demo['instance_id']}")
            context = chromium.new_context(storage_state=signed_in.storage_state())
            page = context.new_page()
            page.set_default_timeout(_PATIENCE_MS)
            meter = Meter(page)
            cold, warm = (meter.of(partial(_open, page, address)) for _ in range(2))
            minute = meter.of(partial(page.wait_for_timeout, _MINUTE_MS))
            rows.append((name, *_told(cold), *_told(warm), *_told(minute)))
            context.close()
        chromium.close()
    head = ("page", "requests", "kB", "requests again", "kB again", "requests a minute", "kB a minute")
    return figures.table(head, rows)


def _open(page: Page, address: str) -> None:
    page.goto(address, wait_until="load")
    page.wait_for_timeout(_SETTLED_MS)


def _told(cost: Cost) -> tuple[str, str]:
    return str(cost.requests), f"{cost.size / 1000:.1f}"
