"""The documentation as pages: each renders, each link in it leads somewhere, and nothing else is served."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from console.manual import pages
from tests.support.cast import Cast

pytestmark = pytest.mark.database


def test_every_page_renders_and_each_of_its_links_leads_somewhere() -> None:
    assert len(pages.names()) > 40
    anchors = {}
    for name in pages.names():
        found = pages.page(name)
        assert found is not None and found.title
        anchors[pages.url_of(name)] = {*re.findall(r' id="([^"]+)"', found.html), ""}
        assert " style=" not in found.html and "<script" not in found.html, name
    for name in pages.names():
        found = pages.page(name)
        assert found is not None
        for address in re.findall(r'href="([^"]+)"', found.html):
            if address.startswith("http"):
                continue
            page, _, fragment = address.partition("#")
            page = page or pages.url_of(name)
            assert page in anchors, f"{name} leads to {address}"
            assert fragment in anchors[page], f"{name} leads to {address}, and there is no such heading"


def test_a_table_a_heading_and_a_link_are_as_the_files_say() -> None:
    found = pages.page("use/messages")
    assert found is not None and found.title.startswith("Messages")
    assert '<div class="table-scroll" tabindex="0"><table class="table">' in found.html
    assert any(heading.slug == "dead-letters" for heading in found.headings)
    assert f'href="{reverse("manual.page", args=["use/management-api"])}"' in found.html


@pytest.mark.parametrize(
    "name",
    ["../README", "use/../../manage", "use/nothing", "use", "operate/grafana-dashboard", "%2e%2e/x", "use/messages.md"],
)
def test_only_pages_are_served(cast: Cast, name: str) -> None:
    assert pages.page(name) is None
    assert cast.client("alice").get(f"/docs/{name}/").status_code == 404


def test_a_page_of_the_console_leads_to_the_one_that_explains_it(cast: Cast) -> None:
    page = cast.client("alice").get(reverse("alarms.list")).content.decode()
    assert f'href="{reverse("manual.page", args=["use/alarms"])}"' in page
    assert pages.about("messaging.dead_letters") == "use/messages"
    assert pages.about("accounts.policies") == "use/permissions" and pages.about("accounts.user") == "use/sign-in"
    assert pages.about("something") == pages.INDEX


def test_each_explained_page_is_there() -> None:
    assert set(pages._ABOUT.values()) <= pages.names()


def test_the_index_and_a_page_are_for_everybody_who_has_signed_in(cast: Cast, client: Any) -> None:
    for who in ("alice", "nora", "petra"):
        assert cast.client(who).get(reverse("manual.index")).status_code == 200
        assert "Dead letters" in cast.client(who).get(reverse("manual.page", args=["use/messages"])).content.decode()
    assert client.get(reverse("manual.index")).status_code == 302
