"""Dead letters in a browser: looked at beside the list, and sent again, all of a range, in few clicks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from console.messaging import dead_letters
from console.messaging.models import Resend
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast
from tests.support.chromium import visiting

LETTERS = 100


@pytest.mark.django_db(transaction=True)
def test_a_hundred_letters_are_looked_at_and_sent_again(
    cast: Cast, live: Live, live_server: Any, settings: Any, tmp_path: Path
) -> None:
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    topic, group = live.topic(), live.group()
    for number in range(LETTERS):
        live.send(topic, b'{"order": %d}' % number, tags="paid", keys=f"order-{number}")
    live.consume(group, topic, fail=True, retries=0)
    now_ms = int(time.time() * 1000)

    def all_dead() -> bool:
        page = dead_letters.search(live.actor, group, now_ms - 600_000, now_ms + 600_000)
        return page is not None and page.total == LETTERS

    eventually(all_dead, 60)
    live.stop_consumers()
    listed = reverse("messaging.dead_letters", args=[live.instance.instance_id, group.group_id])
    newest = dead_letter_id(live, group)
    with visiting(live_server.url, viewport={"width": 1280, "height": 900}) as page:
        page.goto(listed)
        page.get_by_role("link", name=newest).click()
        expect(page.get_by_label("Preview").get_by_text("order-")).to_be_visible()
        assert page.url.endswith(listed)

        page.locator("tbody input[type=checkbox]").first.check()
        page.get_by_role("button", name="Resend selected").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("No consumer of the group is online")).to_be_visible()
        dialog.get_by_role("button", name="Resend").click()
        expect(page.get_by_label("Results").get_by_role("listitem")).to_have_count(1)
        expect(dialog).to_have_count(0)
        expect(page.locator("tbody input[type=checkbox]").first).not_to_be_checked()
        page.get_by_label("Select all on this page").check()
        # The one that was sent is ticked by itself only.
        expect(page.locator("tbody input[type=checkbox]:checked")).to_have_count(19)

        page.get_by_role("button", name="Resend all").click()
        dialog.get_by_role("button", name="Resend").click()
        expect(page.get_by_text("99 resent, 1 left out")).to_be_visible()
        expect(page.get_by_text("Done.")).to_be_visible()
        expect(page.get_by_label("Results").get_by_role("listitem")).to_have_count(99)
    assert Resend.objects.filter(group=group, error="").count() == LETTERS


def dead_letter_id(live: Live, group: Any) -> str:
    now_ms = int(time.time() * 1000)
    page = dead_letters.search(live.actor, group, now_ms - 600_000, now_ms + 1000)
    assert page is not None
    return page.messages[0].message_id
