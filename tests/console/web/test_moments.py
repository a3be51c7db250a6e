"""Dates that are typed, in a browser: they choose themselves, with scripts and without."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from tests.console.live import Live
from tests.support.cast import Cast
from tests.support.chromium import visiting

BEGIN, END = "2026-01-01T00:00", "2026-01-01T06:00:00"


@pytest.mark.django_db(transaction=True)
def test_a_typed_date_is_what_counts(cast: Cast, live: Live, live_server: Any, settings: Any) -> None:
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    topic, group = live.topic(), live.group()
    live.send(topic)
    own = live.instance.instance_id
    statistics = reverse("metrics.topic", args=[own, topic.name])
    messages = f"{reverse('messaging.search', args=[own])}?topic={topic.name}"
    reset = f"{reverse('messaging.reset', args=[own, group.group_id])}?topic={topic.name}"
    with visiting(live_server.url) as page:
        page.goto(messages)
        choice = page.get_by_label("Stored", exact=True)
        page.get_by_label("From").fill(BEGIN)
        expect(choice).to_have_value("custom")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_text("1 message in this range")).to_be_visible()
        choice.select_option("1h")
        expect(page.get_by_label("From")).to_have_value("")

        page.goto(statistics)
        page.locator("#id_end").fill(END)
        expect(page).to_have_url(re.compile("range=custom"))
        expect(page.locator("#id_end")).to_be_focused()
        page.get_by_label("Range").select_option("6h")
        expect(page).to_have_url(re.compile("range=6h&begin=&end=&"))

        page.goto(reset)
        page.get_by_label(re.compile("^Time")).fill(BEGIN)
        expect(page.get_by_label(re.compile("stored at or after"))).to_be_checked()
        page.get_by_label(re.compile("new messages only")).check()
        expect(page.get_by_label(re.compile("^Time"))).to_have_value("")
    with visiting(live_server.url, scripts=False) as page:
        page.goto(messages)
        page.get_by_label("From").fill(BEGIN)
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_label("Stored", exact=True)).to_have_value("custom")
        expect(page.get_by_text("1 message in this range")).to_be_visible()
