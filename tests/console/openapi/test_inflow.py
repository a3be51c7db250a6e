"""Message inflow tasks by the management API."""

from __future__ import annotations

import json
import time

import pytest

from analytics.inflow.event_log import EventLog
from analytics.pipelines.reports import InsertReport, Reached, Report
from console.audit.models import Entry
from console.openapi.operations import OPERATIONS
from console.pipelines import journal, lifecycle, samples
from console.pipelines.models import Pipeline, StartFrom
from tests.console.inflow.conftest import SOURCE, change, document, log, no_message, topics
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast

__all__ = ["log", "no_message", "topics"]
pytestmark = [pytest.mark.django_db, pytest.mark.process]
NAME = "orders-to-topic"


def test_a_task_is_made_changed_paused_started_and_deleted(
    alice: Caller, cast: Cast, log: EventLog, topics: None
) -> None:
    text = json.dumps(document(cast))
    made = alice.data("inflow/create", document=text)
    assert (made["task"], made["state"], made["source"], made["topic"]) == (NAME, "Starting", SOURCE, "order_changes")
    assert json.loads(made["document"]) == document(cast)
    assert alice.symbol("inflow/create", document=text) == "BIZ_INFLOW_TASK_EXISTED"
    assert alice.symbol("inflow/start", task=NAME) == "BIZ_INFLOW_TASK_STATE_INVALID"
    assert alice.symbol("inflow/stop", task=NAME) == "SUCCESS"
    assert alice.data("inflow/get", task=NAME)["state"] == "Paused"
    assert alice.symbol("inflow/stop", task=NAME) == "BIZ_INFLOW_TASK_STATE_INVALID"
    changed = alice.data("inflow/update", document=json.dumps(document(cast, pattern={})))
    assert (changed["version"], changed["state"]) == (2, "Paused")
    assert [one["version"] for one in alice.data("inflow/versions", task=NAME)] == [2, 1]
    assert json.loads(alice.data("inflow/version", task=NAME, version="1")["text"]) == document(cast)
    assert alice.symbol("inflow/version", task=NAME, version="3") == "BIZ_VERSION_NOT_FOUND"
    assert [one["event"] for one in alice.data("inflow/events", task=NAME)] == [
        "deployed", "stopped", "starting", "deployed",
    ]  # fmt: skip
    journal.write(cast.acme.uid, Pipeline.objects.get(name=NAME).pk, "info", "one")
    assert [one["text"] for one in alice.data("inflow/log", task=NAME)] == ["one"]
    assert alice.symbol("inflow/start", task=NAME, anew="true") == "SUCCESS"
    assert Pipeline.objects.get(name=NAME).start_from == StartFrom.NOTHING
    assert alice.symbol("inflow/delete", task=NAME) == "SUCCESS"
    assert alice.symbol("inflow/get", task=NAME) == "BIZ_INFLOW_TASK_NOT_FOUND"
    found = Entry.objects.filter(action__startswith="pipelines.inflow.").values_list("channel", flat=True)
    assert set(found) == {"api"}


def test_where_it_stands_is_told_in_the_sources_words(alice: Caller, cast: Cast, log: EventLog, topics: None) -> None:
    alice.data("inflow/create", document=json.dumps(document(cast)))
    task = Pipeline.objects.get(name=NAME)
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    counts = {"eventsRead": 3, "messagesDelivered": 2}
    reached = Reached(3, "bin.1:3", 3_000, 4, 5_000)
    insert = InsertReport("messages", 0, batch=1, rows_in_per_second=2.0)
    report = Report((insert,), connectors={"messages": counts}, rows_in_per_second=2.0, reached={"events": reached})
    samples.keep(task.pk, report)
    (row,) = alice.data("inflow/list")
    assert (row["state"], row["position"], row["pending"], row["behind"]) == ("Running", "bin.1:3", 1, 2_000)
    assert (row["readPerSecond"], row["counters"]["messagesDelivered"]) == (2.0, 2)
    (moment,) = alice.data("inflow/statistics", task=NAME, range="1h")
    assert (moment["counters"]["eventsRead"], moment["behind"]) == (3, 2_000)
    assert abs(moment["time"] / 1000 - time.time()) < 60
    assert alice.symbol("inflow/statistics", task=NAME, range="1y") == "BIZ_FIELD_CHECK_INVALID"


