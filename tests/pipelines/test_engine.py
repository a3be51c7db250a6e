"""The engine on real parts: queue → query → topic, by the plans that the text of jobs makes."""

from __future__ import annotations

import gc
import io
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from analytics import lake
from analytics.errors import EngineBusy, PipelineFailed, PipelineFenced, PipelineRefused
from analytics.pipelines import checkpoints, runner
from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, Value, View, Watermark
from analytics.pipelines.runner import Pipeline
from brokercore.smq.client import QueueClient
from console.jobs.graph import of_plan
from tests.pipelines.jobs import (
    PATIENCE_SECONDS,
    Ground,
    columns_of,
    left_running,
    lines_of,
    plan_of,
    printed,
    until,
)
from tests.support.queue_service import Keys, QueueServiceProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")
MONTH_MS = 30 * 86_400_000
FLIGHT = "id bigint, carrier string, at timestamp, delay int"


def flight(number: int, *, carrier: str = "UA", second: int = 0, delay: int = 5) -> bytes:
    at = datetime(2026, 1, 15, 10, second // 60, second % 60, tzinfo=UTC)
    return json.dumps({"id": number, "carrier": carrier, "at": f"{at:%Y-%m-%d %H:%M:%S}.250", "delay": delay}).encode()


def test_it_brings_each_message_of_a_queue_to_a_topic_once_and_deletes_it(
    ground: Ground, queue: str, topic: str
) -> None:
    ground.fill(queue, (flight(number) for number in range(100)))
    plan = plan_of(
        ground.mns(queue, FLIGHT),
        ground.mq(topic, "id bigint, carrier string, at timestamp, late double", tag="late"),
        "select id, carrier, at, delay / 2 from well where id >= 10",
        views={"well": "select * from flights where delay is not null"},
    )

    pipeline = runner.start(ground.spec(plan))
    until(lambda: ground.left(queue) == 0, pipeline)
    pipeline.stop()
    report = pipeline.report()

    found = ground.messages(topic)
    assert sorted(message.body.decode() for message in found) == sorted(
        f"{number},UA,2026-01-15 10:00:00.250,2.5" for number in range(10, 100)
    )
    assert {message.tags for message in found} == {"late"}
    assert report.operators == {"source:flights": 100, "view:well": 100, "insert:0": 90}
    assert {name: count for name, count in report.connectors["flights"].items() if count} == {"deletedMessages": 100}
    assert (report.inserts[0].rows_in, report.inserts[0].rows_out, report.inserts[0].line) == (100, 90, 3)


def test_inserts_that_read_one_queue_share_its_messages(ground: Ground, queue: str) -> None:
    ground.fill(queue, (flight(number, carrier="UA" if number % 2 else "DL") for number in range(40)))
    source = ground.mns(queue, FLIGHT)
    inserts = (
        Insert("odd", "select id from flights where carrier = 'UA'"),
        Insert("all", "select a.id from flights a"),
        Insert("made", "select n from numbers"),
    )
    numbers = Source("numbers", "datagen", columns_of("n bigint"), options={"rows-per-second": 10})
    sinks = (printed("odd", "id bigint"), printed("all", "id bigint"), printed("made", "n bigint"))
    plan = Plan((source, numbers), sinks, (), inserts, Settings(checkpoint_interval_ms=2000, batch_interval_ms=200))

    pipeline = runner.start(ground.spec(plan))
    until(lambda: ground.left(queue) == 0 and bool(lines_of(pipeline, "made")), pipeline)
    pipeline.stop()

    assert sorted(lines_of(pipeline, "all")) == sorted(f"+I({number})" for number in range(40))
    assert sorted(lines_of(pipeline, "odd")) == sorted(f"+I({number})" for number in range(1, 40, 2))


def test_windows_close_by_the_watermark_and_go_on_from_a_savepoint(ground: Ground, queue: str) -> None:
    source = ground.mns(queue, FLIGHT, watermark=Watermark("at", 1_000))
    sql = "select window.start, carrier, count(*) from flights group by window(at, '10 seconds'), carrier"
    plan = plan_of(source, printed("counts", "begin timestamp, carrier string, n bigint"), sql)
    spec = ground.spec(plan)
    ground.fill(queue, (flight(number, second=number) for number in range(5)))

    first = runner.start(spec)
    until(lambda: ground.left(queue) == 0, first)
    until(lambda: first.report().inserts[0].watermark_ms is not None, first)
    report = first.report().inserts[0]
    assert report.state_rows == 1
    assert report.watermark_delay_ms is not None and report.watermark_delay_ms > 0
    first.stop("before-lunch")
    assert list(checkpoints.savepoints(spec.location)) == ["before-lunch"]

    ground.fill(queue, (flight(number, second=number) for number in range(5, 30)))
    origin = f"{checkpoints.SAVEPOINT}before-lunch"
    second = runner.start(ground.spec(plan, location=spec.location, number=2, origin=origin))
    until(lambda: len(lines_of(second, "counts")) >= 2, second)
    second.stop()
    assert lines_of(second, "counts") == [
        "+I(2026-01-15 10:00:00.000, UA, 10)",
        "+I(2026-01-15 10:00:10.000, UA, 10)",
    ]


def test_one_that_runs_reaches_its_state_after_others_were_started(ground: Ground) -> None:
    """What a session of Spark may reach is forgotten with the session, at the start of the next one."""
    numbers = Source("numbers", "datagen", columns_of("n bigint"), options={"rows-per-second": 10})
    plan = plan_of(numbers, printed("made", "n bigint"), "select n from numbers")
    first = runner.start(ground.spec(plan))
    until(lambda: first.report().inserts[0].batch is not None, first)
    gc.collect()

    others = [runner.start(ground.spec(plan)) for _ in range(2)]

    batch = first.report().inserts[0].batch or 0
    until(lambda: (first.report().inserts[0].batch or 0) > batch + 3, first)
    for one in (first, *others):
        one.stop()


def test_a_later_runner_ends_an_older_one(ground: Ground, queue: str) -> None:
    plan = plan_of(ground.mns(queue, FLIGHT), printed("all", "id bigint"), "select id from flights")
    old = runner.start(ground.spec(plan, number=4))
    ground.fill(queue, [flight(1)])
    until(lambda: ground.left(queue) == 0, old)

    new = runner.start(ground.spec(plan, location=old.spec.location, number=5))
    assert old.wait(PATIENCE_SECONDS)
    assert isinstance(old.failure, PipelineFenced)
    ground.fill(queue, [flight(2)])
    until(lambda: ground.left(queue) == 0, new)
    new.stop()
    assert lines_of(new, "all") == ["+I(1)", "+I(2)"]
    with pytest.raises(PipelineFenced, match="held by the runner with the number 5; 5 is too low"):
        runner.start(ground.spec(plan, location=old.spec.location, number=5))


@pytest.mark.parametrize(
    ("attributes", "settings", "sentence"),
    [
        ({"VisibilityTimeout": 2}, {}, "hides a received message for 2 s .* are 2 s apart"),
        ({"VisibilityTimeout": 30}, {"checkpoint_interval_ms": 0}, "needs checkpoints"),
    ],
)
def test_it_refuses_a_queue_whose_messages_would_come_again_without_end(
    ground: Ground, queue: str, attributes: dict[str, int], settings: dict[str, Any], sentence: str
) -> None:
    ground.queues.set_attributes(queue, attributes)
    plan = plan_of(ground.mns(queue, FLIGHT), printed("all", "id bigint"), "select id from flights", **settings)
    with pytest.raises(PipelineRefused, match=sentence):
        runner.start(ground.spec(plan))


def test_it_refuses_what_a_query_must_not_do(ground: Ground, queue: str) -> None:
    for sql, sentence in (
        ("select reflect('java.lang.System', 'getenv') from flights", "reflect"),
        ("select * from parquet.`/etc`", "There is no schema parquet"),
        ("select id, carrier from flights", "gives 2 columns, and the table all has 1"),
    ):
        plan = plan_of(ground.mns(queue, FLIGHT), printed("all", "id bigint"), sql)
        with pytest.raises(PipelineRefused, match=sentence) as refused:
            runner.start(ground.spec(plan))
        assert refused.value.line == 3
    for computed in ("reflect('java.lang.System', 'getenv')", "1) from secrets.t --"):
        source = Source("n", "datagen", (Column("n", "int"), Column("m", "", computed=computed)))
        with pytest.raises(PipelineRefused, match=r"reflect|There is no schema secrets"):
            runner.start(ground.spec(plan_of(source, printed("all", "m string"), "select m from n")))


def test_what_a_stream_cannot_do_is_refused_for_good_with_its_line(ground: Ground) -> None:
    numbers = Source("numbers", "datagen", columns_of("n bigint"), options={"rows-per-second": 10})
    for sql in ("select n from numbers order by n", "select n, count(*) from numbers group by n"):
        columns = "n bigint" if "order" in sql else "n bigint, times bigint"
        with pytest.raises(PipelineRefused) as refused:
            runner.start(ground.spec(plan_of(numbers, printed("all", columns), sql)))
        assert refused.value.line == 3


def test_what_spark_refuses_while_it_runs_is_refused_for_good_too() -> None:
    class Ended(StreamingQueryException):
        _cause = AnalysisException("[UNSUPPORTED_X] It cannot be. SQLSTATE: 0A000")

    for error in (Ended._cause, Ended("[STREAM_FAILED] Query terminated with exception. SQLSTATE: XXKST")):
        failure = runner._as_failure(error, 7)
        assert isinstance(failure, PipelineRefused)
        assert failure.line == 7
    reader = AnalysisException("[PYTHON_DATA_SOURCE_ERROR] It failed. SQLSTATE: 38000")
    assert isinstance(runner._as_failure(reader, 7), PipelineFailed)


def test_a_message_that_cannot_be_read_fails_the_pipeline_or_is_left_out(ground: Ground, queue: str) -> None:
    ground.queues.set_attributes(queue, {"VisibilityTimeout": 4})
    ground.fill(queue, [flight(1), b"no JSON"])
    plan = plan_of(ground.mns(queue, FLIGHT), printed("all", "id bigint"), "select id from flights")
    failing = runner.start(ground.spec(plan))
    assert failing.wait(PATIENCE_SECONDS)
    assert isinstance(failing.failure, PipelineFailed)
    assert failing.failure.line == 3
    assert f"of the queue {queue} cannot be read: it is not valid JSON" in failing.failure.user_message
    assert ground.left(queue) == 2

    ground.queues.set_attributes(queue, {"VisibilityTimeout": 30})  # a bad one that comes again is counted again
    source = ground.mns(queue, FLIGHT, format_options={"ignore-parse-errors": True})
    plan = plan_of(source, printed("all", "id bigint"), "select id from flights")
    pipeline = runner.start(ground.spec(plan))
    until(lambda: ground.left(queue) == 0, pipeline)
    pipeline.stop()
    assert lines_of(pipeline, "all") == ["+I(1)"]
    assert pipeline.report().connectors["flights"]["deserializationErrors"] == 1


def test_events_of_buckets_have_their_columns(ground: Ground, queue: str) -> None:
    names = ("ObjectCreated:PutObject", "ObjectRemoved:DeleteObject")
    events = [
        {"eventName": name, "oss": {"bucket": {"name": "b1"}, "object": {"key": "x.png", "size": 12}}} for name in names
    ]
    ground.fill(queue, [json.dumps({"events": found}).encode() for found in (events, events[1:])])
    columns = "eventName string, ossBucketName string, ossObjectKey string, ossObjectSize bigint, eventTime timestamp"
    source = ground.mns(queue, columns, name="uploads", messageType="OSS")
    sink = printed("made", "bucket string, name string, size bigint, at timestamp")
    sql = (
        "select ossBucketName, ossObjectKey, ossObjectSize, eventTime from uploads"
        " where eventName like 'ObjectCreated:%'"
    )
    pipeline = runner.start(ground.spec(plan_of(source, sink, sql)))
    until(lambda: ground.left(queue) == 0, pipeline)
    pipeline.stop()
    assert lines_of(pipeline, "made") == ["+I(b1, x.png, 12, null)"]
    assert pipeline.report().connectors["uploads"]["droppedEvents"] == 1


def test_messages_from_before_the_start_time_are_deleted_unseen(ground: Ground, queue: str) -> None:
    ground.fill(queue, [flight(1)])
    (old,) = ground.queues.peek(queue)
    until(lambda: time.time() * 1000 > old.enqueued_ms + 50)
    ground.fill(queue, [flight(2)])
    source = ground.mns(queue, FLIGHT, startTimeMs=old.enqueued_ms + 1)
    plan = plan_of(source, printed("all", "id bigint"), "select id from flights")
    pipeline = runner.start(ground.spec(plan))
    until(lambda: ground.left(queue) == 0, pipeline)
    pipeline.stop()
    assert lines_of(pipeline, "all") == ["+I(2)"]
    assert pipeline.report().connectors["flights"]["skippedMessages"] == 1


def test_a_batch_job_runs_to_its_end_and_writes_bytes(ground: Ground, topic: str) -> None:
    options: dict[str, Value] = {
        "number-of-rows": 30,
        "fields.n.kind": "sequence",
        "fields.n.start": 1,
        "fields.n.end": 20,
    }
    source = Source("numbers", "datagen", columns_of("n bigint, word string"), options=options)
    sink = ground.mq(topic, "payload binary", written="binary")
    plan = plan_of(source, sink, "select cast(cast(n as string) as binary) from numbers", mode="batch")

    first = replace(ground.spec(plan), begun="monday")
    pipeline = runner.start(first)
    assert pipeline.wait(PATIENCE_SECONDS)
    assert pipeline.failure is None
    assert sorted(int(message.body) for message in ground.messages(topic)) == list(range(1, 21))
    assert pipeline.report().operators["insert:0"] == 20

    # Nobody was told of its end: a further attempt has nothing left to do. Another start has.
    for number, begun, written in ((2, "monday", 20), (3, "tuesday", 40)):
        again = runner.start(replace(first, number=number, begun=begun))
        assert again.wait(PATIENCE_SECONDS)
        assert again.failure is None
        assert len(ground.messages(topic)) == written


def test_a_batch_job_tells_the_rows_of_its_sources_views_and_inserts(ground: Ground) -> None:
    numbers = Source("numbers", "datagen", columns_of("n bigint"), options={
        "number-of-rows": 20, "fields.n.kind": "sequence", "fields.n.start": 1, "fields.n.end": 20,
    })  # fmt: skip
    inserts = (
        Insert("odd", "select n from odds where n > 9", line=2),
        Insert("all", "select a.n from numbers a join numbers b on a.n = b.n", line=3),
        Insert("given", "select 7", line=4),
        Insert("none", "select n from unread where 1 = 0", line=5),
    )
    sinks = tuple(printed(insert.sink, "n bigint") for insert in inserts)
    views = (View("odds", "select n from numbers where n % 2 = 1"), View("unread", "select n + 1 as n from numbers"))
    plan = Plan((numbers,), sinks, views, inserts, Settings(mode="batch"))

    pipeline = runner.start(ground.spec(plan))
    assert pipeline.wait(90) and pipeline.failure is None

    report = pipeline.report()
    assert report.operators == {
        "source:numbers": 20, "view:odds": 10, "insert:0": 5, "insert:1": 20, "insert:2": 1, "insert:3": 0,
    }  # fmt: skip
    assert [(one.batch, one.rows_out) for one in report.inserts] == [(0, 5), (0, 20), (0, 1), (0, 0)]
    assert [one.rows_in for one in report.inserts] == [20, 20, None, 20]
    assert all(one.committed_ms and one.duration_ms for one in report.inserts)
    assert 0 < report.rows_in_per_second <= 20
    nodes = {node.key: (node.rows_in, node.rows_out) for node in of_plan(plan, report).nodes}
    assert (nodes["source:numbers"], nodes["view:odds"], nodes["insert:0"]) == ((None, 20), (20, 10), (10, 5))
    assert (nodes["sink:odd"], nodes["insert:2"], nodes["view:unread"]) == ((5, None), (None, 1), (20, None))


def test_an_insert_without_a_stream_tells_its_rows_beside_those_that_stream(ground: Ground) -> None:
    numbers = Source("numbers", "datagen", columns_of("n bigint"), options={"rows-per-second": 50})
    inserts = (Insert("given", "select * from values (1), (2)"), Insert("made", "select n from numbers"))
    sinks = (printed("given", "n bigint"), printed("made", "n bigint"))
    plan = Plan((numbers,), sinks, (), inserts, Settings(batch_interval_ms=200))
    pipeline = runner.start(ground.spec(plan))
    until(lambda: pipeline.report().inserts[1].rows_out > 0, pipeline)
    pipeline.stop()
    report = pipeline.report()
    assert (report.operators["insert:0"], report.inserts[0].rows_out, report.inserts[0].batch) == (2, 2, 0)
    assert report.rows_in_per_second > 0


def test_a_topic_is_a_source_too_with_what_messages_have_beside_their_body(ground: Ground, topic: str) -> None:
    numbers = Source("numbers", "datagen", columns_of("n bigint, w string"), options={"number-of-rows": 5})
    fill = plan_of(
        numbers, ground.mq(topic, "n int, word string", tag="t1"), "select 7, 'abc' from numbers", mode="batch"
    )
    filling = runner.start(ground.spec(fill))
    assert filling.wait(PATIENCE_SECONDS) and filling.failure is None

    options: dict[str, Value] = {
        "endpoint": ground.namesrv,
        "topic": topic,
        "accessId": ground.credentials.access_key_id,
        "accessKey": "${secret_values.broker}",
        "fieldDelimiter": ",",
    }
    columns = (
        *columns_of("n int, word string"),
        Column("tag", "string", "tags"),
        Column("twice", "", computed="n * 2"),
    )
    source = Source("letters", "mq", columns, format="csv", options=options)
    for mode in ("batch", "streaming"):
        plan = plan_of(source, printed("all", "a int, b string, c string, d int"), "select * from letters", mode=mode)
        pipeline = runner.start(ground.spec(plan))
        until(lambda: len(lines_of(pipeline, "all")) >= 5, pipeline)  # noqa: B023
        if mode == "streaming":
            pipeline.stop()
        assert lines_of(pipeline, "all") == ["+I(7, abc, t1, 14)"] * 5


def test_files_of_the_lake_are_written_and_read(ground: Ground, spark: SparkSession) -> None:
    folder = "oss://alice-lake/exports/numbers/"
    options: dict[str, Value] = {
        "number-of-rows": 50,
        "fields.n.kind": "sequence",
        "fields.n.start": 0,
        "fields.n.end": 49,
    }
    files = Source("files", "filesystem", columns_of("n bigint"), format="parquet", options={"path": folder}, line=7)
    for watched in ({}, {"source.monitor-interval": 1000}):
        early = replace(files, options=files.options | watched)
        with pytest.raises(PipelineRefused, match="reads oss://alice-lake/exports/numbers/, and nothing") as refused:
            runner.start(ground.spec(plan_of(early, printed("sums", "n bigint"), "select n from files")))
        assert refused.value.line == 7

    source = Source("numbers", "datagen", columns_of("n bigint, w string"), options=options)
    sink = Sink("files", "filesystem", columns_of("n bigint"), format="parquet", options={"path": folder})
    written = runner.start(ground.spec(plan_of(source, sink, "select n from numbers")))
    until(lambda: written.report().operators.get("insert:0", 0) >= 50, written)
    written.stop()

    plan = plan_of(files, printed("sums", "n bigint"), "select sum(n) from files", mode="batch")
    read = runner.start(ground.spec(plan))
    assert read.wait(PATIENCE_SECONDS) and read.failure is None
    assert lines_of(read, "sums") == ["+I(1225)"]


def test_files_are_chosen_by_their_paths_which_rows_may_have_beside_them(ground: Ground) -> None:
    folder = "oss://alice-lake/exports/chosen/"
    for name in ("a.csv", "b.csv"):
        lake.write_file(f"{folder}{name}", io.BytesIO(b"1;x\n2;y\n"))
    columns = (*columns_of("n bigint, w string"), Column("p", "string", metadata="file.path"))
    source = Source(
        "files", "filesystem", (*columns, Column("s", "bigint", metadata="file.size")), format="csv",
        options={"path": folder, "source.path.regex-pattern": r".*/chosen/b\.csv"},
        format_options={"field-delimiter": ";"},
    )  # fmt: skip
    plan = plan_of(source, Sink("select_3", "print", ()), "select n, p, s from files order by n", mode="batch")
    read = runner.start(ground.spec(plan))
    assert read.wait(PATIENCE_SECONDS) and read.failure is None
    assert lines_of(read, "select_3") == [f"+I({n}, {folder}b.csv, 8)" for n in (1, 2)]
    assert read.printed() == lines_of(read, "select_3")


def test_one_that_is_abandoned_ends_at_once_and_leaves_its_state(ground: Ground, queue: str) -> None:
    plan = plan_of(ground.mns(queue, FLIGHT), printed("all", "id bigint"), "select id from flights")
    first = runner.start(ground.spec(plan))
    ground.fill(queue, [flight(1)])
    until(lambda: ground.left(queue) == 0, first)
    first.abandon()
    assert (first.is_running, first.failure) == (False, None)
    ground.fill(queue, [flight(2)])
    second = runner.start(ground.spec(plan, location=first.spec.location, number=2))
    until(lambda: ground.left(queue) == 0, second)
    second.stop()
    assert sorted(lines_of(second, "all")) == ["+I(1)", "+I(2)"]


def test_what_a_test_left_running_is_abandoned(ground: Ground) -> None:
    numbers = Source("numbers", "datagen", columns_of("n bigint"), options={"rows-per-second": 10})
    plan = plan_of(numbers, printed("made", "n bigint"), "select n from numbers")

    def fails() -> None:
        with left_running():
            started.extend(runner.start(ground.spec(plan)) for _ in range(2))
            started[0].stop()
            raise AssertionError("as a test")

    started: list[Pipeline] = []
    with pytest.raises(AssertionError, match="as a test"):
        fails()
    assert [(one.is_running, one.failure) for one in started] == [(False, None)] * 2


def test_what_was_received_ahead_of_a_stop_is_given_back(ground: Ground, queue: str) -> None:
    ground.queues.set_attributes(queue, {"VisibilityTimeout": 3600})
    slow = plan_of(
        ground.mns(queue, FLIGHT), printed("all", "id bigint"), "select id from flights", batch_interval_ms=MONTH_MS
    )
    pipeline = runner.start(ground.spec(slow))
    ground.fill(queue, [flight(1)])
    until(lambda: ground.left(queue) == 0, pipeline)
    ground.fill(queue, map(flight, range(2, 7)))
    until(lambda: ground.queues.queue(queue).inactive == 5, pipeline)

    pipeline.stop()

    until(lambda: ground.queues.queue(queue).active == 5)
    assert lines_of(pipeline, "all") == ["+I(1)"]


def test_a_queue_of_another_account_is_read_by_what_the_starter_gives(ground: Ground, service_key: Keys) -> None:
    name = "of-another"
    owner = QueueClient(ground.endpoint, service_key.id, service_key.secret, account="42")
    owner.create_queue(name, {"VisibilityTimeout": 30})
    owner.send(name, flight(7))
    source = ground.mns(name, FLIGHT)
    own = {
        key: value for key, value in source.options.items() if key not in ("endpoint", "accessKeyId", "accessKeySecret")
    }
    plan = plan_of(replace(source, options=own), printed("all", "id bigint"), "select id from flights")
    keys: dict[str, Value] = {
        "endpoint": ground.endpoint,
        "accessKeyId": service_key.id,
        "accessKeySecret": service_key.secret,
        "account": "42",
    }
    pipeline = runner.start(replace(ground.spec(plan), given={"flights": keys}))
    until(lambda: lines_of(pipeline, "all") == ["+I(7)"], pipeline)
    pipeline.stop()


@pytest.fixture
def service_key(service: QueueServiceProcess) -> Keys:
    """Gantry's own, which acts for any account."""
    return Keys(service.access_key_id, service.access_key_secret)


def test_a_reader_that_does_not_start_in_time_is_the_machines_fault(ground: Ground) -> None:
    failure = runner._as_failure(PySparkException("Job aborted: Python worker failed to connect back."), 7)
    assert isinstance(failure, EngineBusy)
    assert "did not start within 10 s" in failure.user_message
