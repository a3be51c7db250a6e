"""What every page needs comes as one file of each kind, kept for as long as nothing in it changes."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from console.web.bundles import BUNDLES, bundle_url


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_has_its_files_in_their_order_and_is_kept_for_good(name: str) -> None:
    answer = Client().get(bundle_url(name))
    parts = [(Path(settings.STATIC_ROOT) / path).read_bytes() for path in BUNDLES[name]]
    places = [answer.content.index(part) for part in parts]
    assert places == sorted(places)
    assert "immutable" in answer["Cache-Control"] and "Set-Cookie" not in answer
    packed = Client().get(bundle_url(name), headers={"Accept-Encoding": "gzip, br"})
    assert packed["Content-Encoding"] == "gzip" and gzip.decompress(packed.content) == answer.content
    assert packed["Vary"] == "Accept-Encoding" and len(packed.content) < len(answer.content) / 2


def test_an_address_of_another_release_is_answered_and_not_kept() -> None:
    answer = Client().get("/bundles/0123456789abcdef/page.css")
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert Client().get("/bundles/0123456789abcdef/other.css").status_code == 404
    assert Client().get(f"{bundle_url('page.css')}/../page.js").status_code == 404


def test_a_changed_file_is_another_address(tmp_path: Path, settings: Any) -> None:
    for path in BUNDLES["page.css"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("a{}")
    settings.STATIC_ROOT = tmp_path
    before = bundle_url("page.css")
    changed = tmp_path / BUNDLES["page.css"][0]
    changed.write_text("b{}")
    os.utime(changed, ns=(1, 1))
    assert bundle_url("page.css") != before
    assert b"b{}" in Client().get(bundle_url("page.css")).content


def test_a_page_asks_for_the_bundles_and_not_for_their_files(db: None) -> None:
    page = Client().get("/account/login/").content.decode()
    asked = set(re.findall(r'(?:href|src)="([^"]+)"', page))
    assert {bundle_url(name) for name in BUNDLES} <= asked
    assert not [path for files in BUNDLES.values() for path in files if any(path in one for one in asked)]
