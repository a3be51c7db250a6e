"""No page of a signed-in person stays in a cache, from which the next one at the same machine could read it."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.cast import Cast


@pytest.mark.parametrize(
    "path", ["/", "/keys/", "/security/", "/audit/", "/users/", "/no/such/page", "/account/logout/"]
)
@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["page", "fragment"])
def test_everything_after_the_sign_in_is_kept_nowhere(cast: Cast, path: str, headers: dict[str, str]) -> None:
    answer = cast.client("alice").get(path, headers=headers)
    assert "no-store" in answer["Cache-Control"]


def test_what_leads_to_it_is_kept_nowhere_either(cast: Cast) -> None:
    for answer in (Client().get("/account/login/"), Client().get("/keys/"), Client().post("/json/topic/list")):
        assert "no-store" in answer["Cache-Control"]


def test_static_files_are_kept(cast: Cast) -> None:
    answer = cast.client("alice").get("/static/css/base.css")
    assert (answer.status_code, "no-store" in answer["Cache-Control"]) == (200, False)
