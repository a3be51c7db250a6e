"""Pages of SQL jobs."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from analytics.pipelines.reports import InsertReport, Report
from analytics.pipelines.waits import Waiting
from console.accounts.models import Policy
from console.audit.models import Entry
from console.celery import app
from console.jobs import services
from console.jobs.beginnings import BEGINNINGS
from console.pipelines import journal, lifecycle, queries, room, samples
from console.pipelines import services as pipelines
from console.pipelines.lifecycle import Lease
from console.pipelines.models import Pipeline, Savepoint, Secret, StartFrom, State, Variable, Version
from console.queues import services as queue_services
from tests.console.jobs.conftest import TEXT, reloaded
from tests.console.pipelines.test_room import fill
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess

pytestmark = pytest.mark.process
HOUR_MS = 3_600_000
WRONG = TEXT.replace("SELECT id FROM some", "SELECT id, 1 FROM some")
SECRET = """CREATE TEMPORARY TABLE late (a BIGINT) WITH ('connector' = 'mq', 'topic' = 'late', 'endpoint' = 'h:9876',
  'accessId' = 'x', 'accessKey' = 'sEcReT-4', 'producerGroup' = 'GID_late');
CREATE TEMPORARY TABLE seen (id BIGINT) WITH ('connector' = 'datagen');
INSERT INTO late SELECT id FROM seen;
"""
REPORT = Report(
    (InsertReport("shown", 4, batch=7, committed_ms=1_900_000_000_000, duration_ms=40, rows_in=123_456, rows_out=77_001,
                  rows_in_per_second=12.0, rows_out_per_second=6.0, watermark_delay_ms=2_500, state_rows=3,
                  state_bytes=2_048),),
    {"source:seen": 123_456, "view:some": 99_002},
    {"seen": {"duplicateMessages": 5}},
    rows_in_per_second=12.0,
)  # fmt: skip


def page(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", part: bool = False, **query: str) -> str:
    headers = {"HX-Request": "true"} if part else {}
    response = cast.client(who).get(reverse(url_name, args=arguments), query, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def act(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", **data: str) -> Any:
    return cast.client(who).post(reverse(url_name, args=arguments), data, headers={"HX-Request": "true"})


def running(cast: Cast, job: Pipeline) -> Lease:
    pipelines.start(actor=cast.actor("alice"), pipeline=job, start_from=StartFrom.NOTHING)
    lease = lifecycle.claim(job.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    return lease


def test_a_job_is_made_with_a_text_that_can_be_deployed(cast: Cast) -> None:
    response = cast.client("alice").post(reverse("jobs.create"), {"name": "visits", "beginning": "example"})
    assert response["Location"] == reverse("jobs.editor", args=["visits"])
    assert "TUMBLE(TABLE visits" in page(cast, "jobs.editor", "visits")
    again = cast.client("alice").post(reverse("jobs.create"), {"name": "visits", "beginning": "empty"})
    assert again.status_code == 422
    assert "There is a pipeline visits already." in str(again.context["form"].errors["name"])


def test_texts_to_begin_with_can_be_deployed(cast: Cast, queues: QueueServiceProcess) -> None:
    queue_services.create_queue(actor=cast.actor("alice"), name="orders", attributes={})
    for name, text in BEGINNINGS.values():
        assert not text or services.look(actor=cast.actor("alice"), text=text).refusals == (), name


def test_the_list_shows_state_rates_lag_restarts_and_the_last_checkpoint(cast: Cast, deployed: Pipeline) -> None:
    running(cast, deployed)
    samples.keep(deployed.pk, REPORT)
    shown = page(cast, "jobs.list")
    for text in ("late", "version 1", "Running", ">12<", ">6<", "2.5 s"):
        assert text in shown, text
    answer: Any = cast.client("alice").get(reverse("jobs.list"), {"as": "csv"})
    (row,) = csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode()))
    assert (row["job"], row["version"], float(row["lag_ms"])) == ("late", "1", 2_500)
    assert row["running_since"].endswith("Z") and row["last_checkpoint_at"].endswith("Z")
    assert "late" not in page(cast, "jobs.list", part=True, q="nothing")
    assert "No job matches the search" in page(cast, "jobs.list", part=True, q="nothing")


def test_a_job_to_which_nothing_comes_says_so_beside_its_last_checkpoint(cast: Cast, deployed: Pipeline) -> None:
    lease = running(cast, deployed)
    samples.keep(deployed.pk, REPORT)
    pages = ("jobs.list",), ("jobs.detail", "late"), ("jobs.checkpoints", "late")
    assert not [one for one in pages if "no rows since" in page(cast, *one)]
    samples.keep(deployed.pk, replace(REPORT, inserts=(replace(REPORT.inserts[0], is_idle=True),)))
    assert [page(cast, *one).count("no rows since") for one in pages] == [1, 1, 1]
    lifecycle.fail(lease, "The topic is gone.", line=None, for_good=True)
    assert not [one for one in pages if "no rows since" in page(cast, *one)]


def test_a_job_without_a_watermark_says_why_it_has_no_lag(cast: Cast, deployed: Pipeline) -> None:
    running(cast, deployed)
    samples.keep(deployed.pk, replace(REPORT, inserts=(replace(REPORT.inserts[0], watermark_delay_ms=None),)))
    assert 'title="no watermark so far"' in page(cast, "jobs.list")
    assert "no watermark so far" in page(cast, "jobs.detail", "late")
    samples.keep(deployed.pk, REPORT)
    assert "no watermark so far" not in page(cast, "jobs.list") + page(cast, "jobs.detail", "late")


def test_numbers_of_a_job_that_does_not_run_are_not_shown(cast: Cast, deployed: Pipeline) -> None:
    samples.keep(deployed.pk, REPORT)
    assert "2.5 s" not in page(cast, "jobs.list")


def test_the_list_costs_the_same_for_few_and_many(cast: Cast) -> None:
    counts = []
    page(cast, "jobs.list")  # what is asked once a session
    for number in range(20):
        pipelines.create(actor=cast.actor("alice"), name=f"job-{number}")
        if number in (9, 19):
            with CaptureQueriesContext(connection) as queries:
                page(cast, "jobs.list")
            counts.append(len(queries))
    assert counts[0] == counts[1]


def test_an_account_without_jobs_is_told_what_they_are(cast: Cast) -> None:
    assert "No SQL job yet" in page(cast, "jobs.list")
    assert "SQL jobs" in page(cast, "jobs.list")


def test_an_outcome_shows_everything_that_is_wrong_at_its_line(cast: Cast, job: Pipeline) -> None:
    response = act(cast, "jobs.text", "late", mode="validate", text=WRONG + "INSERT INTO nowhere SELECT 1;")
    shown = response.content.decode()
    assert re.findall(r'data-line="(\d+)" data-column="(\d+)"', shown) == [("4", "13"), ("5", "13")]
    assert "2 errors" in shown
    assert "job-graph" not in shown
    assert reloaded(cast).draft == TEXT


def test_lines_are_counted_as_they_were_typed(cast: Cast, job: Pipeline) -> None:
    shown = act(cast, "jobs.text", "late", mode="validate", text=WRONG.replace("\n", "\r\n")).content.decode()
    assert 'data-line="4" data-column="13"' in shown


def test_a_valid_text_shows_its_plan_and_keeps_nothing(cast: Cast, job: Pipeline) -> None:
    shown = act(cast, "jobs.text", "late", mode="validate", text=TEXT.replace("> 5", "> 6")).content.decode()
    assert "The text can be deployed" in shown
    assert shown.count('class="job-node ') == 4
    assert "INSERT, line 4" in shown and "What Spark runs" in shown
    assert reloaded(cast).draft == TEXT


def test_a_draft_is_saved_right_or_wrong(cast: Cast, job: Pipeline) -> None:
    shown = act(cast, "jobs.text", "late", mode="save", text=WRONG).content.decode()
    assert "The draft is saved." in shown and "1 error" in shown
    assert reloaded(cast).draft == WRONG
    assert Entry.objects.filter(action="pipelines.job.save", resource="late").exists()


def test_a_secret_of_a_draft_leaves_the_text_and_the_page(cast: Cast, job: Pipeline) -> None:
    shown = act(cast, "jobs.text", "late", mode="save", text=SECRET).content.decode()
    assert "sEcReT-4" not in shown
    assert "data-job-text" in shown and "${secret_values.late_accessKey}" in shown
    assert "sEcReT-4" not in page(cast, "jobs.editor", "late") + page(cast, "jobs.secrets")
    assert Secret.objects.filter(tenant=cast.acme, name="late_accessKey").exists()


def test_what_is_wrong_is_not_deployed(cast: Cast, job: Pipeline) -> None:
    shown = act(cast, "jobs.text", "late", mode="deploy", text=WRONG).content.decode()
    assert "1 error; nothing was deployed" in shown
    assert reloaded(cast).version is None


def test_a_text_is_deployed_with_and_without_scripts(cast: Cast, job: Pipeline) -> None:
    part = act(cast, "jobs.text", "late", mode="deploy", text=TEXT).content.decode()
    assert "Version 1 is deployed" in part
    assert '<span id="job-subheading" hx-swap-oob="true">SQL job, version 1</span>' in part
    data = {"mode": "deploy", "text": TEXT.replace("> 5", "> 6")}
    response = cast.client("alice").post(reverse("jobs.text", args=["late"]), data)
    assert "Version 2 is deployed" in response.content.decode() and "<main" in response.content.decode()
    assert reloaded(cast).draft == data["text"]


def test_an_empty_text_and_one_that_is_not_closed_are_said(cast: Cast, job: Pipeline) -> None:
    empty = act(cast, "jobs.text", "late", mode="save", text="")
    assert empty.status_code == 422 and "The text is empty." in empty.content.decode()
    shown = act(cast, "jobs.text", "late", mode="save", text="SELECT 'x").content.decode()
    assert "this text in quotes is not closed" in shown and "The draft is saved" not in shown


def test_the_page_of_a_job_draws_its_operators_with_their_rows(cast: Cast, deployed: Pipeline) -> None:
    before = page(cast, "jobs.detail", "late")
    assert before.count('class="job-node ') == 4 and "job-rows" not in before
    running(cast, deployed)
    samples.keep(deployed.pk, REPORT)
    shown = page(cast, "jobs.detail", "late")
    for text in ("123,456", "99,002", "77,001", "duplicateMessages", "Running", "2.5 s"):
        assert text in shown, text


def test_a_refresh_brings_the_parts_and_leaves_what_is_open(cast: Cast, deployed: Pipeline) -> None:
    running(cast, deployed)
    samples.keep(deployed.pk, REPORT)
    shown = page(cast, "jobs.live", "late", part=True, graph="1")
    assert "<details" not in shown and "<main" not in shown
    assert re.findall(r'id="([\w-]+)"[^>]* hx-swap-oob="true"', shown) == [
        "job-actions", "job-graph", "job-operators", "job-events",
    ]  # fmt: skip
    whole = page(cast, "jobs.detail", "late")
    for name in ("live", "job-actions", "job-graph", "job-operators", "job-events"):
        assert whole.count(f'id="{name}"') == 1, name
        assert shown.count(f'id="{name}"') == 1, name
    assert "hx-swap-oob" not in whole
    assert "job-graph" not in page(cast, "jobs.live", "late", part=True)


def test_a_job_that_no_worker_takes_says_what_it_waits_for(cast: Cast, deployed: Pipeline, settings: Settings) -> None:
    settings.PIPELINES_PER_WORKER = 20
    pipelines.start(actor=cast.actor("alice"), pipeline=deployed, start_from=StartFrom.NOTHING)
    Pipeline.objects.update(started_at=timezone.now() + timedelta(hours=1))  # however long this page takes
    waits = "It waits for a worker with a free place; each runs up to 20 jobs at a time (GANTRY_PIPELINES_PER_WORKER)."
    assert waits not in page(cast, "jobs.detail", "late")  # a moment is usual
    Pipeline.objects.update(started_at=timezone.now() - timedelta(seconds=4))
    assert waits in page(cast, "jobs.detail", "late")
    assert queries.waits_for(reloaded(cast)) == waits
    Pipeline.objects.update(due_at=timezone.now() + timedelta(minutes=1))  # after a failure: it is told when
    assert waits not in page(cast, "jobs.detail", "late")
    Pipeline.objects.update(due_at=None)
    assert lifecycle.claim(deployed.pk, "one") is not None
    assert waits not in page(cast, "jobs.detail", "late")


def test_a_failure_is_told_with_its_line(cast: Cast, deployed: Pipeline) -> None:
    lifecycle.fail(running(cast, deployed), "The topic is not there.", line=4, for_good=True)
    shown = page(cast, "jobs.detail", "late")
    assert "The topic is not there." in shown and "?line=4" in shown and "Failed" in shown
    assert "The topic is not there." in page(cast, "jobs.list")


def test_a_version_of_another_release_is_no_draft(cast: Cast, deployed: Pipeline) -> None:
    Version.objects.filter(pipeline=deployed).update(plan="{}")
    shown = page(cast, "jobs.detail", "late")
    assert "Nothing is deployed" not in shown and "Deploy the text again" in shown


def test_a_draft_has_a_page_that_leads_to_the_editor(cast: Cast, job: Pipeline) -> None:
    shown = page(cast, "jobs.detail", "late")
    assert "Nothing is deployed" in shown and reverse("jobs.editor", args=["late"]) in shown
    assert reverse("jobs.start", args=["late"]) not in shown


def test_a_version_that_does_not_run_yet_is_told(cast: Cast, deployed: Pipeline) -> None:
    running(cast, deployed)
    services.deploy(actor=cast.actor("alice"), pipeline=deployed, text=TEXT.replace("> 5", "> 6"))
    assert "Version 1 runs, and version 2 is deployed" in page(cast, "jobs.detail", "late")


def test_a_job_is_started_and_stopped_with_a_savepoint(cast: Cast, deployed: Pipeline) -> None:
    assert "with your rights" in page(cast, "jobs.start", "late", part=True)
    response = act(cast, "jobs.start", "late", start_from="checkpoint")
    assert response["HX-Redirect"] == reverse("jobs.detail", args=["late"])
    assert reloaded(cast).state == State.STARTING
    lease = lifecycle.claim(deployed.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    act(cast, "jobs.stop", "late", with_savepoint="on")
    stopping = reloaded(cast)
    assert (stopping.state, stopping.stop_with_savepoint) == (State.STOPPING, True)
    savepoint = lifecycle.keep_savepoint(lease, "oss://x/savepoints/1/")
    lifecycle.stop(lease)
    assert "oss://x/savepoints/1/" in page(cast, "jobs.checkpoints", "late")
    form = page(cast, "jobs.start", "late", savepoint=str(savepoint.pk))
    assert re.search(rf'value="{savepoint.pk}" selected', form)
    assert re.search(r'value="savepoint"[^>]*checked', form)
    act(cast, "jobs.start", "late", start_from="savepoint", savepoint=str(savepoint.pk))
    started = reloaded(cast)
    assert (started.start_from, started.savepoint_id) == (StartFrom.SAVEPOINT, savepoint.pk)


def test_one_savepoint_is_deleted_when_its_name_was_typed(cast: Cast, deployed: Pipeline) -> None:
    kept, other = (Savepoint.objects.create(pipeline=deployed, folder=f"oss://x/savepoint-{n}/") for n in (7, 8))
    key = str(kept.pk)
    assert reverse("jobs.savepoint_delete", args=["late", key]) in page(cast, "jobs.checkpoints", "late")
    assert "Type <strong" in page(cast, "jobs.savepoint_delete", "late", key)
    assert act(cast, "jobs.savepoint_delete", "late", key, name="8").status_code == 422
    assert cast.client("charlie").post(reverse("jobs.savepoint_delete", args=["late", key])).status_code == 404
    assert cast.client("nora").post(reverse("jobs.savepoint_delete", args=["late", key])).status_code == 403
    response = act(cast, "jobs.savepoint_delete", "late", key, name="7")
    assert response["HX-Redirect"] == reverse("jobs.checkpoints", args=["late"])
    assert list(deployed.savepoints.all()) == [other]
    assert act(cast, "jobs.savepoint_delete", "late", key, name="7").status_code == 404


def test_a_savepoint_without_room_is_refused_in_the_dialog_and_a_full_lake_is_shown(
    cast: Cast, deployed: Pipeline, settings: Settings
) -> None:
    lease = running(cast, deployed)
    fill(cast.acme, 1_000)
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 1_000}
    response = act(cast, "jobs.stop", "late", with_savepoint="on")
    assert response.status_code == 422
    assert "There is no room for a savepoint of 0 bytes, so stop late without one" in response.content.decode()
    lifecycle.note(lease, room.FULL, "The lake is <full>.")
    assert "The lake is &lt;full&gt;." in page(cast, "jobs.live", "late", part=True)
    lifecycle.note(lease, room.HAS_ROOM, "There is room.")
    shown = page(cast, "jobs.live", "late", part=True)
    assert 'class="alert' not in shown and "lake has room" in shown
    act(cast, "jobs.stop", "late")
    lifecycle.stop(lease)
    response = act(cast, "jobs.start", "late", start_from="checkpoint")
    assert response.status_code == 422 and "acme may store 1000 bytes in the lake" in response.content.decode()


def test_a_start_that_cannot_be_is_said_in_the_dialog(cast: Cast, deployed: Pipeline) -> None:
    running(cast, deployed)
    response = act(cast, "jobs.start", "late", start_from="nothing")
    assert response.status_code == 422
    assert "late is running; stop it first." in response.content.decode()
    missing = act(cast, "jobs.start", "late", start_from="savepoint")
    assert missing.status_code == 422


def test_a_stop_of_what_does_not_run_is_said(cast: Cast, deployed: Pipeline) -> None:
    response = act(cast, "jobs.stop", "late")
    assert response.status_code == 422 and "late does not run." in response.content.decode()


def test_a_sink_that_waits_is_shown_with_its_reason_while_the_job_runs(cast: Cast, deployed: Pipeline) -> None:
    lease = running(cast, deployed)
    now_ms = int(time.time() * 1000)
    waiting = Waiting("shown", "No <broker> answers.", 3, 11, now_ms - 60_000, now_ms + HOUR_MS)
    samples.keep(deployed.pk, replace(REPORT, waiting=(waiting,)))
    shown = page(cast, "jobs.detail", "late")
    assert "The table shown waits to be written, before try 4 of 11: No &lt;broker&gt; answers." in shown
    lifecycle.finish(lease)
    assert "waits to be written" not in page(cast, "jobs.live", "late", part=True)


def test_checkpoints_are_those_of_the_latest_report(cast: Cast, deployed: Pipeline) -> None:
    assert "No checkpoint yet" in page(cast, "jobs.checkpoints", "late")
    samples.keep(deployed.pk, REPORT)
    shown = page(cast, "jobs.checkpoints", "late", part=True)
    assert "<main" not in shown and ">7<" in shown and "2.0 KiB" in shown


def test_curves_have_the_same_numbers_in_a_table(cast: Cast, deployed: Pipeline) -> None:
    assert "No samples in this range" in page(cast, "jobs.statistics", "late")
    samples.keep(deployed.pk, REPORT)
    shown = page(cast, "jobs.statistics", "late", range="1h")
    for key in ("rates", "batches", "delay", "state"):
        figure = re.search(rf'<script id="{key}" type="application/json">(.*?)</script>', shown)
        assert figure is not None and json.loads(figure[1])["data"], key
    assert shown.count('id="points"') == 1 and "2.0 KiB" in shown
    part = page(cast, "jobs.statistics", "late", part=True)
    assert re.search(r'id="points" hx-swap-oob="true"', part)


def test_the_log_goes_on_behind_what_is_shown(cast: Cast, deployed: Pipeline) -> None:
    assert "Nothing has been written yet." in page(cast, "jobs.log", "late")
    journal.write(cast.acme.uid, deployed.pk, "print", "+I(<1>)")
    shown = page(cast, "jobs.log", "late")
    assert "+I(&lt;1&gt;)" in shown
    assert 'id="log-lines" data-most="2000"' in shown
    cursor = re.search(r"\?after=([\d-]+)", shown)
    assert cursor is not None
    journal.write(cast.acme.uid, deployed.pk, "error", "It broke.")
    more = page(cast, "jobs.log", "late", part=True, after=cursor[1])
    assert more.count("<li") == 1 and "It broke." in more
    assert re.search(r'id="log-cursor"[^>]*hx-swap-oob="true"', more)


def test_a_log_says_that_older_lines_are_gone_and_where_the_oldest_ones_are(cast: Cast, deployed: Pipeline) -> None:
    journal.write_all(cast.acme.uid, deployed.pk, "print", [f"+I({n})" for n in range(journal.MOST_KEPT)])
    shown = page(cast, "jobs.log", "late")
    assert "older lines are gone" not in shown and "+I(0)" not in shown
    assert shown.count('class="log-print"') == journal.MOST_SHOWN and "?after=0-0" in shown
    oldest = page(cast, "jobs.log", "late", after="0-0")
    assert "+I(0)" in oldest and "Start with the oldest" not in oldest
    journal.write_all(cast.acme.uid, deployed.pk, "print", ["one more"] * 3)
    shown = page(cast, "jobs.log", "late")
    assert re.search(r'<span class="num" title="3">3</span> older lines are gone', shown)


def test_a_log_has_the_lines_of_its_job_alone(cast: Cast, deployed: Pipeline) -> None:
    other = pipelines.create(actor=cast.actor("alice"), name="other")
    journal.write(cast.acme.uid, other.pk, "info", "of the other one")
    assert "of the other one" not in page(cast, "jobs.log", "late")


def test_versions_are_compared(cast: Cast, deployed: Pipeline) -> None:
    for number in (6, 7):
        services.deploy(actor=cast.actor("alice"), pipeline=deployed, text=TEXT.replace("> 5", f"> {number}"))
    shown = page(cast, "jobs.versions", "late")
    assert [int(n) for n in re.findall(r"Version (\d)</a>", shown)] == [3, 2, 1]
    third = page(cast, "jobs.version", "late", 3)
    assert third.count('class="diff-added"') == 1 and "id &gt; 6" in third and "id &gt; 7" in third
    assert "id &gt; 5" in page(cast, "jobs.version", "late", 3, against="1")
    assert "This is the first version" in page(cast, "jobs.version", "late", 1)
    assert cast.client("alice").get(reverse("jobs.version", args=["late", 9])).status_code == 404


def test_a_job_is_deleted_when_its_name_was_typed(
    cast: Cast, deployed: Pipeline, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    samples.keep(deployed.pk, REPORT)
    journal.write(cast.acme.uid, deployed.pk, "info", "x")
    assert act(cast, "jobs.delete", "late", name="lat").status_code == 422
    with django_capture_on_commit_callbacks(execute=True):
        response = act(cast, "jobs.delete", "late", name="late")
    assert response["HX-Redirect"] == reverse("jobs.list")
    assert not Pipeline.objects.filter(name="late").exists()
    assert (samples.latest([deployed.pk]), journal.lines(deployed.pk)) == ({}, [])


def test_a_job_that_runs_is_not_deleted(cast: Cast, deployed: Pipeline) -> None:
    running(cast, deployed)
    assert "late runs; stop it first." in act(cast, "jobs.delete", "late", name="late").content.decode()
    assert Pipeline.objects.filter(name="late").exists()


def test_a_secret_is_saved_and_never_shown(cast: Cast) -> None:
    assert "No secret yet" in page(cast, "jobs.secrets")
    act(cast, "jobs.secret_put", name="key.id", value=" sEcReT-9 ")
    assert pipelines.secret_values(cast.acme, ["key.id"]) == {"key.id": " sEcReT-9 "}
    shown = page(cast, "jobs.secrets") + page(cast, "jobs.secret_put", name="key.id")
    assert "${secret_values.key.id}" in shown and "sEcReT-9" not in shown
    refused = act(cast, "jobs.secret_put", name="no spaces", value="sEcReT-9")
    assert refused.status_code == 422 and "sEcReT-9" not in refused.content.decode()
    assert "sEcReT-9" not in str(list(Entry.objects.values_list("detail", flat=True)))
    act(cast, "jobs.secret_delete", "key.id", name="key.id")
    assert not Secret.objects.exists()


def test_a_variable_is_saved_changed_and_deleted(cast: Cast) -> None:
    act(cast, "jobs.variable_put", name="endpoint", value="http://h:1")
    assert "http://h:1" in page(cast, "jobs.secrets") + page(cast, "jobs.variable_put", name="endpoint")
    act(cast, "jobs.variable_put", name="endpoint", value="http://h:2")
    assert Variable.objects.get().value == "http://h:2"
    act(cast, "jobs.variable_delete", "endpoint", name="endpoint")
    assert not Variable.objects.exists()
    gone = act(cast, "jobs.variable_delete", "endpoint", name="endpoint")
    assert "There is no variable endpoint." in gone.content.decode()


def test_completion_knows_connectors_options_functions_secrets_and_variables(cast: Cast) -> None:
    pipelines.set_secret(actor=cast.actor("alice"), name="key_id", value="sEcReT-9")
    pipelines.set_variable(actor=cast.actor("alice"), name="endpoint", value="http://h:1")
    names = json.loads(page(cast, "jobs.names"))
    texts, words = ({tuple(one) for one in names[part]} for part in ("texts", "words"))
    assert {("mns", "connector"), ("queueName", "option"), ("json.ignore-parse-errors", "option")} <= texts
    assert {("execution.checkpointing.interval", "setting"), ("${secret_values.key_id}", "secret")} <= texts
    assert ("${endpoint}", "variable") in texts and "sEcReT-9" not in str(names)
    assert {("TUMBLE", "keyword"), ("SPLIT_INDEX", "function"), ("BIGINT", "type")} <= words


def test_who_may_only_look_is_shown_no_buttons(cast: Cast, deployed: Pipeline) -> None:
    document = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "dla:QueryJob", "Resource": f"acs:dla:*:{cast.acme.uid}:job/*"}],
    }
    cast.nora.policies.add(Policy.objects.create(tenant=cast.acme, name="looks", document=document))
    shown = page(cast, "jobs.detail", "late", who="nora") + page(cast, "jobs.editor", "late", who="nora")
    for name in ("jobs.start", "jobs.delete"):
        assert reverse(name, args=["late"]) not in shown
    assert 'value="validate"' in shown and 'value="deploy"' not in shown
    assert (
        "The text can be deployed"
        in act(cast, "jobs.text", "late", who="nora", mode="validate", text=TEXT).content.decode()
    )
    for mode in ("save", "deploy"):
        assert act(cast, "jobs.text", "late", who="nora", mode=mode, text=TEXT).status_code == 403
    assert cast.client("nora").get(reverse("jobs.secrets")).status_code == 403
    assert reverse("jobs.secrets") not in page(cast, "jobs.list", who="nora")


def test_the_navigation_has_jobs_for_who_may_see_them(cast: Cast) -> None:
    assert f'href="{reverse("jobs.list")}"' in page(cast, "jobs.list")
    assert f'href="{reverse("jobs.list")}"' not in page(cast, "accounts.keys", who="rita")
