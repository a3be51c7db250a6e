"""Lists as people work with them: who sends to a topic, views that are kept, and what is done to many at once."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.conftest import Visitor
from tests.support.product import eventually


def test_who_sends_to_a_topic_is_seen_while_it_sends(visitor: Visitor, traffic: Path) -> None:
    page = visitor.go("~/topics/bookings-tx/")
    page.get_by_role("link", name="Producers").click()
    eventually(
        lambda: page.reload() and page.get_by_role("cell", name="online").count(),
        seconds=120,
        what="the producer of transactions",
    )
    row = page.get_by_role("row").filter(has_text="online").first
    expect(row).to_contain_text("GID_bookings")
    expect(row).to_contain_text("PYTHON")
    visitor.shoot("producers")


def test_a_view_is_kept_opens_first_and_is_left(visitor: Visitor) -> None:
    page = visitor.go("~/topics/?q=flights&sort=-in_tps")
    page.get_by_text("Views", exact=True).click()
    visitor.shoot("views")
    page.get_by_label("Keep this view as").fill("Flights, busiest first")
    page.get_by_label("Open the list with it").check()
    page.get_by_role("button", name="Keep").click()
    expect(page.get_by_text("The view Flights, busiest first is kept.")).to_be_visible()
    page = visitor.go("~/topics/")
    expect(page.get_by_label("Search topics")).to_have_value("flights")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="Everything").click()
    expect(page.get_by_role("link", name="reminders", exact=True)).to_be_visible()
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="Rename or delete").click()
    visitor.shoot("views-of-a-list")
    page.get_by_role("button", name="Delete Flights, busiest first").click()
    expect(page.get_by_text("No view of this list")).to_be_visible()


def test_many_topics_are_deleted_together(visitor: Visitor) -> None:
    for number in range(3):
        page = visitor.go("~/create-topic/")
        page.get_by_label("Name").fill(f"lists-{number}")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name=f"lists-{number}", exact=True)).to_be_visible()
    page = visitor.go("~/topics/?q=lists-")
    page.get_by_role("checkbox", name="Choose all on this page").check()
    visitor.shoot("chosen")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Delete 3 topics")).to_be_visible()
    visitor.shoot("delete-many")
    page.get_by_label("which is how many you chose").fill("3")
    page.get_by_role("button", name="Delete 3 topics").click()
    expect(page.get_by_role("status").filter(has_text="3 done")).to_be_visible()
    visitor.shoot("deleted-many")
    page = visitor.go("~/topics/?q=lists-")
    expect(page.get_by_text("No topic matches the search")).to_be_visible()
