"""Nothing is changed by a request that no page of ours has made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from tests.console.web.matrix import MATRIX
from tests.support.cast import Cast

TEMPLATES = Path(settings.BASE_DIR) / "templates"
#: Requests of machines, which are signed or know a secret address; a cookie is worth nothing there.
OF_MACHINES = {"openapi.call", "openapi.mcp", "openapi.rpc", "feeds.receive"}
_FORM = re.compile(r'<form\b[^>]*method="post".*?</form>', re.DOTALL | re.IGNORECASE)


@pytest.mark.parametrize("template", sorted(TEMPLATES.glob("**/*.html")), ids=lambda path: path.name)
def test_every_form_that_changes_something_has_a_token(template: Path) -> None:
    for form in _FORM.findall(template.read_text()):
        parts = re.findall(r'{% include "([^"]+)"', form)
        assert "{% csrf_token %}" in form + "".join((TEMPLATES / part).read_text() for part in parts), form[:120]


@pytest.mark.parametrize("name", sorted({row.url_name for row in MATRIX if row.method == "post"} - OF_MACHINES))
def test_no_page_takes_a_post_without_a_token(cast: Cast, name: str) -> None:
    row = next(row for row in MATRIX if row.url_name == name and row.method == "post")
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.alice, "allauth.account.auth_backends.AuthenticationBackend")
    arguments = [re.sub(r"\W", "x", str(argument)) for argument in row.arguments]
    try:
        url = reverse(name, args=arguments)
    except Exception:  # noqa: BLE001 (a number is wanted)
        url = reverse(name, args=[1 for _ in arguments])
    answer = client.post(url, row.data or {})
    assert answer.status_code == 403
    assert "CSRF" in answer.content.decode() or "another site" in answer.content.decode()
