"""Queues in the whole product: the end of a statement and the files of a bucket are told to one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import expect

from brokercore.smq.client import QueueClient
from tests.compat.programs import Keys
from tests.e2e.conftest import Visitor
from tests.e2e.editor import write, written
from tests.support.broker import eventually
from tests.support.product import Product

PATIENCE_S = 60


@pytest.fixture
def client(product: Product, keys: Keys) -> Iterator[QueueClient]:
    with closing(QueueClient(product.demo["smq_endpoint"], *keys)) as client:
        yield client


def bodies(client: QueueClient, queue: str) -> list[dict[str, Any]]:
    """What has come to the queue, taken out of it."""
    found = client.receive(queue, 16, 5)
    client.delete(queue, [one.handle for one in found])
    return [json.loads(base64.b64decode(one.body, validate=True)) for one in found]


def test_the_end_of_a_statement_is_told_to_a_queue_that_the_form_offers(visitor: Visitor, client: QueueClient) -> None:
    client.create_queue("statements-done")
    page = visitor.go("/sql/")
    write(page, "select 1 as one")
    page.keyboard.press("Escape")
    page.get_by_text("Hint: run asynchronously").click()
    page.get_by_label("To a queue (mns)").check()
    field = page.get_by_role("combobox", name="Queue", exact=True)
    field.fill("done")
    page.get_by_role("option", name="statements-done").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(field).to_have_value("statements-done")
    page.get_by_role("button", name="Write the hint").click()
    expect(page.locator("#hint-check")).to_contain_text("statements-done")
    assert "mq-notify-by=mns, mq-topic=statements-done, mq-endpoint=http://" in written(page)
    page.get_by_role("button", name="Run", exact=True).click()
    pane = page.locator("[data-sql-run-pane]").first
    expect(pane).to_contain_text("SUCCESS")
    link = pane.get_by_role("link", name="notified")
    expect(link).to_be_visible()
    told, *_ = eventually(lambda: bodies(client, "statements-done"), PATIENCE_S)  # at least once
    assert (told["status"], told["mq_model"], told["row_count"]) == ("SUCCESS", "queue", 1)
    link.click()
    expect(page.get_by_role("heading", name="statements-done").first).to_be_visible()


def test_a_queue_hears_of_the_files_of_a_bucket(visitor: Visitor, client: QueueClient) -> None:
    client.create_queue("files-changed")
    page = visitor.go("/sql/lake/create")
    page.get_by_label("Name").fill("heard-lake")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="Events").click()
    page.get_by_label("Name").fill("csv")
    page.get_by_label("Queue").fill("files-changed")
    page.get_by_label("ObjectCreated:*").check()
    page.get_by_label("Suffix").fill(".csv")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("The rule csv is active: the queue files-changed receives")).to_be_visible()
    visitor.shoot("lake-events")
    page.get_by_role("link", name="Files", exact=True).click()
    for name in ("a.txt", "a.csv"):
        page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/csv", "buffer": b"id\n1\n"})
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_text("1 file uploaded.")).to_be_visible()
    told, *_ = eventually(lambda: bodies(client, "files-changed"), PATIENCE_S)  # at least once
    (event,) = told["events"]
    assert (event["eventName"], event["oss"]["object"]["key"]) == ("ObjectCreated:PutObject", "a.csv")
    assert event["requestParameters"]["sourceIPAddress"] == "127.0.0.1"
