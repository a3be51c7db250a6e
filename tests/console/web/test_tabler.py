"""What pages are sent of Tabler's stylesheet is what they use of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import tabler


def test_the_stylesheet_is_what_the_sources_use() -> None:
    assert tabler.USED.read_text(encoding="utf-8") == tabler.used(), "run `python -m tests.support.tabler`"


@pytest.mark.parametrize(
    ("selector", "is_kept"),
    [
        (".btn-primary:hover", True),
        (".bg-red-lt", True),
        (".carousel-item.active", False),
        ("a:not(.carousel):hover", True),
        ("[data-bs-theme=dark] .form-control", True),
    ],
)
def test_a_selector_is_kept_when_all_its_classes_can_be_used(selector: str, is_kept: bool) -> None:
    words, beginnings = {"btn-primary", "form-control", "active"}, ("bg-",)
    assert tabler._is_used(selector, words, beginnings) is is_kept


def test_every_class_of_tabler_that_a_template_names_is_there() -> None:
    whole, used = (tabler._CLASS.findall(file.read_text(encoding="utf-8")) for file in (tabler.WHOLE, tabler.USED))
    named = {
        name
        for file in Path(tabler.ROOT / "templates").rglob("*.html")
        for classes in re.findall(r'class="([^"]*)"', file.read_text(encoding="utf-8"))
        for name in re.findall(r"[A-Za-z][\w-]*", re.sub(r"\{[{%].*?[}%]\}", " ", classes))
    }
    assert named & set(whole) <= set(used)
