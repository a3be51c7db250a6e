"""Changes of a database as messages, in a real browser: from an empty account to a message, and to a dead letter.

The database is a PostgreSQL of the tests; the last test has the one that the demo account brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from psycopg.conninfo import make_conninfo

from tests.compat.servers import wants_apache
from tests.e2e.conftest import PATIENCE_MS, Visitor
from tests.support.postgres import embedded_binaries, postgres_server
from tests.support.product import Product, eventually, free_ports

#: The first task of a copy waits for Spark, beside two other suites on two processors.
pytestmark = [pytest.mark.timeout(600), pytest.mark.postgres]
ACCOUNT, PASSWORD, GROUP_PASSWORD = "walk-inflow", "Change-data-2026", "reads-the-orders"
TRACKING, GROUP, TASK, TOPIC, DEAD = "shop", "orders-to-topic", "orders-to-topic", "orders", "orders-dead"


@dataclass
class Shop:
    """The tests' database, and the account of it that is told to the console."""

    port: int
    admin: psycopg.Connection
    user: str = "reader"
    password: str = "read-the-shop"

    def run(self, statement: str) -> None:
        self.admin.execute(statement.encode())


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """A table of orders, whose owner lacks the right to read changes."""
    with postgres_server("wal_level=logical", programs=embedded_binaries()) as server:
        server.stop()
        (server.port,) = free_ports(1)
        server.run("listen_addresses=127.0.0.1")
        with psycopg.connect(
            make_conninfo(host=str(server.folder), port=server.port, user="gantry", dbname="postgres"), autocommit=True
        ) as admin:
            made = Shop(server.port, admin)
            made.run(f"CREATE ROLE {made.user} LOGIN PASSWORD '{made.password}'")
            made.run(f"CREATE DATABASE shop OWNER {made.user}")
            with psycopg.connect(
                make_conninfo(host=str(server.folder), port=server.port, user=made.user, dbname="shop"), autocommit=True
            ) as owner:
                owner.execute(
                    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(8, 2), state text)"
                )
            yield made


@pytest.fixture(scope="module")
def orders(shop: Shop) -> Iterator[psycopg.Connection]:
    """Whoever changes rows."""
    told = make_conninfo(host="127.0.0.1", port=shop.port, user=shop.user, password=shop.password, dbname="shop")
    with psycopg.connect(told, autocommit=True) as connection:
        yield connection


def sign_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


@pytest.fixture(scope="module")
def _walker(browser: Browser, product: Product) -> Visitor:
    """An account that the platform's administrator makes, and its own administrator in a browser."""
    platform = product.demo["platform"]
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    maker = Visitor(context.new_page(), product)
    sign_in(maker.go("/"), platform["username"], platform["password"])
    page = maker.go("/platform/accounts/create/")
    page.get_by_label("Name", exact=False).first.fill(ACCOUNT)
    page.get_by_role("button", name="Create", exact=True).click()
    first = page.locator("dt:has-text('Password') + dd").inner_text().split()[0]
    context.close()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Europe/Berlin")
    visitor = Visitor(context.new_page(), product)
    page = visitor.go("/")
    sign_in(page, f"admin@{ACCOUNT}", first)
    page.get_by_label(re.compile("Current")).fill(first)
    for field in page.get_by_label(re.compile("New Password")).all():
        field.fill(PASSWORD)
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_role("heading", name="Overview").wait_for()
    return visitor


@pytest.fixture
def walker(_walker: Visitor) -> Iterator[Visitor]:
    """The administrator of an account that has nothing yet; any console error fails the test."""
    _walker.troubles.clear()
    yield _walker
    # What the form leads to is not asked for any more once the next thing is typed, which htmx tells as an error.
    assert [trouble for trouble in _walker.troubles if not re.search("htmx:(sendAbort|afterRequest)", trouble)] == []


@pytest.fixture(scope="module")
def instance(_walker: Visitor) -> str:
    """The path of the instance that the account makes for itself, with its two topics."""
    page = _walker.go("/instances/create/")
    page.get_by_label("Name", exact=True).fill("shop-instance")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url(re.compile("/i/MQ_INST_"))
    path = re.sub(r".*(/i/[^/]+)/.*", r"\1", page.url)
    for name in (TOPIC, DEAD):
        page = _walker.go(f"{path}/create-topic/")
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    return path


def answer_of_the_test(page: Page) -> Locator:
    """What Test connection tells."""
    with page.expect_response(re.compile("/test")):
        page.get_by_role("button", name="Test connection").click()
    return page.locator("#tested")


