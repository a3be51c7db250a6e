"""A NUL in the words of other programs is kept by either database, and costs nobody the row."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from console.audit.models import Entry
from console.pipelines.models import Event, Pipeline, State
from console.web.postgresql import json_without_nul
from tests.support.cast import Cast

EVIL = "a \0 of a database\\u0000"


def kept(text: str) -> str:
    return text.replace("\0", "\ufffd") if connection.vendor == "postgresql" else text


@pytest.mark.django_db
def test_a_reason_with_a_nul_is_kept(cast: Cast) -> None:
    pipeline = Pipeline.objects.create(tenant=cast.acme, name="late", state=State.FAILED)
    Pipeline.objects.filter(pk=pipeline.pk).update(reason=EVIL)
    Event.objects.bulk_create([Event(pipeline=pipeline, kind=State.FAILED, sentence=EVIL)])
    assert (Pipeline.objects.get().reason, Event.objects.get().sentence) == (kept(EVIL), kept(EVIL))
    assert Event.objects.filter(sentence__contains="\0 of").exists()


@pytest.mark.django_db
def test_an_entry_of_the_audit_trail_with_a_nul_is_kept() -> None:
    entry = Entry.objects.create(actor="x\0y", action="a.b.c", result="failed", detail={"reason": EVIL, "list": ["\0"]})
    assert Entry.objects.get(pk=entry.pk).detail == {"reason": kept(EVIL), "list": [kept("\0")]}


@pytest.mark.parametrize("text", ["\0", "\\\0", "\\\\\0\0", "\\u0000", "\\\\u0000", "\\\0\\u0000\0", "nothing"])
def test_only_the_escape_of_a_nul_is_replaced(text: str) -> None:
    assert json.loads(json_without_nul(json.dumps({text: [text]}))) == {
        text.replace("\0", "\ufffd"): [text.replace("\0", "\ufffd")]
    }
