"""SQL jobs by the management API."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pytest_django import Settings

from analytics.pipelines.reports import InsertReport, Report
from analytics.pipelines.waits import Waiting
from console.audit.models import Entry
from console.openapi.operations import OPERATIONS
from console.pipelines import journal, lifecycle, samples
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline, Savepoint
from console.rights import limits
from tests.console.jobs.conftest import TEXT
from tests.console.openapi.caller import Caller
from tests.console.pipelines.test_room import fill
from tests.support.cast import Cast, make_topic

pytestmark = [pytest.mark.django_db, pytest.mark.process]
SIX = TEXT.replace("> 5", "> 6")


def running(name: str) -> lifecycle.Lease:
    job = Pipeline.objects.get(name=name)
    lease = lifecycle.claim(job.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    return lease


def _job(caller: Caller) -> dict[str, Any]:
    return dict(caller.data("job/get", job="late"))


def test_a_job_is_made_deployed_started_stopped_and_deleted(alice: Caller) -> None:
    made = alice.data("job/create", job="late", text=TEXT)
    assert (made["state"], made["version"], made["draft"], made["text"]) == ("draft", None, TEXT, "")
    assert alice.symbol("job/create", job="late") == "BIZ_JOB_EXISTED"
    assert alice.symbol("job/start", job="late") == "BIZ_JOB_STATE_INVALID"
    assert alice.data("job/deploy", job="late", text=TEXT)["version"] == 1
    assert alice.data("job/deploy", job="late", text=TEXT)["version"] == 1
    assert alice.symbol("job/start", job="late") == "SUCCESS"
    assert alice.symbol("job/start", job="late") == "BIZ_JOB_STATE_INVALID"
    assert alice.symbol("job/delete", job="late") == "BIZ_JOB_STATE_INVALID"
    lease = running("late")
    assert alice.data("job/get", job="late")["state"] == "running"
    assert alice.symbol("job/stop", job="late", withSavepoint="true") == "SUCCESS"
    lifecycle.keep_savepoint(lease, "oss://x/1/")
    lifecycle.stop(lease)
    (savepoint,) = alice.data("job/savepoints", job="late")
    assert savepoint["version"] == 1
    given = {"job": "late", "startFrom": "savepoint"}
    assert alice.symbol("job/start", **given) == "BIZ_SAVEPOINT_NOT_FOUND"
    assert alice.symbol("job/start", **given, savepoint="999999") == "BIZ_SAVEPOINT_NOT_FOUND"
    assert alice.symbol("job/start", **given, savepoint=savepoint["savepoint"]) == "SUCCESS"
    assert alice.symbol("job/stop", job="late") == "SUCCESS"
    assert alice.symbol("job/stop", job="late") == "BIZ_JOB_STATE_INVALID"
    assert [event["event"] for event in alice("job/events", job="late", pageSize="3")["data"]] == [
        "stopped", "starting", "stopped",
    ]  # fmt: skip
    assert savepoint["name"] == "1"
    assert alice.symbol("job/deleteSavepoint", job="late", savepoint=savepoint["savepoint"]) == "SUCCESS"
    for gone in (savepoint["savepoint"], "x", "9" * 19):
        assert alice.symbol("job/deleteSavepoint", job="late", savepoint=gone) == "BIZ_SAVEPOINT_NOT_FOUND"
    assert alice.data("job/savepoints", job="late") == []
    assert alice.symbol("job/delete", job="late") == "SUCCESS"
    assert alice.symbol("job/get", job="late") == "BIZ_JOB_NOT_FOUND"
    channels = Entry.objects.filter(action__startswith="pipelines.job.").values_list("channel", flat=True)
    assert set(channels) == {"api"}


def test_what_is_wrong_is_told_with_its_place(alice: Caller) -> None:
    wrong = TEXT.replace("SELECT id FROM some", "SELECT id, 1 FROM some")
    told = alice.data("job/validate", text=wrong)
    assert not told["valid"]
    assert [(one["line"], one["column"]) for one in told["refusals"]] == [(4, 13)]
    alice.data("job/create", job="late")
    kept = alice.data("job/update", job="late", text=wrong)
    assert kept["refusals"] == told["refusals"] and kept["text"] == wrong
    assert alice.symbol("job/deploy", job="late", text=wrong) == "BIZ_JOB_TEXT_REFUSED"
    assert alice.symbol("job/update", job="late", text="SELECT 'x") == "BIZ_JOB_TEXT_REFUSED"
    answer = alice("job/deploy", job="late", text=wrong)
    assert answer["dynamicMessage"].startswith("Line 4, column 13: ")


def test_a_text_keeps_its_first_lines(alice: Caller) -> None:
    told = alice.data("job/validate", text="\n\nSELECT x FROM nowhere;\n")
    assert told["refusals"][0]["line"] == 3


def test_a_plan_is_told(alice: Caller) -> None:
    told = alice.data("job/validate", text=TEXT)
    assert (told["valid"], told["mode"], told["refusals"]) == (True, "streaming", [])
    assert told["sources"] == [{"name": "seen", "connector": "datagen", "format": ""}]
    assert [(one["sink"], one["line"], one["output"]) for one in told["inserts"]] == [("shown", 4, "append")]


def test_versions_have_their_texts(alice: Caller) -> None:
    alice.data("job/create", job="late")
    for text in (TEXT, SIX):
        alice.data("job/deploy", job="late", text=text)
    assert [one["version"] for one in alice("job/versions", job="late")["data"]] == [2, 1]
    assert alice.data("job/version", job="late", version="1")["text"] == TEXT
    assert alice.symbol("job/version", job="late", version="3") == "BIZ_VERSION_NOT_FOUND"


def test_jobs_are_listed_page_by_page(alice: Caller, cast: Cast) -> None:
    for name in ("a1", "b1", "b2"):
        pipelines.create(actor=cast.actor("alice"), name=name)
    page = alice("job/list", job="B", pageSize="1", currentPage="2")
    assert ([row["job"] for row in page["data"]], page["total"]) == (["b2"], 2)


def test_a_sink_that_waits_is_told_with_its_job(alice: Caller) -> None:
    alice.data("job/create", job="late", text=TEXT)
    alice.data("job/deploy", job="late", text=TEXT)
    assert alice.symbol("job/start", job="late") == "SUCCESS"
    lease = running("late")
    samples.keep(lease.pipeline_id, Report((), waiting=(Waiting("shown", "No broker answers.", 1, 11, 1, 2),)))
    sentence = "The table shown waits to be written, before try 2 of 11: No broker answers."
    assert alice.data("job/get", job="late")["waiting"] == sentence
    lifecycle.finish(lease)
    assert [row["waiting"] for row in alice.data("job/list")] == [""]


def test_a_job_tells_the_rows_of_its_operators_its_checkpoints_and_what_its_tables_count(alice: Caller) -> None:
    alice.data("job/create", job="late")
    alice.data("job/deploy", job="late", text=TEXT)
    drawn = [(one["kind"], one["name"], one["reads"], one["rowsOut"]) for one in _job(alice)["operators"]]
    assert drawn == [
        ("source", "seen", [], None), ("view", "some", ["seen"], None), ("insert", "INSERT, line 4", ["some"], None),
        ("sink", "shown", ["INSERT, line 4"], None),
    ]  # fmt: skip
    assert (_job(alice)["inserts"], _job(alice)["counters"]) == ([], [])
    assert alice.symbol("job/start", job="late") == "SUCCESS"
    lease = running("late")
    counted = dict.fromkeys(("duplicateMessages", "deletedMessages", "failedDeletes", "deserializationErrors"), 0)
    insert = InsertReport(
        "shown", 4, batch=7, committed_ms=1_900_000_000_000, is_idle=True, duration_ms=40, rows_in=9, rows_out=8,
        rows_in_per_second=2.5, rows_out_per_second=2.0, watermark_ms=500, watermark_delay_ms=700, state_rows=4,
        state_bytes=2048, late_rows=1,
    )  # fmt: skip
    report = Report((insert,), {"source:seen": 9, "view:some": 8, "insert:0": 8}, {"seen": counted | {"emptyRows": 3}})
    samples.keep(lease.pipeline_id, report)
    told = _job(alice)
    assert [(one["rowsIn"], one["rowsOut"]) for one in told["operators"]] == [(None, 9), (9, 8), (8, 8), (8, None)]
    shown = {
        "sink": "shown", "line": 4, "batch": 7, "lastCheckpoint": 1_900_000_000_000, "idle": True, "batchDuration": 40,
        "rowsInPerSecond": 2.5, "rowsOutPerSecond": 2.0, "watermark": 500, "lag": 700, "lateRows": 1, "stateRows": 4,
        "stateBytes": 2048,
    }  # fmt: skip
    assert told["inserts"] == [shown]
    assert {one["counter"]: one["count"] for one in told["counters"]} == counted | {"emptyRows": 3}
    assert {one["table"] for one in told["counters"]} == {"seen"}
    lifecycle.finish(lease)
    gone = {"idle": False, "rowsInPerSecond": None, "rowsOutPerSecond": None, "lag": None}
    assert _job(alice)["inserts"] == [shown | gone]
    assert "operators" not in alice.data("job/list")[0]


def test_a_log_is_read_from_a_cursor_on(alice: Caller, cast: Cast) -> None:
    job = pipelines.create(actor=cast.actor("alice"), name="late")
    journal.forget(cast.acme.uid, job.pk)
    for text in ("one", "two"):
        journal.write(cast.acme.uid, job.pk, "print", text)
    first, _ = alice.data("job/log", job="late")
    assert (first["level"], first["text"]) == ("print", "one")
    assert [one["text"] for one in alice.data("job/log", job="late", after=first["cursor"])] == ["two"]


def test_secrets_are_put_and_never_told(alice: Caller) -> None:
    assert alice.symbol("job/putSecret", secret="key_id", value="sEcReT-9") == "SUCCESS"
    told = alice("job/secrets")
    assert [one["secret"] for one in told["data"]] == ["key_id"] and "sEcReT-9" not in str(told)
    assert alice.symbol("job/putSecret", secret="no spaces", value="x") == "BIZ_FIELD_CHECK_INVALID"
    assert alice.symbol("job/deleteSecret", secret="key_id") == "SUCCESS"
    assert alice.symbol("job/deleteSecret", secret="key_id") == "BIZ_SECRET_NOT_FOUND"
    assert "sEcReT-9" not in str(list(Entry.objects.values_list("detail", flat=True)))


def test_variables_are_put_told_and_deleted(alice: Caller) -> None:
    assert alice.symbol("job/putVariable", variable="endpoint", value=" http://h:1") == "SUCCESS"
    assert alice.data("job/variables") == [{"variable": "endpoint", "value": " http://h:1"}]
    assert alice.symbol("job/deleteVariable", variable="endpoint") == "SUCCESS"
    assert alice.symbol("job/deleteVariable", variable="endpoint") == "BIZ_VARIABLE_NOT_FOUND"


def test_a_start_without_its_secret_is_refused(alice: Caller) -> None:
    alice.data("job/putSecret", secret="k", value="x")
    key = "'accessId' = '${secret_values.k}', 'accessKey' = '${secret_values.k}'"
    topic = f"('connector' = 'mq', 'topic' = 't', 'endpoint' = 'h:1', 'producerGroup' = 'GID_t', {key})"
    text = TEXT.replace("('connector' = 'print')", topic)
    alice.data("job/create", job="late")
    alice.data("job/deploy", job="late", text=text)
    alice.data("job/deleteSecret", secret="k")
    assert alice.symbol("job/start", job="late") == "BIZ_SECRET_NOT_FOUND"


def test_a_start_needs_the_topic_and_the_group_that_it_names(alice: Caller, cast: Cast) -> None:
    for made, symbol in (("", "BIZ_TOPIC_NOT_FOUND"), ("orders", "BIZ_SUBSCRIPTION_NOT_FOUND")):
        if made:
            make_topic(cast.alice, cast.instance, made)
        topic = "'connector' = 'mq', 'topic' = 'orders', 'consumerGroup' = 'GID_none', 'instanceID' = '{}'"
        text = re.sub("'connector' = 'datagen'[^)]*", topic.format(cast.instance.instance_id), TEXT)
        name = f"late-{made}"
        alice.data("job/create", job=name)
        alice.data("job/deploy", job=name, text=text)
        assert alice.symbol("job/start", job=name) == symbol


def test_an_account_runs_so_many_jobs(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    real = limits.effective
    monkeypatch.setattr(limits, "effective", lambda tenant: dict(real(tenant)) | {"running_jobs": 1})
    for name in ("one", "two"):
        alice.data("job/create", job=name)
        alice.data("job/deploy", job=name, text=TEXT)
    assert alice.symbol("job/start", job="one") == "SUCCESS"
    answer = alice("job/start", job="two")
    assert (answer["status"], answer["dynamicMessage"][-1]) == ("BIZ_JOB_QUOTA_EXCEEDED", ".")


@pytest.mark.parametrize(
    ("path", "given", "symbol"),
    [
        ("job/create", {"job": "no spaces"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/create", {"job": "fine", "text": "SELECT 'x"}, "BIZ_JOB_TEXT_REFUSED"),
        ("job/start", {"job": "late", "startFrom": "yesterday"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/start", {"job": "late", "savepoint": "x" * 20}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/stop", {"job": "late", "withSavepoint": "yes"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/version", {"job": "late", "version": "0"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/versions", {"job": "late", "pageSize": "101"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/putSecret", {"secret": "k", "value": "x" * 16_385}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/putVariable", {"variable": "9", "value": "x"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/putVariable", {"variable": "secret_values", "value": "x"}, "BIZ_FIELD_CHECK_INVALID"),
        ("job/validate", {"text": ""}, "BIZ_FIELD_CHECK_INVALID"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(alice: Caller, path: str, given: dict[str, str], symbol: str) -> None:
    alice.data("job/create", job="late")
    answer = alice(path, **given)
    assert (answer["status"], answer["dynamicMessage"][-1]) == (symbol, ".")


def test_long_lists_come_page_by_page(alice: Caller, cast: Cast) -> None:
    actor = cast.actor("alice")
    for number in range(25):
        pipelines.set_secret(actor=actor, name=f"s{number:02}", value="x")
        pipelines.set_variable(actor=actor, name=f"v{number:02}", value="x")
    for path, field in (("job/secrets", "secret"), ("job/variables", "variable")):
        first, second = alice(path), alice(path, currentPage="2")
        assert (len(first["data"]), first["total"]) == (20, 25)
        assert [row[field][1:] for row in second["data"]] == [f"{number}" for number in range(20, 25)]
    job = pipelines.create(actor=actor, name="late")
    for number in range(3):
        Savepoint.objects.create(pipeline=job, folder=f"oss://x/{number}/")
    page = alice("job/savepoints", job="late", pageSize="2")
    assert (len(page["data"]), page["total"]) == (2, 3)


def test_an_account_has_so_many_jobs(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    real = limits.effective

    def one_job(tenant: Any) -> Any:
        return dict(real(tenant)) | {"jobs": 1}

    monkeypatch.setattr(limits, "effective", one_job)
    alice.data("job/create", job="one")
    assert alice.symbol("job/create", job="two") == "BIZ_JOB_QUOTA_EXCEEDED"


def test_a_job_without_room_in_the_lake_is_not_started_and_stops_without_a_savepoint(
    alice: Caller, cast: Cast, settings: Settings
) -> None:
    alice.data("job/create", job="late", text=TEXT)
    alice.data("job/deploy", job="late", text=TEXT)
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 1_000}
    fill(cast.acme, 1_000)
    answer = alice("job/start", job="late", startFrom="nothing")
    assert answer["status"] == "BIZ_LAKE_QUOTA_EXCEEDED"
    assert "acme may store 1000 bytes in the lake and has 1000 bytes: delete files" in answer["dynamicMessage"]
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 2_000}
    assert alice.symbol("job/start", job="late", startFrom="nothing") == "SUCCESS"
    running("late")
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 1_000}
    assert alice.symbol("job/stop", job="late", withSavepoint="true") == "BIZ_LAKE_QUOTA_EXCEEDED"
    assert alice.data("job/get", job="late")["state"] == "running"
    assert alice.symbol("job/stop", job="late") == "SUCCESS"


def test_every_operation_of_a_job_is_one_of_ours() -> None:
    found = [operation for path, operation in OPERATIONS.items() if path.startswith("job/")]
    assert len(found) == 21 and all(operation.extension for operation in found)
