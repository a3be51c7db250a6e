"""Pages are in the language of who looks at them; machines get English."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse

from tests.console.web.test_every_page import pages
from tests.support.cast import Cast

CHINESE = {"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}
#: Three words of English in a row, which names and terms do not make.
_SENTENCE = re.compile(r"\b[A-Za-z]?[a-z]+ [a-z]{2,} [a-z]{2,}\b")
#: What is not ours to translate stands in these elements.
_VERBATIM = {"code", "pre", "kbd", "samp", "script", "style", "textarea", "title"}
#: The documentation, and the reference of the API, are in English.
_ENGLISH = {"manual.page", "manual.index", "openapi.tool", "openapi.tool_operation"}
#: What workers wrote, statements to try, what the engine says, and an answer that is a file.
_OTHERS = re.compile(r"Cluster \w+ does not answer|select |oss://|the task has no result")


class _Texts(HTMLParser):
    """The texts that a visitor reads, without those of elements that are shown as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in {"br", "img", "input", "meta", "link", "hr"}:
            verbatim = given.get("translate") == "no" or "mono" in (given.get("class") or "")
            self.open.append("code" if verbatim else tag)
        self.texts += [given[name] or "" for name in ("title", "aria-label", "placeholder") if given.get(name)]

    def handle_endtag(self, tag: str) -> None:
        if self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not _VERBATIM.intersection(self.open):
            self.texts.append(data)


def english_of(page: str) -> list[str]:
    reader = _Texts()
    reader.feed(page)
    return [text.strip() for text in reader.texts if _SENTENCE.search(text) and not _OTHERS.search(text)]


@pytest.fixture
def alice(cast: Cast) -> Client:
    return cast.client("alice")


def test_the_browser_decides_and_a_choice_wins(alice: Client) -> None:
    url = reverse("instances.overview")
    english, chinese = alice.get(url), alice.get(url, headers=CHINESE)
    assert '<html lang="en"' in english.content.decode()
    assert "Needs attention" not in chinese.content.decode()
    assert '<html lang="zh-hans"' in chinese.content.decode()
    assert chinese["Content-Language"] == "zh-hans"
    assert "Accept-Language" in chinese["Vary"]

    chosen = alice.post(reverse("language"), {"language": "en", "next": url}, headers=CHINESE)
    assert chosen["Location"] == url
    assert chosen.cookies["gantry_language"]["httponly"]
    assert '<html lang="en"' in alice.get(url, headers=CHINESE).content.decode()


@pytest.mark.parametrize("asked", ["zh", "zh-CN", "zh-TW", "zh-HK", "zh-Hant-TW,zh-Hant;q=0.9", "fr, zh-tw;q=0.5"])
def test_whoever_reads_chinese_gets_the_chinese_that_there_is(asked: str) -> None:
    page = Client().get(reverse("account_login"), headers={"accept-language": asked})
    assert page["Content-Language"] == "zh-hans"
    assert '<html lang="zh-hans"' in page.content.decode()


def test_a_choice_leads_nowhere_else(alice: Client) -> None:
    chosen = alice.post(reverse("language"), {"language": "zh-hans", "next": "https://elsewhere.example/"})
    assert chosen["Location"] == "/"
    alice.post(reverse("language"), {"language": "xx"})
    assert '<html lang="zh-hans"' in alice.get(reverse("instances.overview")).content.decode()


def test_who_is_not_signed_in_can_choose(client: Client) -> None:
    page = client.get(reverse("account_login"), headers=CHINESE).content.decode()
    assert "登录" in page
    assert ">English</button>" in page
    assert 'lang="en"' in page  # the button for English


def test_errors_of_a_form_are_translated(alice: Client) -> None:
    answer = alice.post(reverse("instances.create"), {"name": ""}, headers=CHINESE)
    assert "此项必填" in answer.content.decode()


def test_machines_get_english(client: Client) -> None:
    answer = client.get("/json/instance/list", headers=CHINESE).content.decode()
    assert not re.search(r"[\u4e00-\u9fff]", answer)


def test_no_page_says_a_sentence_in_english(cast: Cast, world: dict[str, str]) -> None:
    found = {}
    for row, answer in pages(cast, world, headers=CHINESE):
        if row.url_name in _ENGLISH:
            continue
        is_page = answer.get("Content-Type", "").startswith("text/html") and not answer.streaming
        if is_page and (texts := english_of(answer.content.decode())):
            found[str(row)] = texts
    assert found == {}
