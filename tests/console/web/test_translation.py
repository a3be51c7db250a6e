"""The catalogues say everything that pages and the command line say, with the same places for values and elements."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import polib
import pytest
from django.utils import translation

from console.web import script_texts
from tests.support import messages
from tests.support.needs import need_tool

_PLACE = re.compile(r"%\(\w+\)[a-z]|\{\w*(?:![rs])?\}")
_ELEMENT = re.compile(r"</?[a-z][^>]*>|&[a-z]+;")
_IN_SCRIPTS = re.compile(r'\b(?:gantryText|say)\(\s*"([^"]+)"')
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module", params=messages.CATALOGUES, ids=["console", "cli"])
def texts(request: pytest.FixtureRequest) -> polib.POFile:
    return polib.pofile(str(messages.ROOT / request.param))


def test_every_text_of_the_sources_is_in_the_catalogue_and_translated(tmp_path: Path) -> None:
    need_tool("xgettext")
    for name in ("console", "gantry_cli", "templates", "manage.py"):
        source = messages.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    for name in ("analytics", "brokercore", "mysqlwire", "pyproject.toml"):
        (tmp_path / name).symlink_to(messages.ROOT / name)
    messages.collect(tmp_path, tmp_path / "home")
    for catalogue in messages.CATALOGUES:
        fresh = polib.pofile(str(tmp_path / catalogue))
        untranslated = [entry.msgid for entry in fresh if not entry.translated()]
        assert untranslated == [], "run `python -m tests.support.messages`"
        for suffix in (".po", ".mo"):
            made, kept = ((root / catalogue).with_suffix(suffix) for root in (tmp_path, messages.ROOT))
            assert made.read_bytes() == kept.read_bytes(), "run `python -m tests.support.messages`"


def test_a_translation_has_the_values_and_the_elements_of_its_text(texts: polib.POFile) -> None:
    wrong = []
    for entry in texts:
        for translated in [entry.msgstr] if not entry.msgid_plural else entry.msgstr_plural.values():
            original = entry.msgid_plural or entry.msgid
            same_places = set(_PLACE.findall(original)) == set(_PLACE.findall(translated))
            same_elements = Counter(_ELEMENT.findall(original)) == Counter(_ELEMENT.findall(translated))
            if not (same_places and same_elements):
                wrong.append((original, translated))
    assert wrong == []


def test_a_translation_brings_no_character_that_ends_an_attribute_or_begins_an_element(texts: polib.POFile) -> None:
    for entry in texts:
        for translated in [entry.msgstr, *entry.msgstr_plural.values()]:
            for character in '"<>':
                assert translated.count(character) <= max(
                    entry.msgid.count(character), entry.msgid_plural.count(character)
                ), translated


def test_the_catalogues_are_chinese(texts: polib.POFile) -> None:
    said = [entry for entry in texts if _CHINESE.search(entry.msgstr or entry.msgstr_plural.get(0, ""))]
    assert len(said) > 0.95 * len(texts)


def test_pages_find_their_catalogue() -> None:
    with translation.override("zh-hans"):
        assert translation.gettext("Overview") == "概览"


def test_scripts_are_given_every_text_that_they_say() -> None:
    scripts = "".join(file.read_text() for file in (messages.ROOT / "static" / "js").glob("*.js"))
    with translation.override("zh-hans"):
        given = script_texts.texts()
    said = set(_IN_SCRIPTS.findall(scripts))
    assert said <= set(given)
    assert {text for text in given if not text.endswith(" ago")} <= said
    assert given["%(number)s days ago"] == "%(number)s 天前"
    with translation.override("en"):
        assert script_texts.texts() == {}
