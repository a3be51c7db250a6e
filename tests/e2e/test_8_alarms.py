"""From the first page to an alarm that a webhook is told, and to who sees to it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Visitor
from tests.support.product import Product, eventually
from tests.support.receivers import Receiver, receiver

MOST_CLICKS = 6
#: A new topic's route, a sample every ten seconds, a round every fifteen, and a sender.
_WAIT_S = 180


@pytest.fixture(scope="module")
def taker() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def test_a_recipient_gets_a_test(visitor: Visitor, taker: Receiver) -> None:
    page = visitor.go("/alarms/recipients/")
    expect(page.get_by_text("No recipient yet")).to_be_visible()
    page.get_by_role("link", name="Add a recipient").click()
    page.get_by_label("Name", exact=True).fill("on call")
    page.get_by_label("By", exact=True).select_option("webhook")
    page.get_by_label("Address").fill(f"{taker.url}/hook")
    page.get_by_label("Secret").fill("sesam-open-thou")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Send a test to on call").click()
    expect(page.get_by_role("row").filter(has_text="on call").get_by_text("Delivered")).to_be_visible()
    assert [json.loads(body)["event"] for body in taker.bodies] == ["test"]
    visitor.shoot("alarm-recipients")


def test_an_alarm_on_a_group_takes_few_clicks_and_is_told(visitor: Visitor, taker: Receiver, product: Product) -> None:
    group = str(product.demo["group"])
    page, clicks = visitor.go("/"), 0

    def click(role: str, name: str) -> None:
        nonlocal clicks
        clicks += 1
        page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]

    click("link", "Groups")
    click("link", group)
    click("link", "Alarm on this")
    page.get_by_label("Name", exact=True).fill("somebody is offline")
    page.get_by_label("Condition").select_option("group.offline")
    page.get_by_label("For minutes").fill("0")
    page.get_by_text("on call (Webhook)").click()
    clicks += 1
    click("button", "Create")
    assert clicks <= MOST_CLICKS
    page.get_by_role("heading", name="somebody is offline", exact=True).wait_for()
    eventually(lambda: len(taker.bodies) > 1, seconds=_WAIT_S, every=1, what="the webhook is told")
    told = json.loads(taker.bodies[1])
    assert (told["event"], told["rule"]) == ("fired", "somebody is offline")
    assert told["sentence"].startswith(f"{group} is offline")
    assert taker.pushed[1].headers["x-gantry-signature"].startswith("sha256=")
    page.goto(told["page"])
    expect(page.get_by_role("heading", name=group, exact=True)).to_be_visible()


def test_the_page_of_a_rule_draws_what_it_watches(visitor: Visitor) -> None:
    page = visitor.go("/alarms/rules/create/?condition=group.backlog&threshold=5")
    page.get_by_label("Name", exact=True).fill("behind")
    page.get_by_label("Tell again after minutes").fill("30")
    page.get_by_text("on call (Webhook)").click()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="behind", exact=True)).to_be_visible()
    expect(page.locator("#curve .main-svg").first).to_be_visible()
    expect(page.locator("#curve").get_by_text("threshold · 5")).to_be_visible()
    expect(page.get_by_text("every 30 min, until somebody acknowledges it")).to_be_visible()
    page.locator("#curve").get_by_role("link", name="A day").click()
    expect(page.locator("#curve").get_by_role("link", name="A day")).to_have_attribute("aria-current", "true")
    expect(page.locator("#curve .main-svg").first).to_be_visible()
    visitor.shoot("alarm-rule")
    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("textbox").fill("behind")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="For Prometheus").click()
    assert "gantry_alarms_firing" in download.value.path().read_text()


def test_somebody_sees_to_it_and_the_rule_is_deleted(visitor: Visitor) -> None:
    page = visitor.go("/alarms/")
    visitor.shoot("alarms")
    page.get_by_role("button", name="Acknowledge").first.click()
    expect(page.get_by_text("sees to it")).to_be_visible()
    page.get_by_role("link", name="Rules", exact=True).click()
    page.get_by_role("link", name="somebody is offline").click()
    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("textbox").fill("somebody is offline")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No alarm rule yet")).to_be_visible()
    visitor.go("/alarms/")
    expect(page.get_by_text("somebody is offline").first).to_be_visible()