def test_what_is_wrong_is_one_sentence(alice: Caller, cast: Cast, log: EventLog, topics: None) -> None:
    for text, symbol, sentence in (
        ("[", "BIZ_INFLOW_TASK_REFUSED", "The document is no JSON"),
        ("[]", "BIZ_INFLOW_TASK_REFUSED", "The document is a JSON object."),
        (json.dumps(document(cast, retry="often")), "BIZ_INFLOW_TASK_REFUSED", "backoff or exponential"),
        (json.dumps(document(cast, deadLetterTopic="none")), "BIZ_TOPIC_NOT_FOUND", "There is no topic"),
    ):
        answer = alice("inflow/create", document=text)
        assert answer["code"] != 200
        assert alice.symbol("inflow/create", document=text) == symbol
        assert sentence in json.dumps(answer)


def test_an_event_is_tried_on_a_document(alice: Caller, cast: Cast, log: EventLog, topics: None) -> None:
    told = document(cast, transform={"kind": "expression", "expression": "data.after"})
    passed = alice.data("inflow/test", document=json.dumps(told), sample=json.dumps(change(7)))
    assert (passed["passes"], passed["errors"]) == (True, {})
    assert json.loads(passed["transformed"][0])["id"] == 1001
    (message,) = passed["messages"]
    assert json.loads(message["body"])["state"] == "paid" and message["key"] is None
    filtered = alice.data("inflow/test", document=json.dumps(told))
    assert filtered["passes"] is False and filtered["reasons"][0]["path"] == "data.tableName"
    wrong = alice.data("inflow/test", document=json.dumps(document(cast, pattern={"a": 1})))
    assert wrong["passes"] is None and list(wrong["errors"]) == ["pattern.a"]


def test_every_operation_of_a_task_is_one_of_ours() -> None:
    found = [operation for path, operation in OPERATIONS.items() if path.startswith("inflow/")]
    assert len(found) == 14 and all(one.extension and one.service == "Inflow" for one in found)


def test_the_address_of_a_webhook_is_told_when_it_is_made_and_not_again(
    alice: Caller, cast: Cast, topics: None
) -> None:
    source = {"kind": "webhook", "signature": "x-gantry-signature"}
    made = alice.data("inflow/create", document=json.dumps(document(cast, source=source)))
    assert (made["source"], set(made["webhook"])) == ("Webhook", {"path", "key"})
    assert "webhook" not in alice.data("inflow/get", task=NAME)
    address = alice.data("inflow/renewWebhook", task=NAME)
    key = alice.data("inflow/renewWebhook", task=NAME, part="key")
    assert address["path"].startswith("/hooks/") and address["path"] != made["webhook"]["path"]
    assert key["key"] not in ("", made["webhook"]["key"])
    assert (address["key"], key["path"]) == ("", "")
    assert alice.symbol("inflow/renewWebhook", task=NAME, part="both") != "SUCCESS"
    trail = json.dumps(list(Entry.objects.values()), default=str)
    assert not any(one in trail for one in (address["path"].rpartition("/")[2], key["key"], made["webhook"]["key"]))


def test_a_task_with_another_source_has_no_webhook(alice: Caller, cast: Cast, log: EventLog, topics: None) -> None:
    made = alice.data("inflow/create", document=json.dumps(document(cast)))
    assert made["webhook"] is None
    assert alice.symbol("inflow/renewWebhook", task=NAME) == "BIZ_INFLOW_TASK_REFUSED"
