"""What a page offers to somebody works for that person: buttons, forms and links, judged by the table of statuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.urls import Resolver404, resolve, reverse

from tests.console.web.matrix import MATRIX, ROLES, Row
from tests.support.cast import Cast

_ASKED_BY_GET = ("href", "hx-get")
_ASKED_BY_POST = ("hx-post", "formaction")


class Offers(HTMLParser):
    """Collects where a page's links, buttons and forms lead: (method, address)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("action"):
            self.found.add((given.get("method", "get").lower(), given["action"]))
        for method, names in (("get", _ASKED_BY_GET), ("post", _ASKED_BY_POST)):
            for name in names:
                if name in given and (tag in ("a", "button", "form") or name != "href"):
                    self.found.add((method, given[name]))


def offered(html: str) -> Iterator[tuple[str, str]]:
    """The URL names that a page offers, with the method."""
    parser = Offers()
    parser.feed(html)
    for method, address in parser.found:
        parts = urlsplit(address)
        if parts.netloc or not parts.path.startswith("/"):
            continue
        try:
            yield method, resolve(parts.path).url_name or ""
        except Resolver404:
            yield method, f"nothing at {parts.path}"


def _statuses() -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in MATRIX:
        found[row.method, row.url_name].append(row)
    return found


@pytest.mark.parametrize("role", [role for role in ROLES if role != "anonymous"])
def test_what_a_page_offers_works_for_who_sees_it(role: str, cast: Cast, world: dict[str, str]) -> None:
    rows = _statuses()
    client = cast.client(role)
    wrong: dict[str, set[str]] = defaultdict(set)
    pages = 0
    for row in MATRIX:
        if row.method != "get" or getattr(row.expected, role) != 200:
            continue
        cookies = copy(client.cookies)
        url = reverse(row.url_name, args=[world.get(argument, argument) for argument in row.arguments])
        data = {name: world.get(value, value).replace("{role}", role) for name, value in row.data.items()}
        with transaction.atomic():
            response = client.get(url, data)
            transaction.set_rollback(True)
        client.cookies = cookies
        if not response.get("Content-Type", "").startswith("text/html"):
            continue
        pages += 1
        for method, name in offered(response.content.decode()):
            targets = rows.get((method, name)) or rows.get(("post" if method == "get" else "get", name), [])
            if targets and all(getattr(target.expected, role) == 403 for target in targets):
                wrong[f"{method} {name}"].add(row.url_name)
    assert pages > 10
    told = [f"{offer} on {', '.join(sorted(where))}" for offer, where in sorted(wrong.items())]
    assert not told, "\n".join(["offered and refused:", *told])
