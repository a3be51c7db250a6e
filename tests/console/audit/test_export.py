"""The trail as CSV and JSON: exactly the filtered rows, bounded, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.audit.models import Entry
from console.audit.pages import export
from console.audit.record import record
from tests.console.audit.trail import emptied
from tests.support.cast import Cast


def body(response: Any) -> str:
    return b"".join(response.streaming_content).decode()


def downloaded(cast: Cast, form: str, **query: str) -> str:
    return body(cast.client("alice").get(reverse("audit.export", args=[form]), query))


def test_csv_has_the_filtered_rows_and_no_other(cast: Cast) -> None:
    emptied()
    record(cast.actor("bob"), "topics.topic.create", "alpha", detail={"order_type": 0})
    record(cast.actor("rita"), "mq:PUB", "beta", result="refused")
    record(cast.actor("charlie"), "topics.topic.create", "theirs")
    rows = list(csv.DictReader(io.StringIO(downloaded(cast, "csv", result="success", who="bob@acme"))))
    assert [(row["who"], row["action"], row["resource"]) for row in rows] == [
        ("bob@acme", "topics.topic.create", "alpha")
    ]
    assert rows[0]["detail"] == '{"order_type": 0}'
    assert rows[0]["account"] == cast.acme.uid
    assert rows[0]["at"].endswith("Z")


def test_json_is_one_array_also_when_it_is_empty(cast: Cast) -> None:
    record(cast.actor("bob"), "topics.topic.create", "alpha", detail={"name": "größe"})
    rows = json.loads(downloaded(cast, "json", resource="alpha"))
    assert [row["detail"] for row in rows] == [{"name": "größe"}]
    assert json.loads(downloaded(cast, "json", resource="nothing")) == []


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(cast: Cast, name: str) -> None:
    emptied()
    record(cast.actor("bob"), "topics.topic.create", name)
    (row,) = csv.DictReader(io.StringIO(downloaded(cast, "csv", who="bob@acme"), newline=""))
    assert row["resource"] == f"'{name}"
    assert json.loads(downloaded(cast, "json", who="bob@acme"))[0]["resource"] == name


def test_a_file_is_bounded_and_streamed_in_one_query(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LARGEST", 7)
    for number in range(12):
        record(cast.actor("bob"), "topics.topic.create", f"row-{number}")
    found = Entry.objects.filter(tenant=cast.acme)
    with CaptureQueriesContext(connection) as captured:
        assert len(list(export.as_csv(found))) == 8
    assert len(captured) == 1


def test_taking_the_trail_away_is_in_the_trail(cast: Cast) -> None:
    downloaded(cast, "csv", q="bob")
    entry = Entry.objects.get(action="audit.entries.export")
    assert (entry.actor, entry.detail) == ("admin@acme", {"format": "csv", "filters": {"q": "bob"}})


def test_there_is_no_other_format(cast: Cast) -> None:
    assert cast.client("alice").get(reverse("audit.export", args=["xlsx"])).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_an_asynchronous_server_streams_it_too(cast: Cast) -> None:
    """A plain iterator would be collected as a whole first, which Django warns of; warnings are errors here."""
    record(cast.actor("bob"), "topics.topic.create", "alpha")
    client = AsyncClient()
    client.cookies = cast.client("alice").cookies

    async def fetched() -> str:
        response: Any = await client.get(reverse("audit.export", args=["json"]), {"resource": "alpha"})
        return b"".join([part async for part in response.streaming_content]).decode()

    assert [row["resource"] for row in json.loads(async_to_sync(fetched)())] == ["alpha"]
