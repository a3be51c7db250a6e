"""Cells that are written without a template escape whatever people called themselves and their things."""

from __future__ import annotations

import pytest

from console.accounts import tables
from console.accounts.models import User

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


@pytest.mark.parametrize("administrator", [False, True])
def test_the_name_of_a_user_is_escaped(administrator: bool) -> None:
    user = User(username="bob@acme", first_name=HOSTILE, last_name="<b>", is_tenant_admin=administrator)
    cell = tables.user_name(user)
    assert "<img" not in cell
    assert "<b>" not in cell
    assert "&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp; &lt;b&gt;" in cell


@pytest.mark.parametrize("shown", [1, tables.SHOWN + 1])
def test_names_in_badges_and_those_on_hover_are_escaped(shown: int) -> None:
    cell = tables.badges([f"{number}{HOSTILE}" for number in range(shown)], none="none")
    assert "<img" not in cell
    assert 'title="0<' not in cell
    assert "0&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;" in cell
    assert cell.count('"') % 2 == 0


def test_what_stands_for_nothing_is_escaped() -> None:
    assert "<img" not in tables.badges([], none=HOSTILE)