def pause(page: Page) -> None:
    """Pause the inflow task whose page is open."""
    page.get_by_role("link", name="Pause", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#live").get_by_text("Paused", exact=True)).to_be_visible()


def open_step(page: Page, title: str) -> None:
    page.locator(".inflow-tab", has_text=title).click()


def journey(page: Page) -> Locator:
    """What the form leads to, once it has followed what was typed last."""
    page.wait_for_load_state("networkidle")
    return page.locator("#journey")


def found(visitor: Visitor, path: str, topic: str, number: int) -> Locator:
    """The rows of a search in a topic, once there are so many."""
    rows = visitor.page.locator("#search table tbody tr")

    def is_found() -> bool:
        visitor.go(f"{path}/messages/")
        visitor.page.get_by_label("Topic").fill(topic)
        visitor.page.get_by_role("button", name="Search").click()
        visitor.page.locator("#results").wait_for()
        return rows.count() >= number

    eventually(is_found, seconds=PATIENCE_MS / 1000, every=1, what=f"{number} messages in {topic}")
    return rows


def test_an_empty_account_is_shown_where_it_begins(walker: Visitor, instance: str) -> None:
    page = walker.go("/inflow/")
    expect(page.get_by_text("No inflow task yet")).to_be_visible()
    walker.shoot("inflow-empty")
    page.get_by_role("link", name="Register a database").click()
    expect(page.get_by_role("heading", name="Create a change tracking task")).to_be_visible()


def test_what_a_database_lacks_is_told_with_the_statement_that_mends_it(walker: Visitor, shop: Shop) -> None:
    page = walker.page
    page.get_by_label("Name", exact=True).fill(TRACKING)
    page.get_by_label("Host").fill("127.0.0.1")
    page.get_by_label("Port").fill(str(shop.port))
    page.get_by_label("Name of the database").fill("shop")
    page.get_by_role("textbox", name="Account").fill(shop.user)
    page.get_by_label("Password").fill(shop.password)
    page.get_by_label("Tables").fill("public.*")
    page.get_by_label("Connection", exact=True).select_option(label="Not encrypted")
    told = answer_of_the_test(page)
    expect(told.get_by_text("This mends it:")).to_be_visible()
    walker.shoot("tracking-fault")
    mend = told.locator(".copy code, .copy pre, code").first.inner_text()
    assert "REPLICATION" in mend
    shop.run(mend)
    expect(answer_of_the_test(page).get_by_text("The database can be captured.")).to_be_visible()


def test_the_task_is_normal_and_gets_a_consumer_group(walker: Visitor, orders: psycopg.Connection) -> None:
    page = walker.page
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name=TRACKING, exact=True)).to_be_visible()
    expect(page.locator("#live").get_by_text("Normal", exact=True)).to_be_visible()
    orders.execute("INSERT INTO orders VALUES (1, 'c-17', 99.90, 'new')")
    page.get_by_role("link", name="Create group").click()
    page.get_by_label("Name", exact=True).fill(GROUP)
    page.get_by_role("textbox", name="Account").fill(GROUP)
    page.get_by_label("Password").fill(GROUP_PASSWORD)
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("cell", name=GROUP).first).to_be_visible()
    expect(page.locator("#events").get_by_text("INSERT").first).to_be_visible()
    walker.shoot("tracking-normal")


def test_the_wizard_shows_where_an_event_goes(walker: Visitor, instance: str) -> None:
    page = walker.go("/inflow/")
    page.get_by_role("link", name="Create task").first.click()
    page.get_by_label("Task name").fill(TASK)
    page.get_by_label("Data subscription task").select_option(index=1)
    page.get_by_label("Consumer group").select_option(label=GROUP)
    page.get_by_role("textbox", name="Account").fill(GROUP)
    page.get_by_label("Password").fill(GROUP_PASSWORD)
    page.get_by_label("Interval (seconds)").fill("0")
    expect(journey(page).get_by_text("The last event of the source")).to_be_visible()
    walker.shoot("wizard-source")
    open_step(page, "Filtering")
    page.get_by_label("Event pattern").fill('{"data": {"tableName": ["orders"], "operation": ["UPDATE"]}}')
    expect(page.locator("#journey").get_by_text("filtered", exact=True)).to_be_visible()
    expect(page.locator("#journey .inflow-reasons")).to_contain_text("data.operation")
    walker.shoot("wizard-filtered")
    page.get_by_label("Event pattern").fill('{"data": {"tableName": ["orders"]}}')
    expect(page.locator("#journey").get_by_text("passes", exact=True).first).to_be_visible()
    open_step(page, "Sink")
    page.get_by_label("Topic", exact=True).fill(TOPIC)
    page.get_by_label("Message body").select_option("data_extraction")
    page.locator("[name=body_path]").fill("$.data.after")
    page.get_by_label("Message key").select_option("data_extraction")
    page.locator("[name=key_path]").fill("$.data.primaryKey.id")
    page.get_by_label("Message tag").select_option("data_extraction")
    page.locator("[name=tag_path]").fill("$.data.operation")
    expect(page.locator("#journey dd").get_by_text("INSERT", exact=True)).to_be_visible()
    expect(page.locator("#journey pre").last).to_contain_text("c-17")
    walker.shoot("wizard-sink")
    open_step(page, "Task properties")
    page.get_by_label(re.compile("^Allowed")).check()
    page.get_by_label("Dead letters", exact=True).select_option(label="Into a topic")
    page.get_by_label("Dead-letter topic", exact=True).fill(DEAD)
    walker.shoot("wizard-properties")


