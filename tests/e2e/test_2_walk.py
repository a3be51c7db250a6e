"""The tour through the console, as a tenant's administrator takes it, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.e2e.conftest import Visitor
from tests.support.product import Product, eventually

TYPES = [
    ("walk-normal", "Normal"),
    ("walk-partitions", "Partitionally ordered"),
    ("walk-global", "Globally ordered"),
    ("walk-transactions", "Transactional"),
    ("walk-delayed", "Scheduled or delayed"),
]


def test_the_overview_shows_what_there_is(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("/")
    for title in ("Instances", "Topics", "Groups", "Backlog"):
        expect(page.get_by_text(title, exact=True).first).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name="demo-instance")).to_be_visible()
    eventually(lambda: "sampled" in page.reload().text(), seconds=60, what="figures of the sampler")  # type: ignore[union-attr]
    visitor.shoot("overview")


def test_a_message_by_its_key_is_two_steps_from_anywhere(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("~/topics/flights/publish/")
    page.get_by_label("Body").fill("found by Ctrl K")
    page.get_by_label("Key", exact=False).first.fill("palette-1")
    page.get_by_role("button", name="Publish").click()
    page.wait_for_load_state("networkidle")
    visitor.go("/alarms/")
    page.keyboard.press("Control+k")
    page.keyboard.type("palette-1")
    option = page.get_by_role("option", name="Messages with key palette-1 in flights", exact=False).first
    expect(option).to_be_visible()
    visitor.shoot("go-anywhere")
    option.click()
    expect(page.get_by_role("cell", name="palette-1")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option").first).to_contain_text("palette-1 in flights")
    page.keyboard.press("Escape")
    expect(page.locator("#go")).not_to_be_visible()
    page.keyboard.type("?")
    expect(page.get_by_role("heading", name="Shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.type("gt")
    expect(page.get_by_role("heading", name="Topics", exact=True)).to_be_visible()
    page.keyboard.type("/flights")
    expect(page.get_by_label("Search topics")).to_have_value("flights")


@pytest.mark.parametrize(("name", "label"), TYPES)
def test_a_topic_of_each_type_can_be_created(visitor: Visitor, name: str, label: str) -> None:
    page = visitor.go("~/create-topic/")
    page.get_by_label("Name").fill(name)
    page.get_by_label(re.compile(f"^{label}")).check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def test_a_bad_name_is_told_beside_its_field_and_nothing_is_lost(visitor: Visitor) -> None:
    page = visitor.go("~/create-topic/")
    page.get_by_label("Name").fill("GID_is_for_groups")
    page.get_by_label("Description").fill("kept")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("does not begin with CID or GID; those are kept for groups")).to_be_visible()
    expect(page.get_by_label("Description")).to_have_value("kept")
    visitor.shoot("topic-refused")
    # The refusal is an HTTP 422, which Chromium itself reports as an error of the page load.
    visitor.troubles[:] = [t for t in visitor.troubles if "422" not in t]


def test_a_group_can_be_created(visitor: Visitor) -> None:
    page = visitor.go("~/create-group/")
    page.get_by_label("Group ID").fill("GID_walk")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("link", name="GID_walk", exact=True)).to_be_visible()


@pytest.mark.parametrize(("name", "naming"), [("walk-namespaced", "true"), ("walk-default", "false")])
def test_an_instance_with_and_without_a_namespace_can_be_created(visitor: Visitor, name: str, naming: str) -> None:
    page = visitor.go("/instances/create/")
    page.get_by_label("Name", exact=True).fill(name)
    page.locator(
        f'[name=independent_naming][value="{naming.title()}"], [name=independent_naming][value={naming}]'
    ).check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    visitor.shoot(name)


def test_client_settings_carry_the_real_values(visitor: Visitor, product: Product) -> None:
    page = visitor.go("~/client/")
    text = page.get_by_role("main").inner_text()
    for value in (product.demo["namesrv"], product.demo["instance_id"], product.demo["access_key_id"]):
        assert value in text
    for library in ("ons-client", "rocketmq-client", "brokercore.client", "mqadmin"):
        assert library in text
    assert product.demo["access_key_secret"] not in text
    visitor.shoot("client-settings")


def test_messages_are_seen_as_they_come(visitor: Visitor) -> None:
    page = visitor.go("~/topics/walk-normal/live/")
    expect(page.locator("[data-tail-status]")).to_contain_text("Waiting")
    rows = page.locator("[data-tail-rows] tr")
    other = page.context.new_page()
    for body in ("first seen", "while paused"):
        other.goto(visitor.product.demo["console"] + f"{visitor.instance_path}/topics/walk-normal/publish/")
        other.get_by_label("Body").fill(body)
        other.get_by_role("button", name="Publish").click()
        expect(other.locator("#publish .alert-success")).to_be_visible()
        if body == "first seen":
            expect(rows.first).to_contain_text(body, timeout=20_000)
            page.get_by_role("button", name="Pause").click()
    other.close()
    expect(page.locator("[data-tail-status]")).to_contain_text("paused, new messages: 1", timeout=20_000)
    expect(rows).to_have_count(1)
    visitor.shoot("live")
    page.get_by_role("button", name="Go on").click()
    expect(rows.first).to_contain_text("while paused")


def test_a_test_message_is_published_found_by_id_and_by_key_and_opened(visitor: Visitor) -> None:
    page = visitor.go("~/topics/walk-normal/publish/")
    page.get_by_label("Body").fill('{"said": "<b>hello</b>", "to": "世界"}')
    page.get_by_label("Tag").fill("greeting")
    page.get_by_label("Key", exact=False).first.fill("walk-key-1")
    page.get_by_role("button", name="Publish").click()
    link = page.locator("#publish .alert-success a")
    message_id = link.inner_text()
    visitor.shoot("published")

    page = visitor.go(f"~/messages/?by=id&search=1&topic=walk-normal&message_id={message_id}")
    expect(page.get_by_role("link", name=message_id).first).to_be_visible()
    page = visitor.go("~/messages/?by=key&search=1&topic=walk-normal&key=walk-key-1")
    page.get_by_role("link", name=message_id).first.click()
    expect(page.get_by_role("heading", name="Message", exact=True)).to_be_visible()
    body = page.get_by_role("main").inner_text()
    assert "<b>hello</b>" in body
    assert "世界" in body
    assert "greeting" in body
    visitor.shoot("message")


def test_messages_are_found_by_topic_and_time(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("~/messages/")
    page.get_by_label("Topic").fill("flights")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#search table tbody tr").first).to_be_visible()
    # The zone is that of the browser, which conftest.py chooses.
    expect(page.get_by_role("columnheader", name="Stored (Europe/Berlin)")).to_be_visible()
    visitor.shoot("messages")


def test_consumer_status_shows_clients_subscriptions_and_progress(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("~/groups/GID_flights/")
    expect(page.locator("#clients").get_by_text("PYTHON").first).to_be_visible()
    assert "flights" in page.get_by_role("main").inner_text()
    visitor.shoot("consumer-status")


def test_an_offset_is_reset_after_a_preview(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("~/groups/GID_reminders/reset/")
    page.get_by_label("Topic").fill("reminders")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Effect in reminders")).to_be_visible()
    visitor.shoot("reset-preview")
    page.get_by_role("button", name="Reset the offset").click()
    expect(page.get_by_role("heading", name="Effect in reminders")).to_be_hidden()


def test_a_dead_letter_is_inspected_and_sent_again(visitor: Visitor, traffic: Path) -> None:
    page = visitor.page

    def letters() -> int:
        visitor.go("~/groups/GID_flights/dead-letters/")
        return page.locator("input[name=letter]").count()

    eventually(lambda: letters() >= 2, seconds=120, every=2, what="dead letters of the failing consumer")
    page.locator("input[name=letter]").nth(0).check()
    page.locator("input[name=letter]").nth(1).check()
    page.get_by_role("button", name="Resend selected").click()
    page.get_by_role("dialog").get_by_role("button", name="Resend").click()
    expect(page.locator("#resent").get_by_text("resent", exact=True)).to_have_count(2)
    visitor.shoot("dead-letters-resent")
    visitor.go("~/groups/GID_flights/dead-letters/")
    expect(page.get_by_role("row").filter(has_text=re.compile("sent|by ", re.IGNORECASE)).first).to_be_visible()
    page.locator("a[href*='/dead-letters/']").filter(has_text=re.compile("^[0-9A-F]{32}")).first.click()
    expect(page.get_by_text("CARRIER", exact=False).or_(page.get_by_text("carrier", exact=False)).first).to_be_visible()
    visitor.shoot("dead-letter")


def test_who_is_on_call_needs_few_clicks(visitor: Visitor, traffic: Path) -> None:
    page, clicks = visitor.page, 0

    def click(what: Locator) -> None:
        nonlocal clicks
        clicks += 1
        what.click()

    def begin() -> None:
        nonlocal clicks
        clicks = 0
        visitor.go("/")

    begin()  # how far is a group behind, and where
    click(page.locator("#backlogs").get_by_role("link", name="GID_flights", exact=True))
    expect(page.get_by_role("heading", name="Progress")).to_be_visible()
    expect(page.get_by_text("age of the oldest message waiting")).to_be_visible()
    assert clicks <= 2
    # All dead letters once more: the test before this one has sent what there was, so some must have died since.
    eventually(
        lambda: visitor.go("~/groups/GID_flights/dead-letters/?state=unsent").locator("input[name=letter]").count(),
        seconds=120,
        every=2,
        what="a dead letter that nobody has sent again",
    )
    begin()
    click(page.locator("#attention").get_by_role("link", name=re.compile("^Inspect: .* in GID_flights")))
    click(page.get_by_role("button", name="Resend all…"))
    click(page.get_by_role("dialog").get_by_role("button", name="Resend"))
    expect(page.locator("#resend-results").get_by_text("resent", exact=True).first).to_be_visible()
    assert clicks <= 4
    visitor.go("~/create-topic/")
    page.get_by_label("Name").fill("short-lived")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("textbox").fill("short-lived")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Topics", exact=True)).to_be_visible()
    begin()  # who deleted a topic
    click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Audit"))
    page.get_by_label("Search", exact=True).fill("deleted topic short-lived")
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("row").filter(has_text="topics.topic.delete").filter(has_text="short-lived")
    ).to_be_visible()
    assert clicks <= 2


def test_the_curves_of_topic_and_group_are_drawn(visitor: Visitor, traffic: Path) -> None:
    page = visitor.page

    def sampled() -> bool:
        visitor.go("~/topics/flights/statistics/")
        return page.locator("[data-chart]").count() > 0

    eventually(sampled, seconds=90, every=3, what="samples of the topic flights")
    expect(page.locator("[data-chart] svg.main-svg").first).to_be_visible()
    visitor.shoot("curve-topic")
    visitor.go("~/groups/GID_flights/statistics/")
    expect(page.locator("[data-chart] svg.main-svg").first).to_be_visible()
    visitor.shoot("curve-group")


def test_an_access_key_secret_is_shown_once(visitor: Visitor) -> None:
    page = visitor.go("/keys/")
    page.get_by_role("button", name="Create AccessKey").click()
    card = page.locator(".secret-card")
    expect(card).to_be_visible()
    secret = card.locator("dd").nth(1).inner_text().split()[0]
    visitor.go("/keys/")
    assert secret not in page.content()


def test_every_change_is_on_the_audit_page(visitor: Visitor) -> None:
    page = visitor.go("/audit/")
    text = page.get_by_role("main").inner_text()
    assert "topics.topic.create" in text or "walk-normal" in text
    visitor.shoot("audit")


@pytest.mark.parametrize(
    "place",
    [("/", "Overview"), ("~/topics/", "Topics"), ("~/groups/GID_flights/", "GID_flights"), ("/sql/", "Async SQL")],
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_in_both_schemes(
    browser: Browser, product: Product, visitor: Visitor, place: tuple[str, str], scheme: str
) -> None:
    path, heading = place
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        color_scheme="dark" if scheme == "dark" else "light",
        storage_state=visitor.page.context.storage_state(),
    )
    phone = Visitor(context.new_page(), product)
    phone.go(path)
    expect(phone.page.get_by_role("heading", name=heading, exact=True).first).to_be_visible()
    wide = phone.page.evaluate("document.documentElement.scrollWidth")
    phone.shoot(f"phone-{heading.replace(' ', '-')}-{scheme}")
    context.close()
    assert phone.troubles == []
    assert wide <= 390


def test_the_keyboard_reaches_the_content_past_the_navigation(visitor: Visitor) -> None:
    page = visitor.go("/")
    page.keyboard.press("Tab")
    assert "content" in page.evaluate("document.activeElement.textContent").lower()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
