"""What a page offers to somebody works for that person: buttons, forms and links, judged by the table of statuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from console.instances.models import Cluster
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


def _visit(client: Client, row: Row, role: str, world: dict[str, str]) -> str:
    """The page that the row's request ends on, empty where it is none; what it leaves behind is taken back."""
    cookies = copy(client.cookies)
    ask = client.get if row.method == "get" else partial(client.post, follow=True)
    with transaction.atomic():
        response = ask(_url(row, world), _data(row, role, world))
        transaction.set_rollback(True)
    client.cookies = cookies
    return response.content.decode() if response.get("Content-Type", "").startswith("text/html") else ""


def _url(row: Row, world: dict[str, str]) -> str:
    return reverse(row.url_name, args=[world.get(argument, argument) for argument in row.arguments])


def _data(row: Row, role: str, world: dict[str, str]) -> dict[str, str]:
    return {name: world.get(value, value).replace("{role}", role) for name, value in row.data.items()}


@pytest.mark.parametrize("role", [role for role in ROLES if role != "anonymous"])
def test_what_a_page_offers_works_for_who_sees_it(role: str, cast: Cast, world: dict[str, str]) -> None:
    rows = _statuses()
    client = cast.client(role)
    wrong: dict[str, set[str]] = defaultdict(set)
    pages = 0
    for row in MATRIX:
        if row.method != "get" or getattr(row.expected, role) != 200:
            continue
        html = _visit(client, row, role, world)
        pages += bool(html)
        for method, name in offered(html):
            targets = rows.get((method, name)) or rows.get(("post" if method == "get" else "get", name), [])
            if targets and all(getattr(target.expected, role) == 403 for target in targets):
                wrong[f"{method} {name}"].add(row.url_name)
    assert pages > 10
    told = [f"{offer} on {', '.join(sorted(where))}" for offer, where in sorted(wrong.items())]
    assert not told, "\n".join(["offered and refused:", *told])


def test_a_read_only_cluster_offers_no_change_of_it(cast: Cast, world: dict[str, str]) -> None:
    client = cast.client("alice")
    Cluster.objects.filter(pk=cast.cluster.pk).update(read_only=True)
    of_alice = [row for row in MATRIX if row.expected.alice in (200, 302)]
    told = f"The cluster {cast.cluster.name} is read-only: the console changes nothing there."
    changes = [row for row in of_alice if row.method == "post"]
    refused = {row.url_name for row in changes if told in _visit(client, row, "alice", world)}
    assert refused >= {"topics.create", "topics.delete", "topics.mode", "groups.create", "groups.order"}
    # What the table does not ask by POST, or not with what it takes.
    refused |= {"messaging.publish", "messaging.resend", "grants.group_create"}
    looked_at = {row.url_name for row in MATRIX if row.method == "get" and row.expected.rita == 200}
    wrong = {
        f"{method} {name} on {row.url_name}"
        for row in of_alice
        if row.method == "get" and row.url_name not in refused
        for method, name in offered(_visit(client, row, "alice", world))
        if name in refused and not (method == "get" and name in looked_at)
    }
    assert not wrong, "\n".join(["offered on a read-only cluster:", *sorted(wrong)])
