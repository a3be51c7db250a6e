"""Each page once, for one who may see it: PostgreSQL is asked this instead of all that `test_permissions.py` asks."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from django.db import transaction
from django.urls import reverse

from tests.console.web.matrix import MATRIX, ROLES, Row
from tests.support.cast import Cast


def test_every_page_opens_for_who_may_see_it(cast: Cast, world: dict[str, str]) -> None:
    answers = {str(row): answer.status_code for row, answer in pages(cast, world)}
    assert {row: status for row, status in answers.items() if status != 200} == {}
    assert len(answers) > 100


def pages(cast: Cast, world: dict[str, str], **more: Any) -> Iterator[tuple[Row, Any]]:
    """Each page of the matrix with its answer to one who may see it; `more` is of the client's `get`."""
    for row in MATRIX:
        role = _who_sees(row)
        if row.method != "get" or not role:
            continue
        client = cast.client(role)
        cookies = copy(client.cookies)
        url = reverse(row.url_name, args=[world.get(argument, argument) for argument in row.arguments])
        data = {name: world.get(value, value).replace("{role}", role) for name, value in row.data.items()}
        # One may end the session or begin another.
        with transaction.atomic():
            answer = client.get(url, data, **more)
            transaction.set_rollback(True)
        client.cookies = cookies
        yield row, answer


def _who_sees(row: Row) -> str:
    """An administrator of the platform or of the account rather than somebody else; nobody, where all are sent away."""
    return next((role for role in reversed(ROLES) if getattr(row.expected, role) == 200), "")
