"""Whatever clients and users choose is shown harmlessly: nothing runs, nothing breaks out, no page fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Dialog, Page, expect

from brokercore.client import Credentials, Message, Producer, SendResult
from tests.brokercore.server.wire import Wire
from tests.e2e.conftest import Visitor
from tests.e2e.editor import write
from tests.support.product import Product, eventually

#: Script in several contexts, right-to-left override, emoji, zero-width characters, quotes, template syntax.
WORDS = (
    "\"'><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    "\u202eevil\u2066\u200b🦊{{7*7}}${7*7}</textarea></template>javascript:window.hacked=1"
)
SHORT = "<svg/onload=window.hacked=1>\u202e🦊"
GROUP = "GID_flights"


@pytest.fixture(scope="module")
def producer(product: Product) -> Iterator[Producer]:
    demo = product.demo
    credentials = Credentials(demo["access_key_id"], demo["access_key_secret"])
    with Producer(demo["namesrv"], credentials, GROUP, namespace=demo["instance_id"]) as producer:
        yield producer


@pytest.fixture
def harmless(visitor: Visitor) -> Iterator[Visitor]:
    """A visitor on whose pages no script of a stranger may run and no dialog may open."""
    opened: list[str] = []

    def close(dialog: Dialog) -> None:
        opened.append(dialog.message)
        dialog.dismiss()

    visitor.page.on("dialog", close)
    yield visitor
    assert opened == []


def assert_harmless(page: Page) -> None:
    """Nothing ran, and no control character reached the page as such."""
    assert page.evaluate("window.hacked") is None
    text = page.get_by_role("main").inner_text()
    assert not re.search("[\u0000\u202a-\u202e\u2066-\u2069]", text)


def message_path(sent: SendResult) -> str:
    return f"~/topics/flights/messages/{sent.message_id}/"


def test_a_message_of_hostile_words(harmless: Visitor, producer: Producer) -> None:
    sent = producer.send(
        Message("flights", json.dumps({WORDS: WORDS}).encode(), tags=WORDS, keys=SHORT, properties={"<b>p": WORDS})
    )
    page = harmless.go(message_path(sent))
    expect(page.get_by_role("main")).to_contain_text("<script>window.hacked=1</script>")
    expect(page.get_by_role("main")).not_to_contain_text("&lt;")
    assert_harmless(page)
    harmless.shoot("hostile-message")
    for mode in ("text", "hex"):
        page = harmless.go(f"{message_path(sent)}?body={mode}")
        assert_harmless(page)
    page = harmless.go(f"~/messages/?by=key&search=1&topic=flights&key={quote(SHORT)}")
    expect(page.get_by_role("main").get_by_role("link", name=sent.message_id[:8]).first).to_be_visible()
    assert_harmless(page)
    page = harmless.go("~/messages/?by=time&search=1&range=1h&topic=flights")
    assert_harmless(page)


def test_a_body_of_zeros_and_broken_text(harmless: Visitor, producer: Producer) -> None:
    for body in (b"\x00" * 64 + WORDS.encode(), b"\xff\xfe\x00<script>" * 9, "\u202e🦊".encode("utf-16")):
        page = harmless.go(message_path(producer.send(Message("flights", body, keys="zeros"))))
        expect(page.get_by_role("heading", name="Body").or_(page.locator("#body")).first).to_be_visible()
        assert_harmless(page)


def test_a_body_of_four_megabytes(harmless: Visitor, producer: Producer) -> None:
    body = (WORDS.encode() * 50_000)[: 4 * 1024 * 1024 - 4096]
    page = harmless.go(message_path(producer.send(Message("flights", body, keys="large"))))
    expect(page.get_by_text("Only the first").first).to_be_visible()
    assert_harmless(page)
    harmless.shoot("hostile-large-body")
    # The page stays small however large the body is.
    assert len(page.content()) < 1_000_000


def test_a_client_with_a_hostile_id(harmless: Visitor, product: Product) -> None:
    demo = product.demo
    port = product.environ["GANTRY_BROKER_PORT"]
    with Wire(f"127.0.0.1:{port}", (demo["access_key_id"], demo["access_key_secret"])) as client:
        name = f"{demo['instance_id']}%"
        client.heartbeat(SHORT + WORDS, f"{name}{GROUP}", f"{name}flights", tags=f"{SHORT} || x")
        page = harmless.go(f"~/groups/{GROUP}/")
        expect(page.get_by_role("main")).to_contain_text("<svg/onload=")
        assert_harmless(page)
        harmless.shoot("hostile-client")


def test_descriptions_and_searches_of_hostile_words(harmless: Visitor) -> None:
    page = harmless.go("~/create-topic/")
    page.get_by_label("Name").fill("hostile-words")
    page.get_by_label("Description").fill(WORDS[:250])
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="hostile-words", exact=True)).to_be_visible()
    assert_harmless(page)
    for path in ("~/topics/", "~/groups/", "/audit/", "/instances/", "/users/", "/policies/", "/roles/", "/sql/tasks/"):
        page = harmless.go(f"{path}?q={quote(WORDS)}")
        assert_harmless(page)


def test_a_statement_of_hostile_words(harmless: Visitor, product: Product) -> None:
    page = harmless.go("/sql/")
    write(page, f"/*+ run_async=true */ select '{WORDS.replace(chr(39), '')}' as w")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("[data-sql-run-pane]").get_by_text("SUCCESS").wait_for()
    assert_harmless(page)
    eventually(lambda: "hacked" in harmless.go("/sql/tasks/").content(), what="the statement is in the list")
    assert_harmless(page)


def test_the_log_keeps_one_line_a_record(product: Product, producer: Producer) -> None:
    """A tag or a body with a line end must not forge a line of the log."""
    producer.send(Message("flights", b"forged", tags="a", keys="x\n2026-01-01 00:00:00 INFO forged [-] line"))
    logs = [(file, content) for file, content in product.contents() if file == product.output or file.suffix == ".log"]
    assert len(logs) > 1
    assert [file for file, content in logs if b"forged [-] line" in content] == []
