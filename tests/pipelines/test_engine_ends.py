"""Inserts whose rows end, alone and beside streams: each is written once, over restarts too, and keeps nobody."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from analytics import lake
from analytics.errors import PipelineFailed, PipelineFenced
from analytics.pipelines import checkpoints, runner
from analytics.pipelines.plan import Insert, Plan, Settings, Source
from analytics.pipelines.runner import Pipeline, Start
from tests.console.jobs.compiler.texts import plan
from tests.pipelines.jobs import Ground, columns_of, lines_at, lines_of, new_location, printed, until
from tests.pipelines.test_engine_waits import unreachable

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.process]
PATIENCE_SECONDS = 120.0
#: The plan of an INSERT … VALUES, of one that reads files, and of a stream.
ONE, FILES, STREAM = "select * from values (1), (2)", "select n from files", "select n from numbers"


def numbers(**options: Any) -> Source:
    return Source("numbers", "datagen", columns_of("n bigint"), options={"rows-per-second": 10} | options)


def mixed(folder: str, *inserts: Insert) -> Plan:
    """Of a folder with files, where one is given."""
    files = Source("files", "filesystem", columns_of("n bigint"), format="csv", options={"path": folder})
    sinks = tuple(printed(name, "n bigint") for name in ("one", "read", "made"))
    settings = Settings(checkpoint_interval_ms=2_000, batch_interval_ms=200)
    return Plan((files, numbers()) if folder else (numbers(),), sinks, (), inserts, settings)


def begun(spec: Start, number: int, **changes: Any) -> Pipeline:
    return runner.start(replace(spec, number=number, **changes))


def has_batches(pipeline: Pipeline, number: int, more: int = 1) -> bool:
    return (pipeline.report().inserts[number].batch or 0) >= more


def test_rows_that_end_are_grouped_ordered_and_limited_in_a_stream_too(ground: Ground) -> None:
    text = """CREATE TABLE five (n BIGINT, k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5',
      'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '9',
      'fields.k.min' = '7', 'fields.k.max' = '7');
    CREATE TABLE counted (k INT, times BIGINT) WITH ('connector' = 'print');
    CREATE TABLE last (n BIGINT) WITH ('connector' = 'print');
    INSERT INTO counted SELECT k, COUNT(*) FROM five GROUP BY k;
    INSERT INTO last SELECT n FROM five ORDER BY n DESC LIMIT 2;"""
    pipeline = runner.start(ground.spec(plan(text)))
    assert pipeline.wait(PATIENCE_SECONDS)
    assert pipeline.failure is None
    assert lines_of(pipeline, "counted") == ["+I(7, 5)"]
    assert lines_of(pipeline, "last") == ["+I(5)", "+I(4)"]
    report = pipeline.report()
    assert [insert.rows_out for insert in report.inserts] == [1, 2]
    assert (report.operators["insert:0"], report.operators["insert:1"]) == (1, 2)


def test_rows_that_end_are_written_once_beside_a_stream_over_restarts_and_savepoints(ground: Ground) -> None:
    folder = f"{new_location()}files/"
    lake.write_file(f"{folder}a.csv", io.BytesIO(b"1\n2\n"))
    both = mixed(folder, Insert("one", ONE, line=1), Insert("made", STREAM, line=2), Insert("read", FILES, line=3))
    spec = replace(ground.spec(both), begun="monday")
    location = spec.location

    first = begun(spec, 1)
    until(lambda: has_batches(first, 1) and sorted(lines_of(first, "read")) == ["+I(1)", "+I(2)"], first)
    until(lambda: first.report().operators.get("insert:2") == 2, first)
    first.abandon()
    second = begun(spec, 2)
    until(lambda: has_batches(second, 1, 3), second)
    assert second.is_running
    second.stop("kept")
    lake.write_file(f"{folder}b.csv", io.BytesIO(b"3\n"))
    third = begun(spec, 3, origin=f"{checkpoints.SAVEPOINT}kept", begun="tuesday")
    reached = third.report().inserts[1].batch or 0
    until(lambda: has_batches(third, 1, reached + 2), third)
    third.stop()
    for sink in ("one", "read"):
        assert sorted(lines_at(location, sink)) == ["+I(1)", "+I(2)"]

    fourth = begun(spec, 4, origin=checkpoints.NOTHING, begun="wednesday")
    until(lambda: sorted(lines_of(fourth, "read")) == ["+I(1)", "+I(2)", "+I(3)"], fourth)
    fourth.stop()


def test_a_job_whose_rows_have_all_ended_begins_anew_with_the_next_start_alone(ground: Ground) -> None:
    spec = replace(ground.spec(mixed("", Insert("one", ONE, line=1))), begun="monday")
    for number, start, times in ((1, "monday", 1), (2, "monday", 1), (3, "tuesday", 2)):
        pipeline = begun(spec, number, begun=start)
        assert pipeline.wait(PATIENCE_SECONDS)
        assert pipeline.failure is None
        assert sorted(lines_of(pipeline, "one")) == sorted(["+I(1)", "+I(2)"] * times)


def test_a_further_attempt_of_a_batch_job_goes_on_with_what_was_not_written(ground: Ground) -> None:
    fails = Insert("read", "select raise_error('no') from values (1)", line=2)
    failing = replace(mixed("", Insert("one", ONE, line=1), fails), sources=(), settings=Settings("batch"))
    spec = replace(ground.spec(failing), begun="monday")
    for number, start, times in ((1, "monday", 1), (2, "monday", 1), (3, "tuesday", 2)):
        pipeline = begun(spec, number, begun=start)
        assert pipeline.wait(PATIENCE_SECONDS)
        assert isinstance(pipeline.failure, PipelineFailed)
        assert pipeline.failure.line == 2
        assert sorted(lines_of(pipeline, "one")) == sorted(["+I(1)", "+I(2)"] * times)


def test_what_fails_since_another_runner_has_the_state_is_no_failure_of_the_job(ground: Ground) -> None:
    pipeline = begun(ground.spec(mixed("", Insert("made", STREAM, line=1))), 1)
    checkpoints.claim(pipeline.spec.location, 2)
    pipeline._fail(PipelineFailed("The table made is written by another worker now.", 1))
    assert isinstance(pipeline.failure, PipelineFenced)


def test_neither_a_start_nor_a_stop_waits_for_rows_that_end_and_what_was_cut_off_is_written_anew(
    ground: Ground, topic: str
) -> None:
    settings = Settings(checkpoint_interval_ms=2_000, batch_interval_ms=200)
    # In one task, which waits: the stream has the other core.
    inserts = (Insert("carriers", "select explode(array(1L, 2L))", line=1), Insert("made", STREAM, line=2))
    waiting = Plan((numbers(),), (unreachable(ground, topic), printed("made", "n bigint")), (), inserts, settings)
    spec = replace(ground.spec(waiting), begun="monday")

    first = begun(spec, 1)
    until(lambda: bool(first.report().waiting) and has_batches(first, 1), first)
    first.stop("cut")
    second = begun(spec, 2)
    until(lambda: bool(second.report().waiting), second)
    reached = replace(waiting, sinks=(ground.mq(topic, "id bigint"), printed("made", "n bigint")))
    third = begun(replace(spec, plan=reached), 3)
    until(lambda: not second.is_running)
    assert isinstance(second.failure, PipelineFenced)
    until(lambda: third.report().operators.get("insert:0") == 2, third)
    third.stop()
    assert sorted(message.body for message in ground.messages(topic)) == [b"1", b"2"]
    assert not checkpoints.insert_has_ended(second._held, "insert-carriers")
    assert checkpoints.insert_has_ended(third._held, "insert-carriers")
