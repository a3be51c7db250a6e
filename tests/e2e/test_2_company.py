"""An administrator gives the console to a team: a policy, a user, what the user sees, and what stands on record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import PATIENCE_MS, Visitor
from tests.support.product import Product

POLICY, GROUP, USER = "flights-only", "analysts", "ada"
NEW_PASSWORD = "Analytical-engine-1843"


def document(product: Product) -> dict[str, object]:
    """Everything that is only for looking, on one topic and the instance around it."""
    instance = product.demo["instance_id"]
    resources = [f"acs:mq:*:*:{instance}", f"acs:mq:*:*:{instance}%flights"]
    return {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": ["mq:Query*"], "Resource": resources}],
    }


@pytest.fixture(scope="module")
def first_password() -> dict[str, str]:
    """What the pages show once, handed from one test to the next."""
    return {}


@pytest.fixture(scope="module")
def ada(browser: Browser, product: Product) -> Iterator[Page]:
    """The user's own browser."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def test_a_policy_with_a_mistake_is_refused_at_its_line(visitor: Visitor, product: Product) -> None:
    page = visitor.go("/policies/")
    page.get_by_role("link", name="Create policy").click()
    page.get_by_label("Name").fill(POLICY)
    wrong = json.dumps(document(product), indent=2).replace('"Allow"', '"Permit"')
    page.get_by_label("Document").fill(wrong)
    expect(page.get_by_text("Line 5")).to_be_visible()
    visitor.shoot("policy-refused")
    page.get_by_label("Document").fill(json.dumps(document(product), indent=2))
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name=POLICY, exact=True)).to_be_visible()
    visitor.shoot("policy")


def test_a_user_in_a_group_gets_a_first_password(visitor: Visitor, first_password: dict[str, str]) -> None:
    page = visitor.go("/create-user-group/")
    page.get_by_label("Name").fill(GROUP)
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name=GROUP, exact=True)).to_be_visible()
    page = visitor.go("/users/create/")
    page.get_by_label("Name", exact=True).fill(USER)
    page.get_by_label(re.compile(f"^{GROUP}")).check()
    page.get_by_label(re.compile(f"^{POLICY}")).check()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile(f"{USER}@demo"))).to_be_visible()
    shown = page.locator("dt:has-text('Password') + dd").inner_text()
    first_password["ada"] = shown.split()[0]
    visitor.shoot("user-created")
    page = visitor.go("/users/")
    expect(page.get_by_role("link", name=f"{USER}@demo")).to_be_visible()
    visitor.shoot("users")


def test_the_user_must_change_the_first_password(ada: Page, product: Product, first_password: dict[str, str]) -> None:
    ada.goto(product.demo["console"])
    ada.get_by_label("User name").fill(f"{USER}@demo")
    ada.get_by_label("Password").fill(first_password["ada"])
    ada.get_by_role("button", name="Sign in", exact=True).click()
    expect(ada.get_by_role("heading", name="Change password")).to_be_visible()
    ada.get_by_label(re.compile("Current")).fill(first_password["ada"])
    for field in ada.get_by_label(re.compile("New Password")).all():
        field.fill(NEW_PASSWORD)
    ada.get_by_role("button", name="Change", exact=True).click()
    expect(ada.get_by_role("heading", name="Overview")).to_be_visible()


def test_the_user_sees_what_the_policy_allows_and_nothing_else(ada: Page, product: Product) -> None:
    base = f"{product.demo['console']}/i/{product.demo['instance_id']}"
    ada.goto(f"{base}/topics/")
    expect(ada.get_by_role("link", name="flights", exact=True)).to_be_visible()
    expect(ada.get_by_role("link", name="bookings-tx", exact=True)).to_have_count(0)
    answer = ada.goto(f"{base}/topics/bookings-tx/")
    assert answer is not None
    assert answer.status == 403
    expect(ada.get_by_text(re.compile(r"no statement allows mq:QueryTopic on acs:mq:.*%bookings-tx"))).to_be_visible()
    answer = ada.goto(f"{product.demo['console']}/users/")
    assert answer is not None
    assert answer.status == 403


def test_the_simulator_tells_why(visitor: Visitor, product: Product) -> None:
    page = visitor.go("/policies/simulator/")
    page.get_by_label("A user", exact=True).check()
    page.get_by_label(re.compile("^User")).fill(f"{USER}@demo")
    page.get_by_label("Action").fill("mq:PUB")
    page.get_by_label("Resource").fill(f"acs:mq:*:*:{product.demo['instance_id']}%flights")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("heading", name="Denied")).to_be_visible()
    expect(page.get_by_text("no statement allows mq:PUB").first).to_be_visible()
    visitor.shoot("simulator")


def test_the_api_tool_signs_and_sends(visitor: Visitor, product: Product) -> None:
    page = visitor.go("/api-tool/topic/listInPage")
    page.get_by_label("instanceId").fill(product.demo["instance_id"])
    page.get_by_role("button", name="Sign and send").click()
    expect(page.get_by_role("heading", name="Answer")).to_be_visible()
    expect(page.get_by_label("Envelope")).to_contain_text("bookings-tx")
    visitor.shoot("api-tool")


def test_all_of_it_is_on_record(visitor: Visitor) -> None:
    page = visitor.go(f"/audit/?q={USER}@demo")
    expect(page.get_by_text("accounts.user.create").first).to_be_visible()
    expect(page.get_by_text("mq:QueryTopic").first).to_be_visible()
    visitor.shoot("audit")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    text = Path(download.value.path()).read_text()
    assert "accounts.user.create" in text
    assert NEW_PASSWORD not in text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("keys", "/keys/"), ("security", "/security/"), ("roles", "/roles/"), ("policies", "/policies/"),
        ("user-groups", "/user-groups/"), ("shared-topics", "/grants/"), ("single-sign-on", "/single-sign-on/"),
        ("api-tool-directory", "/api-tool/"), ("drift", "/drift/"),
    ],
)  # fmt: skip
def test_the_pages_of_the_account(visitor: Visitor, name: str, path: str) -> None:
    page = visitor.go(path)
    expect(page.get_by_role("main")).to_be_visible()
    visitor.shoot(name)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    visitor.shoot(f"{name}-390")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_platforms_administrator_keeps_accounts_and_sees_none_from_inside(
    browser: Browser, product: Product
) -> None:
    platform = product.demo["platform"]
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(product.demo["console"])
    page.get_by_label("User name").fill(platform["username"])
    page.get_by_label("Password").fill(platform["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("link", name="demo", exact=True)).to_be_visible()
    answer = page.goto(f"{product.demo['console']}/i/{product.demo['instance_id']}/topics/")
    assert answer is not None
    assert answer.status in (403, 404)
    context.close()
