"""What is kept is in English, whoever caused it, and shown in the language of who looks."""

from __future__ import annotations

import json
import pickle

import pytest
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from console.alarms.models import RecipientKind
from console.audit.models import Entry
from console.audit.record.masking import masked
from console.pipelines.models import State
from console.sql import services as statements
from console.sql.models import TaskStatus
from console.statements import read
from console.web import languages
from console.web.errors import Refused
from console.web.words import counted
from tests.support.cast import Cast

CHINESE = {"accept-language": "zh-CN"}


@pytest.fixture(autouse=True)
def web_process() -> None:
    languages.LanguageMiddleware(lambda _request: pytest.fail("nobody asked"))


def test_a_translated_text_knows_its_english_with_what_was_put_into_it() -> None:
    with translation.override("zh-hans"):
        plain = _("It has ended, or somebody has acknowledged it already.")
        nested = _("%(locked)s is %(state)s; stop it first.") % {"locked": "late", "state": State.RUNNING.label.lower()}
        some = ngettext("%(firing)s alarm fires", "%(firing)s alarms fire", 2) % {"firing": 2}
        other = pgettext("limit", "traces")
        told = _("%(group_id)s falls behind: %(backlog)s") % {"group_id": "GID_a", "backlog": counted(2, "message")}
        lazy = RecipientKind.MAIL.label
    assert not plain.isascii()
    assert languages.english(plain) == "It has ended, or somebody has acknowledged it already."
    assert not nested.isascii() and languages.english(nested) == "late is running; stop it first."
    assert not some.isascii() and languages.english(some) == "2 alarms fire"
    assert (str(other), languages.english(other)) == ("轨迹", "traces")
    assert not told.isascii() and languages.english(told) == "GID_a falls behind: 2 messages"
    assert languages.english(lazy) == "Mail"
    assert languages.english(ValueError(nested)) == "late is running; stop it first."
    assert (languages.english("as it is"), languages.english(ValueError("plain"))) == ("as it is", "plain")


def test_it_is_a_text_like_any_other() -> None:
    with translation.override("zh-hans"):
        said = _("Topic %(topic)s does not exist any more.") % {"topic": "a"}
    assert type(pickle.loads(pickle.dumps(said))) is str
    assert json.loads(json.dumps({"said": said})) == {"said": str(said)}
    assert said + "!" == f"{said}!"


def test_english_texts_are_plain() -> None:
    assert type(_("Topic %(topic)s does not exist any more.") % {"topic": "a"}) is str


def test_the_trail_takes_texts_in_english_at_any_depth() -> None:
    with translation.override("zh-hans"):
        detail = masked({"reason": _("Minutes"), "more": [{"label": RecipientKind.MAIL.label}], "token": _("Minutes")})
    assert detail == {"reason": "Minutes", "more": [{"label": "Mail"}], "token": "***"}


def test_a_refusal_of_a_page_is_shown_in_chinese_and_kept_in_english(cast: Cast) -> None:
    alice = cast.client("alice")
    values = {"name": "ann", "kind": "mail", "address": "ann", "language": "zh-hans"}
    page = alice.post(reverse("alarms.recipient_create"), values, headers=CHINESE)
    assert page.status_code == 422 and "is no address of mail" not in page.content.decode()
    (entry,) = Entry.objects.filter(action="alarms.recipient_create")
    assert (entry.result, entry.detail["reason"]) == ("refused", "'ann' is no address of mail.")


@pytest.mark.broker
def test_why_a_definition_failed_is_kept_in_english(cast: Cast) -> None:
    """The task's message goes out with its notice too."""
    with translation.override("zh-hans"):
        task = statements.submit(cast.actor("alice"), read("/*+ run_async=true */ drop schema nobodys"), "")
    assert task.status == TaskStatus.FAILURE
    assert task.message.isascii() and "nobodys" in task.message


def test_an_error_of_the_service_keeps_both() -> None:
    with translation.override("zh-hans"):
        refused = Refused("X", _("The address of a provider begins with https://."))
    assert refused.kept == "The address of a provider begins with https://."
    assert refused.message != refused.kept and type(refused.message) is str
