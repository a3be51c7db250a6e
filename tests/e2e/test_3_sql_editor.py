"""The SQL editor in a browser: completion, running, progress, rows, plot, plan, cancel, hint, saving, keys, a phone."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.e2e.conftest import Visitor
from tests.e2e.editor import run, write, written
from tests.support.product import Product

BY_CARRIER = "select carrier, count(*) as flights from flights group by carrier order by flights desc"
SLOW = "select count(*) as n from flights a join flights b on a.carrier = b.carrier where a.dep_delay > b.arr_delay"


def test_names_are_completed_from_the_schema(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    write(page, "")
    page.keyboard.type("select f.dest, f.dep_d")
    page.keyboard.press("Control+A")
    write(page, "select f. from flights f")
    for _ in range(len(" from flights f")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("dep_d")
    page.locator(".CodeMirror-hint", has_text="dep_delay").wait_for()
    visitor.shoot("sql-completion")
    page.keyboard.press("Tab")
    assert written(page) == "select f.dep_delay from flights f"
    write(page, "/*+ run_async=true, mq-to")
    page.keyboard.press("Control+Space")
    page.locator(".CodeMirror-hint", has_text="mq-topic").wait_for()
    page.keyboard.press("Tab")
    assert written(page).endswith("mq-topic=")


def test_a_statement_runs_is_previewed_and_plotted(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    pane = run(page, BY_CARRIER)
    expect(pane.get_by_text("SUCCESS")).to_be_visible()
    expect(pane.get_by_role("cell", name="58665")).to_be_visible()
    pane.get_by_role("cell", name="UA", exact=True).click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Control+C")
    pane.locator("td.copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "58665"
    pane.get_by_role("link", name="Plot").click()
    pane.locator(".js-plotly-plot .bars").wait_for()
    pane.get_by_label("Kind").select_option("line")
    pane.locator(".js-plotly-plot .scatterlayer .js-line").wait_for()
    visitor.shoot("sql-plot")
    pane.get_by_text("The same numbers as a table").click()
    expect(pane.get_by_role("region", name="Numbers of the plot")).to_contain_text("UA")


def test_the_selection_or_the_statement_at_the_cursor_is_run(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    write(page, "select 'first; one' as a;\nselect 2 as b;\nselect 3 as c")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-sql-run-pane]").first.get_by_role("columnheader", name="b")).to_be_visible()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-sql-run-pane]").first.get_by_role("cell", name="first; one")).to_be_visible()
    assert page.locator("[data-sql-run-pane]").count() == 2
    assert page.locator("[data-sql-run-pane].folded").count() == 1


def test_an_error_is_shown_where_it_is(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    pane = run(page, "select carrier,\n  no_such_column\nfrom flights")
    expect(pane.get_by_role("alert")).to_contain_text("no_such_column")
    expect(page.locator(".sql-error-mark")).to_have_text("no_such_column")
    pane.get_by_role("button", name="Line 2, column 3").click()
    assert page.evaluate("gantrySql.editor.getCursor().line") == 1
    visitor.shoot("sql-error")


def test_the_plan_is_a_tree(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    pane = run(page, BY_CARRIER, "Explain")
    expect(pane.locator(".sql-operators")).to_contain_text("Scan parquet")
    visitor.shoot("sql-plan")


def test_progress_is_seen_and_a_running_statement_is_cancelled(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    pane = run(page, SLOW)
    expect(pane.get_by_role("progressbar")).to_be_visible()
    expect(pane.get_by_text(re.compile(r"stage \d+ of \d+"))).to_be_visible()
    visitor.page.screenshot(path="test-results/screenshots/sql-progress.png", full_page=True)
    pane.get_by_role("button", name="Cancel").click()
    expect(pane.get_by_text("CANCELLED", exact=True)).to_be_visible()


def test_the_hint_is_built_from_lists_and_the_notification_is_seen(visitor: Visitor, product: Product) -> None:
    page = visitor.go("/sql/")
    write(page, BY_CARRIER)
    page.keyboard.press("Escape")
    page.get_by_text("Hint: run asynchronously").click()
    for label, typed, wanted in (
        ("Instance", "demo", product.demo["instance_id"]),
        ("Topic", "query", "query-done"),
        ("Producer group", "GID_q", "GID_query"),
    ):
        field = page.get_by_role("combobox", name=label, exact=True)
        field.fill(typed)
        page.get_by_role("option", name=wanted).wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(field).to_have_value(wanted)
    page.get_by_role("button", name="Write the hint").click()
    expect(page.locator("#hint-check")).to_contain_text("query-done")
    assert written(page).startswith(
        "/*+ run_async=true, mq-notify-by=ons, mq-topic=query-done, mq-producer-id=GID_query"
    )
    assert written(page).endswith("*/\n" + BY_CARRIER)
    page.get_by_role("button", name="Run", exact=True).click()
    pane = page.locator("[data-sql-run-pane]").first
    expect(pane).to_contain_text("SUCCESS")
    expect(pane).to_contain_text("notified")
    expect(pane.get_by_role("link", name="notified")).to_be_visible()
    visitor.shoot("sql-notified")


def test_a_statement_is_saved_found_and_opened(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    write(page, "select 42 as saved")
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("the answer")
    dialog.get_by_role("button", name="Save").click()
    dialog.wait_for(state="detached")
    write(page, "select 1")
    page.get_by_role("link", name="Saved", exact=True).click()
    page.get_by_role("searchbox", name="Find a saved statement").fill("answer")
    page.get_by_role("link", name=re.compile("^the answer")).click()
    expect(page.locator(".CodeMirror-code")).to_have_text(re.compile("select 42 as saved"))
    page.get_by_role("link", name="History", exact=True).click()
    expect(page.locator(".sql-entry").first).to_contain_text("select")
    visitor.shoot("sql-history")


def test_the_tree_shows_topics_and_runs_the_first_rows(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    page.get_by_role("searchbox", name="Find a table or topic").fill("airl")
    expect(page.locator(".sql-table")).to_have_count(1)
    page.locator(".sql-table summary", has_text="airlines").click()
    page.get_by_role("button", name="First 100").click()
    expect(page.get_by_role("cell", name="Endeavor Air Inc.")).to_be_visible()
    page.get_by_role("button", name="Describe").click()
    expect(page.locator("[data-sql-run-pane]").first).to_contain_text("answered by the console")
    page.get_by_role("searchbox", name="Find a table or topic").fill("query-done")
    expect(page.locator(".sql-table summary", has_text="query-done")).to_be_visible()


def test_it_works_by_keyboard_alone(visitor: Visitor) -> None:
    page = visitor.go("/sql/")
    page.get_by_label("Schema", exact=True).focus()
    for _ in range(3):
        page.keyboard.press("Tab")  # over Save, Explain and Run
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("select 7 as seven")
    page.keyboard.press("Tab")
    assert written(page).startswith("select 7 as seven")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("columnheader", name="seven")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.CodeMirror') === null")


def test_it_fits_a_phone(browser: Browser, product: Product, visitor: Visitor) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, storage_state=visitor.page.context.storage_state()
    )
    phone = Visitor(context.new_page(), product)
    page = phone.go("/sql/")
    expect(page.locator("#sql-side")).to_be_hidden()
    page.get_by_role("button", name="Schemas").click()
    expect(page.locator("#sql-side")).to_be_visible()
    expect(run(page, BY_CARRIER).get_by_role("cell", name="58665")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.shoot("sql-390")
    assert phone.troubles == []
    context.close()


def test_it_works_without_scripts(browser: Browser, product: Product, visitor: Visitor) -> None:
    context = browser.new_context(java_script_enabled=False, storage_state=visitor.page.context.storage_state())
    page = context.new_page()
    page.goto(product.demo["console"] + "/sql/")
    page.get_by_role("textbox", name="Statement").fill("select 8 as plain")
    page.get_by_role("button", name="Run").click()
    page.wait_for_url(re.compile("/sql/tasks/"))
    assert "select 8 as plain" in page.content()
    context.close()
