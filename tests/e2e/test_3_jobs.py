"""A SQL job from its first line to its second start: a queue that the vendor's SDK fills, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from mns.account import Account
from mns.queue import Message, Queue
from playwright.sync_api import Page, expect

from brokercore.smq.client import QueueClient
from tests.compat.programs import Keys
from tests.e2e.conftest import PATIENCE_MS, Visitor
from tests.e2e.editor import write, written
from tests.support.product import Product, eventually

#: The first start of a copy waits for Spark, beside two other suites on two processors.
pytestmark = pytest.mark.timeout(600)
JOB, QUEUE = "walk-job", "walk-orders"
TEXT = f"""CREATE TEMPORARY TABLE orders (id BIGINT) WITH (
  'connector' = 'mns', 'queueName' = '{QUEUE}', 'format' = 'json', 'batchSize' = '16'
);
CREATE TEMPORARY TABLE shown (id BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'even');
CREATE TEMPORARY TABLE counted (orders BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'all');
CREATE TEMPORARY VIEW even AS SELECT id FROM orders WHERE MOD(id, 2) = 0;
INSERT INTO shown SELECT id FROM even;
INSERT INTO counted SELECT COUNT(*) FROM orders;
"""
#: Of each half of the walk.
ORDERS = 40
PATIENCE_S = 90


@pytest.fixture
def queue(product: Product, keys: Keys) -> Queue:
    """The walk's queue by the vendor's SDK."""
    return Account(product.demo["smq_endpoint"], *keys).get_queue(QUEUE)


@pytest.fixture
def client(product: Product, keys: Keys) -> Iterator[QueueClient]:
    with closing(QueueClient(product.demo["smq_endpoint"], *keys)) as client:
        yield client


def send(queue: Queue, first: int) -> None:
    for number in range(first, first + ORDERS):
        queue.send_message(Message(f'{{"id": {number}}}'))


def printed(page: Page, identifier: str) -> list[int]:
    """Numbers that a table `print` wrote, as the log shows them."""
    lines = page.locator("#log-lines").inner_text()
    return [int(number) for number in re.findall(rf"{identifier}> \+I\((\d+)\)", lines)]


def test_a_queue_is_made_on_the_pages_and_filled_by_the_vendors_sdk(visitor: Visitor, queue: Queue) -> None:
    page = visitor.go("/queues/")
    page.get_by_role("link", name="Create queue").click()
    page.get_by_label("Name").fill(QUEUE)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=QUEUE)).to_be_visible()
    send(queue, 1)


def test_a_job_is_written_with_its_errors_at_their_lines(visitor: Visitor) -> None:
    page = visitor.go("/jobs/")
    page.get_by_role("link", name="Create job").first.click()
    page.get_by_label("Name").fill(JOB)
    visitor.shoot("job-create")
    page.get_by_role("button", name="Create").click()
    write(page, TEXT.replace("FROM even;", "FROM evne;"))
    page.get_by_role("button", name="Validate").click()
    place = page.get_by_role("button", name="Line 7, column 34")
    expect(place).to_be_visible()
    expect(page.locator(".sql-error-mark")).to_have_text("evne")
    visitor.shoot("job-wrong")
    place.click()
    assert page.evaluate("gantrySql.editor.getCursor().line") == 6


def test_the_editor_completes_what_the_text_defines_and_options_in_quotes(visitor: Visitor) -> None:
    page = visitor.page
    write(page, TEXT + "INSERT INTO shown SELECT id FROM ev")
    page.keyboard.press("Control+Space")
    expect(page.locator(".CodeMirror-hint").first).to_contain_text("even")
    page.keyboard.press("Escape")
    write(page, TEXT + "CREATE TABLE q (a INT) WITH ('queueN")
    page.keyboard.press("Control+Space")
    expect(page.locator(".CodeMirror-hint").first).to_contain_text("queueName")
    visitor.shoot("job-completion")
    page.keyboard.press("Escape")


def test_it_is_saved_and_deployed_with_its_plan(visitor: Visitor) -> None:
    page = visitor.page
    write(page, TEXT)
    expect(page.get_by_text("Changes are not saved yet.")).to_be_visible()
    page.keyboard.press("Control+s")
    expect(page.get_by_text("The draft is saved.")).to_be_visible()
    page.reload()
    assert written(page) == TEXT
    page.get_by_role("button", name="Deploy").click()
    expect(page.get_by_text("Version 1 is deployed")).to_be_visible()
    expect(page.locator("#plan-graph .job-node")).to_have_count(6)
    visitor.shoot("job-plan")


def test_it_runs_and_its_rows_are_seen_without_losing_what_is_open(visitor: Visitor) -> None:
    page = visitor.go(f"/jobs/{JOB}/")
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    # The first job of a worker waits for its Spark.
    expect(page.locator("#live").get_by_text("Running", exact=True)).to_be_visible(timeout=2 * PATIENCE_MS)
    page.get_by_text("The same as a table").click()
    expect(page.locator(".job-rows").first).to_have_text(re.compile(r"[1-9]"))
    expect(page.locator("#job-operators")).to_be_visible()
    visitor.shoot("job-running")
    page.get_by_role("link", name="Stop", exact=True).click()
    page.get_by_label("Keep a savepoint").check()
    page.evaluate("""() => document.addEventListener("htmx:beforeSwap", (event) => {
      if (event.detail.elt.id === "live") window.timesRefreshed = (window.timesRefreshed ?? 0) + 1;
    })""")
    page.wait_for_function("() => window.timesRefreshed >= 2", timeout=PATIENCE_MS)
    expect(page.get_by_label("Keep a savepoint")).to_be_checked()
    page.keyboard.press("Escape")
    expect(page.locator("#job-operators")).to_be_visible()
    page.get_by_role("link", name="Log").click()
    expect(page.locator("#log-lines").get_by_text(f"even> +I({ORDERS})", exact=True)).to_be_visible()
    expect(page.locator("#log-lines").get_by_text(f"all> +I({ORDERS})", exact=True)).to_be_visible()
    assert sorted(printed(page, "even")) == list(range(2, ORDERS + 1, 2))
    visitor.shoot("job-log")
    # Of more lines than a page keeps the first ones go with what comes next, which is nothing at least.
    page.evaluate("() => { const lines = document.getElementById('log-lines');"
                  " for (let n = 0; n < 2500; n++) lines.append(document.createElement('li')); }")  # fmt: skip
    expect(page.locator("#log-lines li")).to_have_count(2_000)
    page.get_by_role("link", name="Statistics").last.click()
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    visitor.shoot("job-statistics")


def test_it_stops_with_a_savepoint(visitor: Visitor, queue: Queue) -> None:
    page = visitor.go(f"/jobs/{JOB}/checkpoints/")
    page.get_by_role("link", name="Stop", exact=True).click()
    page.get_by_label("Keep a savepoint").check()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator("#live").get_by_text("Stopped", exact=True)).to_be_visible()
    send(queue, ORDERS + 1)
    visitor.go(f"/jobs/{JOB}/checkpoints/")
    expect(page.get_by_role("link", name="Start from here")).to_be_visible()
    visitor.shoot("job-checkpoints")


def test_it_goes_on_from_the_savepoint_and_nothing_is_seen_twice(visitor: Visitor, client: QueueClient) -> None:
    page = visitor.page
    page.get_by_role("link", name="Start from here").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.locator("#live").get_by_text("Running", exact=True)).to_be_visible()
    visitor.go(f"/jobs/{JOB}/log/")
    expect(page.locator("#log-lines").get_by_text(f"even> +I({2 * ORDERS})", exact=True)).to_be_visible()
    # The count is the state of the savepoint with what came since: a message that was read twice would be in it.
    expect(page.locator("#log-lines").get_by_text(f"all> +I({2 * ORDERS})", exact=True)).to_be_visible()

    def is_empty() -> bool:
        left = client.queue(QUEUE)
        return left.active + left.inactive == 0

    eventually(is_empty, seconds=PATIENCE_S, what="the messages are deleted")
    assert sorted(printed(page, "even")) == list(range(2, 2 * ORDERS + 1, 2))
    assert printed(page, "all")[-1] == 2 * ORDERS


def test_the_demos_job_is_started_by_a_click_and_writes_to_its_topic(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("/jobs/")
    page.get_by_role("link", name=visitor.product.demo["job"]).click()
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.locator("#live").get_by_text("Running", exact=True)).to_be_visible(timeout=2 * PATIENCE_MS)
    rows = page.locator("#search table tbody tr")

    def is_found() -> bool:
        visitor.go("~/messages/")
        page.get_by_label("Topic").fill(visitor.product.demo["job"])
        page.get_by_role("button", name="Search").click()
        page.locator("#results").wait_for()
        return rows.count() > 0

    eventually(is_found, seconds=2 * PATIENCE_S, every=3, what="late flights")
    visitor.shoot("job-demo-messages")
    rows.first.get_by_role("link").first.click()
    line = r"[A-Z0-9]{2},\d{4}-\d\d-\d\d \d\d:\d\d:\d0\.000,\d+,\d+"
    expect(page.get_by_role("main")).to_contain_text(re.compile(line))
    visitor.go(f"/jobs/{visitor.product.demo['job']}/")
    visitor.shoot("job-demo")
    page.get_by_role("link", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator("#live").get_by_text("Stopped", exact=True)).to_be_visible()


def test_it_is_stopped_and_deleted(visitor: Visitor) -> None:
    page = visitor.go(f"/jobs/{JOB}/")
    page.get_by_role("link", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator("#live").get_by_text("Stopped", exact=True)).to_be_visible()
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(JOB)
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="SQL jobs")).to_be_visible()
    expect(page.get_by_role("link", name=JOB)).to_have_count(0)
