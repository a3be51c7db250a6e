"""One running copy for all end-to-end tests, a browser, and the vendor's Java client.

With `GANTRY_TEST_BROKER=apache` the copy works on a cluster of Apache RocketMQ; test_7_cluster.py always has one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.compat.programs import Keys, Toolbox, build_programs
from tests.compat.servers import wants_apache
from tests.e2e.cluster import cluster_environment, cluster_of
from tests.support.chromium import ARGUMENTS
from tests.support.needs import need_tool
from tests.support.product import ROOT, SLOWNESS, Product

SCREENSHOTS = ROOT / "test-results" / "screenshots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs a copy waits for its start too, which takes minutes beside other suites."""
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "e2e"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product, started as a user starts it. Stopped at the end; it must leave nothing behind.

    The shell knows ASCII only and the home does not: what a child of the launcher takes from either fails here.
    """
    plain = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    copy = Product(tmp_path_factory.mktemp("gantry") / "höme-家", environ=plain | {"GANTRY_DEMO": "true"})
    cluster = None
    if wants_apache():
        cluster = cluster_of(tmp_path_factory.mktemp("apache"))
        copy.environ |= cluster_environment(cluster)
    try:
        copy.start()
        yield copy
        copy.stop()
        assert copy.processes() == {}
    finally:
        if copy.process is not None:
            copy.process.kill()
        sys.stdout.write(copy.tail(3000))
        if cluster is not None:
            cluster.stop()


@pytest.fixture(scope="module")
def traffic(product: Product) -> Iterator[Path]:
    """The flights, replayed while the tests of a module run; yields the file with the progress lines."""
    output = product.home.parent / "traffic.out"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "launcher", "run", "manage.py", "traffic", "--rate", "30"],
            cwd=ROOT, env=product.environ, stdout=stream, stderr=stream,
        )  # fmt: skip
        yield output
        process.terminate()
        process.wait(30)


#: How htmx tells that a request was given up: the page was left, or a later letter of a search took its place.
#: What fails it tells with another line beside these.
_GIVEN_UP = ("htmx:sendAbort", "htmx:afterRequest")
#: A busy machine is slow, not broken: only what never comes fails. An engine that is started anew has its time in it.
PATIENCE_MS = 120_000 * SLOWNESS


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    chromium = need_tool("chromium")
    shutil.rmtree(SCREENSHOTS, ignore_errors=True)
    SCREENSHOTS.mkdir(parents=True)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=str(chromium), args=ARGUMENTS)


@dataclass
class Visitor:
    """A signed-in person: a page that remembers what went wrong in it."""

    page: Page
    product: Product
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.set_default_timeout(PATIENCE_MS)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_GIVEN_UP):
            self.troubles.append(f"{message.type} on {self.page.url}: {message.text}")

    def _failed(self, request: Request) -> None:
        # A page that is left cancels what it had asked for.
        if "ERR_ABORTED" not in (request.failure or ""):
            self.troubles.append(f"{request.method} {request.url}: {request.failure}")

    @property
    def instance_path(self) -> str:
        return f"/i/{self.product.demo['instance_id']}"

    def go(self, path: str) -> Page:
        """Open a path of the console; `~` stands for the demo instance."""
        self.page.goto(self.product.demo["console"] + path.replace("~", self.instance_path))
        return self.page

    def sign_in(self) -> None:
        self.go("/")
        self.page.get_by_label("User name").fill(self.product.demo["username"])
        self.page.get_by_label("Password").fill(self.product.demo["password"])
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("heading", name="Overview").wait_for()

    def shoot(self, name: str) -> None:
        """Keep a picture for a person to judge."""
        self.page.wait_for_load_state()
        # A page with live parts is never idle: its stream stays open.
        self.page.wait_for_function("() => !document.querySelector('.htmx-request')")
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def _visitor(browser: Browser, product: Product) -> Visitor:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Europe/Berlin")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor = Visitor(context.new_page(), product)
    visitor.sign_in()
    return visitor


@pytest.fixture
def visitor(_visitor: Visitor) -> Iterator[Visitor]:
    """The demo tenant's administrator in a browser; any console error fails the test."""
    _visitor.troubles.clear()
    yield _visitor
    assert _visitor.troubles == []


@pytest.fixture(scope="session")
def java(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    """The vendor's clients, pointed at the running copy."""
    build_programs()
    demo = product.demo
    tools = Toolbox(tmp_path_factory.mktemp("java"), demo["namesrv"], demo["instance_id"])
    yield tools
    tools.kill_since()


@pytest.fixture
def keys(product: Product) -> Keys:
    """The AccessKey pair of demo.json."""
    return Keys(product.demo["access_key_id"], product.demo["access_key_secret"])
