"""SQL jobs on the command line, against a real console over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.audit.models import Entry
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline, Savepoint
from gantry_cli import config
from tests.cli.conftest import Run
from tests.console.jobs.conftest import TEXT
from tests.support.cast import Cast

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def test_a_job_is_made_from_a_file_and_told_as_a_table_or_as_json(
    gantry: Run, profile: config.Profile, cast: Cast, tmp_path: Path
) -> None:
    file = tmp_path / "late.sql"
    file.write_text(TEXT)
    assert gantry("job", "create", "--job", "late").status == 0
    told = gantry("job", "validate", "--text", f"@{file}", "-o", "json")
    assert json.loads(told.out)["valid"], told.err
    deployed = gantry("job", "deploy", "--job", "late", "--text", "@-", "-o", "json", stdin=TEXT)
    assert json.loads(deployed.out)["version"] == 1, deployed.err
    assert json.loads(gantry("job", "version", "--job", "late", "--version", "1", "-o", "json").out)["text"] == TEXT
    assert gantry("job", "start", "--job", "late").out == "done\n"
    Pipeline.objects.update(running_at="2026-03-01T12:00:00Z")
    shown = gantry("job", "list").out.splitlines()
    assert "runningSince" in shown[0] and "2026-03-01T12:00:00.000Z" in shown[2]
    listed = json.loads(gantry("-o", "json", "job", "list").out)
    assert [(row["job"], row["state"]) for row in listed] == [("late", "starting")]


def test_one_savepoint_of_a_job_is_deleted(gantry: Run, profile: config.Profile) -> None:
    gantry("job", "create", "--job", "late")
    job = Pipeline.objects.get(name="late")
    kept, other = (Savepoint.objects.create(pipeline=job, folder=f"oss://x/savepoint-{n}/") for n in (1, 2))
    ended = gantry("job", "deleteSavepoint", "--job", "late", "--savepoint", str(kept.pk))
    assert (ended.status, ended.out) == (0, "done\n"), ended.err
    listed = json.loads(gantry("job", "savepoints", "--job", "late", "-o", "json").out)
    assert [(row["savepoint"], row["name"]) for row in listed] == [(str(other.pk), "2")]


def test_a_refusal_is_one_line_with_its_symbol(gantry: Run, profile: config.Profile, tmp_path: Path) -> None:
    gantry("job", "create", "--job", "late")
    calls = {
        ("get", "--job", "none"): "BIZ_JOB_NOT_FOUND",
        ("create", "--job", "late"): "BIZ_JOB_EXISTED",
        ("start", "--job", "late"): "BIZ_JOB_STATE_INVALID",
        ("stop", "--job", "late"): "BIZ_JOB_STATE_INVALID",
        ("deploy", "--job", "late", "--text", "SELECT x FROM nowhere"): "BIZ_JOB_TEXT_REFUSED",
        ("version", "--job", "late", "--version", "1"): "BIZ_VERSION_NOT_FOUND",
        ("deleteSavepoint", "--job", "late", "--savepoint", "1"): "BIZ_SAVEPOINT_NOT_FOUND",
        ("deleteSecret", "--secret", "none"): "BIZ_SECRET_NOT_FOUND",
        ("deleteVariable", "--variable", "none"): "BIZ_VARIABLE_NOT_FOUND",
    }
    for arguments, symbol in calls.items():
        ended = gantry("job", *arguments)
        assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1), arguments
        assert ended.err.startswith(f"gantry: {symbol}: ") and "(request " in ended.err
    assert "no version yet; deploy its draft first" in gantry("job", "start", "--job", "late").err
    wrong = gantry("job", "deploy", "--job", "late", "--text", f"@{tmp_path / 'none.sql'}")
    assert wrong.status == 2 and "cannot be read" in wrong.err
    assert gantry("job", "start", "--job", "late", "--startFrom", "yesterday").status == 2


def test_who_may_not_is_told_so_by_status_3(gantry: Run, ritas: config.Profile, profile: config.Profile) -> None:
    for arguments in (("list",), ("create", "--job", "hers"), ("secrets",)):
        ended = gantry("--profile", "rita", "job", *arguments)
        assert ended.status == 3 and "AUTH_PERMISSION_DENIED" in ended.err


def test_a_secret_comes_from_standard_input_and_is_never_shown(
    gantry: Run, profile: config.Profile, cast: Cast
) -> None:
    put = gantry("job", "putSecret", "--secret", "key", "--value", "@-", stdin="sEcReT-9")
    assert (put.status, put.out, put.err) == (0, "done\n", "")
    assert pipelines.secret_values(cast.acme, ["key"]) == {"key": "sEcReT-9"}
    assert "sEcReT-9" not in gantry("job", "secrets", "-o", "json").out
    assert "sEcReT-9" not in str(list(Entry.objects.values_list("detail", flat=True)))
    assert gantry("job", "putVariable", "--variable", "at", "--value", "@@home").status == 0
    assert json.loads(gantry("job", "variables", "-o", "json").out) == [{"variable": "at", "value": "@home"}]


def test_all_pages_come_with_all(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    for number in range(105):
        pipelines.set_variable(actor=cast.actor("alice"), name=f"v{number:03}", value="x")
    assert len(json.loads(gantry("job", "variables", "-o", "json").out)) == 20
    every = json.loads(gantry("job", "variables", "--all", "-o", "json").out)
    assert [row["variable"] for row in every] == [f"v{number:03}" for number in range(105)]
