"""Queues in the console, as a tenant's administrator and a phone meet them, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from brokercore.smq.client import QueueClient
from tests.e2e.conftest import Visitor
from tests.support.product import Product, eventually

QUEUE = "walk-queue"


@pytest.fixture
def client(product: Product) -> Iterator[QueueClient]:
    """The queues by the demo tenant's own AccessKey."""
    client = QueueClient(
        f"http://127.0.0.1:{product.environ['GANTRY_SMQ_PORT']}",
        product.demo["access_key_id"],
        product.demo["access_key_secret"],
    )
    yield client
    client.close()


def test_a_queue_is_created_with_its_attributes(visitor: Visitor, client: QueueClient) -> None:
    page = visitor.go("/queues/")
    page.get_by_role("link", name="Create queue").click()
    page.get_by_label("Name").fill(QUEUE)
    page.get_by_label("Visibility timeout").fill("600")
    visitor.shoot("queue-create")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=QUEUE)).to_be_visible()
    expect(page.get_by_text("600 s (10 min)")).to_be_visible()
    assert client.queue(QUEUE).attributes["VisibilityTimeout"] == 600


def test_a_message_is_sent_looked_at_received_hidden_and_deleted(visitor: Visitor, client: QueueClient) -> None:
    page = visitor.go(f"/queues/{QUEUE}/send/")
    for number in range(2):
        page.get_by_label("Body").fill(f'{{"order": {number}, "from": "<b>Ada</b>"}}')
        page.get_by_label("Priority").fill(str(1 + number))
        page.get_by_role("main").get_by_role("button", name="Send").click()
        expect(page.get_by_text("Message ID")).to_be_visible()
        expect(page.get_by_label("Body")).to_be_empty()
    visitor.shoot("queue-sent")
    page.get_by_role("link", name="Messages").last.click()
    peeked = page.locator("#peeked")
    peeked.get_by_text('"order": 0').first.click()
    expect(peeked.locator("pre").first).to_contain_text('"from": "<b>Ada</b>"')
    visitor.shoot("queue-peeked")
    assert client.queue(QUEUE).received == 0

    page.get_by_label("Messages, at most").fill("16")
    page.get_by_role("button", name="Receive").click()
    messages = page.locator(".queue-message")
    expect(messages).to_have_count(2)
    handle = messages.first.locator("input[name=handle]").input_value()
    assert handle not in page.get_by_role("main").inner_text()
    expect(peeked.get_by_text("No message can be received now")).to_be_visible()
    visitor.shoot("queue-received")
    messages.first.get_by_role("button", name="Hide").click()
    expect(messages.first.locator("input[name=handle]")).not_to_have_value(handle)
    for number in range(2):
        messages.nth(number).get_by_role("button", name="Delete").click()
        expect(messages.nth(number).get_by_text("Deleted.")).to_be_visible()
    visitor.shoot("queue-deleted-messages")
    state = client.queue(QUEUE)
    assert (state.active, state.inactive, state.delayed) == (0, 0, 0)


def test_the_counters_of_a_queue_are_drawn(visitor: Visitor, client: QueueClient) -> None:
    page = visitor.go(f"/queues/{QUEUE}/statistics/")
    eventually(lambda: page.reload() and page.locator("#counters").count(), seconds=120, what="samples of the queue")
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    visitor.shoot("queue-statistics")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_fit_a_phone(browser: Browser, visitor: Visitor, client: QueueClient, scheme: str) -> None:
    client.send(QUEUE, b'{"customer": "' + b"long-name-without-a-blank-" * 8 + b'"}')
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        color_scheme="dark" if scheme == "dark" else "light",
        storage_state=visitor.page.context.storage_state(),
    )
    phone = Visitor(context.new_page(), visitor.product)
    for name, path in (
        ("list", "/queues/"),
        ("create", "/create-queue/"),
        ("detail", f"/queues/{QUEUE}/"),
        ("messages", f"/queues/{QUEUE}/messages/"),
        ("send", f"/queues/{QUEUE}/send/"),
        ("statistics", f"/queues/{QUEUE}/statistics/"),
    ):
        phone.go(path)
        assert _width(phone.page) <= 390, name
        phone.shoot(f"queue-{name}-{scheme}-390")
    context.close()
    assert phone.troubles == []


def test_a_topic_brings_what_is_published_to_a_queue(visitor: Visitor, client: QueueClient) -> None:
    page = visitor.go("/queue-topics/")
    page.get_by_role("link", name="Create topic").click()
    page.get_by_label("Name").fill("walk-topic")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="Subscribe").click()
    page.get_by_label("Name").fill("to-the-queue")
    page.get_by_label("Receiver").fill(QUEUE)
    visitor.shoot("queue-topic-subscribe")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("cell", name="to-the-queue", exact=True)).to_be_visible()
    page.get_by_role("link", name="Publish").click()
    page.get_by_label("Body").fill("to everybody")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("is published.")).to_be_visible()
    visitor.shoot("queue-topic")
    assert b"to everybody" in [one.body for one in client.peek(QUEUE, 16)]
    page = visitor.go(f"/queues/{QUEUE}/")
    expect(page.locator("#subscriptions").get_by_role("link", name="walk-topic")).to_be_visible()
    visitor.shoot("queue-detail")


def test_a_queue_is_deleted_once_its_name_was_typed(visitor: Visitor, client: QueueClient) -> None:
    page = visitor.go(f"/queues/{QUEUE}/")
    page.get_by_role("link", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(QUEUE)
    visitor.shoot("queue-delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    assert client.queue_names(QUEUE) == ([], "")


def _width(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width
