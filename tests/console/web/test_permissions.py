"""Who is answered what at every URL, and that no URL is missing from the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from console.audit.models import Entry
from tests.console.web.matrix import MATRIX, ROLES, Row
from tests.support.cast import Cast


@pytest.mark.parametrize("row", MATRIX, ids=str)
def test_it_answers_everybody_as_the_table_says(row: Row, cast: Cast, world: dict[str, str]) -> None:
    url = reverse(row.url_name, args=[world.get(argument, argument) for argument in row.arguments])
    answers = {}
    for role in ROLES:
        client = cast.client(role)
        # What one role changes is undone before the next one comes.
        with transaction.atomic():
            # A rolled back row leaves its topic on the broker, where the next role's would clash: names tell the role.
            data = {name: world.get(value, value).replace("{role}", role) for name, value in row.data.items()}
            response = getattr(client, row.method)(url, data)
            transaction.set_rollback(True)
        answers[role] = response.status_code
        if role == "anonymous" and row.expected.anonymous == 302 and row.url_name not in ("account_logout", "language"):
            assert response["Location"].startswith(reverse("account_login"))
    assert answers == row.expected._asdict()


def test_it_has_a_row_for_every_url() -> None:
    known = {row.url_name for row in MATRIX}
    names = set(_url_names(get_resolver().url_patterns))
    assert not names - known, f"add rows to tests/console/web/matrix.py: {sorted(names - known)}"
    assert not known - names, f"rows without a URL: {sorted(known - names)}"


def test_it_records_a_refused_attempt(cast: Cast, world: dict[str, str]) -> None:
    cast.client("rita").post(reverse("topics.mode", args=[world["instance"], "orders"]), {"perm": "4"})
    entry = Entry.objects.get(result="refused")
    assert (entry.actor, entry.action) == ("rita@acme", "mq:UpdateTopic")
    assert "no statement allows mq:UpdateTopic" in entry.detail["reason"]


def _url_names(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _url_names(pattern.url_patterns)
        else:
            assert pattern.name, f"{pattern.pattern} has no name"
            yield pattern.name