def test_saved_it_runs_and_a_change_is_a_message(walker: Visitor, instance: str, orders: psycopg.Connection) -> None:
    page = walker.page
    page.get_by_role("button", name="Save and start").click()
    expect(page.get_by_role("heading", name=TASK, exact=True)).to_be_visible()
    # The first task of a worker waits for its Spark.
    expect(page.locator("#live").get_by_text("Running", exact=True)).to_be_visible(timeout=2 * PATIENCE_MS)
    orders.execute("UPDATE orders SET state = 'paid' WHERE id = 1")
    rows = found(walker, instance, TOPIC, 2)
    row = rows.filter(has_text="UPDATE")
    expect(row).to_have_count(1)
    walker.shoot("inflow-messages")
    row.get_by_role("link").first.click()
    main = page.get_by_role("main")
    expect(main).to_contain_text(re.compile('"state": ?"paid"'))
    for value in ("UPDATE", "Tag", "Key"):
        expect(main).to_contain_text(value)
    walker.shoot("inflow-message")


def test_an_event_without_a_body_is_a_dead_letter_with_its_reason(
    walker: Visitor, instance: str, orders: psycopg.Connection
) -> None:
    # A row that is gone has nothing after it.
    orders.execute("DELETE FROM orders WHERE id = 1")
    rows = found(walker, instance, DEAD, 1)
    rows.first.get_by_role("link").first.click()
    main = walker.page.get_by_role("main")
    expect(main).to_contain_text("INFLOW_REASON")
    expect(main).to_contain_text("the event has null at $.data.after")
    expect(main).to_contain_text("DELETE")
    walker.shoot("inflow-dead-letter")
    page = walker.go(f"/inflow/{TASK}/")
    figure = page.locator(".figure-card", has_text="Dead letters").locator(".figure-value")
    expect(figure).to_have_text("1")
    walker.shoot("inflow-task")
    page.get_by_role("link", name="Edit", exact=True).click()
    open_step(page, "Transformation")
    page.get_by_label(re.compile(r"^A query \(SQL\)")).check(timeout=20_000)
    page.locator("[name=sql]").fill("select id, 'row ' || primaryKey:id::int as told from events")
    open_step(page, "Sink")
    page.get_by_label("Message body").select_option("complete_data")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator("#journey").get_by_text("1 event after it")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#journey pre").last).to_contain_text('"told":"row ')
    walker.shoot("wizard-query-tried")
    page = walker.go(f"/inflow/{TASK}/")
    pause(page)
    # Its database ends with these tests.
    walker.go("/tracking/")
    page.get_by_role("link", name=TRACKING, exact=True).click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#live").get_by_text("Paused", exact=True)).to_be_visible()


@pytest.mark.skipif(wants_apache(), reason="beside a cluster the demo account has no database")
def test_the_demos_task_is_started_by_a_click_and_its_messages_are_seen(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("/inflow/")
    expect(page.get_by_text("has not been started yet")).to_be_visible()
    visitor.shoot("inflow-demo-invitation")
    page.locator(".inflow-invitation").get_by_role("link", name="Enable").click()
    page.get_by_role("dialog").get_by_role("button", name="Enable").click()
    expect(page.locator("#live").get_by_text("Running", exact=True)).to_be_visible(timeout=2 * PATIENCE_MS)
    rows = found(visitor, visitor.instance_path, visitor.product.demo["flow"], 10)
    for operation in ("INSERT", "UPDATE", "DELETE"):
        expect(rows.filter(has_text=operation).first).to_be_visible()
    visitor.shoot("inflow-demo-messages")
    visitor.go(f"/inflow/{visitor.product.demo['flow']}/")
    visitor.shoot("inflow-demo")
    pause(page)
