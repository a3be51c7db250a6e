"""Every form of a job's text on real parts: read as it is written, planned, run on queue service, broker and Spark.

What a text means is tested by its plan elsewhere (test_text_*); here it is the rows that come out.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from analytics import lake
from analytics.errors import PipelineFailed
from analytics.pipelines import runner
from analytics.pipelines.plan import OSS_EVENT_COLUMNS
from analytics.pipelines.runner import Pipeline
from analytics.specs import Column, TableSpec
from brokercore.client import Admin, Credentials, Message, Producer
from brokercore.names import wrap
from tests.console.jobs.compiler.texts import flights, plan
from tests.pipelines.jobs import Ground, lines_of, until
from tests.pipelines.test_engine_formats import EVENT
from tests.support.broker import broker_process, eventually

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.process]
_numbers = itertools.count()
QUICK = "SET 'execution.checkpointing.interval' = '2s';\nSET 'execution.batch-interval' = '200ms';\n"
BATCH = "SET 'execution.runtime-mode' = 'batch';\n"
#: What stands in WITH for each queue and topic, as the vendor's pages write it.
OF_QUEUE = """'connector' = 'mns', 'endpoint' = '${queues}', 'region' = 'mq-private', 'batchSize' = '16',
  'pollingWaitTime' = '1s', 'accessKeyId' = '${secret_values.id}', 'accessKeySecret' = '${secret_values.secret}'"""
OF_TOPIC = """'connector' = 'mq', 'endpoint' = '${broker}', 'accessId' = '${secret_values.key}',
  'accessKey' = '${secret_values.broker}'"""


def started(ground: Ground, text: str, *, variables: Mapping[str, str] | None = None, airlines: str = "") -> Pipeline:
    """The job of a text, running."""
    given = {"queues": ground.endpoint, "broker": ground.namesrv} | dict(variables or {})
    secrets = ground.secrets | {"key": ground.credentials.access_key_id}
    written = text.replace("OF_QUEUE", OF_QUEUE).replace("OF_TOPIC", OF_TOPIC)
    made = plan(written, variables=given, secrets=set(secrets), catalog=flights)
    spec = replace(ground.spec(made), secrets=secrets)
    if airlines:
        columns = (Column("code", "string"), Column("name", "string"))
        spec = replace(spec, tables={"demo": [TableSpec("airlines", airlines, "csv", columns)]})
    return runner.start(spec)


def printed(pipeline: Pipeline, sink: str) -> list[str]:
    """The rows of a table `print`, in any order."""
    return sorted(line[3:-1] for line in lines_of(pipeline, sink))


def ended(ground: Ground, text: str, variables: Mapping[str, str] | None = None) -> Pipeline:
    """The batch job of a text, at its end."""
    pipeline = started(ground, BATCH + text, variables=variables)
    assert pipeline.wait(90)
    if pipeline.failure is not None:
        raise pipeline.failure
    return pipeline


def new_queue(ground: Ground, *bodies: bytes) -> str:
    name = f"forms-{next(_numbers)}"
    ground.queues.create_queue(name, {"VisibilityTimeout": 30})
    ground.fill(name, bodies)
    return name


def file_of(kind: str, table: pa.Table) -> bytes:
    content = io.BytesIO()
    (parquet.write_table if kind == "parquet" else orc.write_table)(table, content)
    return base64.b64encode(content.getvalue())


def avro_of(*records: Mapping[str, object]) -> bytes:
    fields = [{"name": "n", "type": ["null", "long"]}, {"name": "word", "type": ["null", "string"]}]
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), records)
    return base64.b64encode(content.getvalue())


QUEUES = """
-- JSON by the names of its columns
CREATE TEMPORARY TABLE clicks (
  `visitor` BIGINT,
  `page` STRING,
  `at` TIMESTAMP(3)
) WITH (OF_QUEUE, 'queueName' = '${clicks}', 'format' = 'json', 'json.ignore-parse-errors' = 'true');

CREATE TEMPORARY TABLE uploads (
  `eventName` STRING,
  `ossBucketName` STRING,
  `ossObjectKey` STRING,
  `ossObjectSize` BIGINT
) WITH (OF_QUEUE, 'queueName' = '${uploads}', 'format' = 'json', 'messageType' = 'OSS');

create temporary table mns_source(data string) with (OF_QUEUE,'queueName'='${raw}','format'='raw');
CREATE TABLE of_csv (n BIGINT, tags ARRAY<STRING>) WITH (OF_QUEUE, 'queueName' = '${csv}', 'format' = 'csv',
  'csv.field-delimiter' = '|', 'csv.ignore-parse-errors' = 'true', 'csv.allow-comments' = 'true');
CREATE TABLE of_avro (n BIGINT, word STRING) WITH (OF_QUEUE, 'queueName' = '${avro}', 'format' = 'avro');
CREATE TABLE of_parquet (n BIGINT, word STRING) WITH (OF_QUEUE, 'queueName' = '${parquet}', 'format' = 'parquet');
CREATE TABLE of_orc (n BIGINT, word STRING) WITH (OF_QUEUE, 'queueName' = '${orc}', 'format' = 'orc');
create table print_sink (data varchar) with ('connector'='print');
create table shown (n BIGINT, word STRING) with ('connector'='print', 'print-identifier' = 'file');
CREATE TEMPORARY VIEW files AS SELECT * FROM of_avro UNION ALL SELECT * FROM of_parquet UNION ALL SELECT * FROM of_orc;

SELECT * FROM clicks;
SELECT ossBucketName, ossObjectKey FROM uploads WHERE eventName LIKE 'ObjectCreated:%';
begin statement set;
  insert into print_sink
  select substring(data, 0, 5) from mns_source where data is not null; -- five of them
  INSERT INTO shown SELECT n, ARRAY_JOIN(tags, '+') FROM of_csv;
  INSERT INTO shown (word, n) SELECT word, n FROM files;
end;
"""


def test_queues_of_every_format_are_read(ground: Ground) -> None:
    click = b'{"visitor":7,"page":"/a","at":"2026-01-15T10:00:00.000"}'
    event = {
        "eventName": "ObjectCreated:PutObject",
        "oss": {"bucket": {"name": "b1"}, "object": {"key": "x.png", "size": 12}},
    }
    removed = {"eventName": "ObjectRemoved:DeleteObject", "oss": {"bucket": {"name": "b1"}, "object": {"key": "y"}}}
    rows = pa.table({"n": [5], "word": ["five"]})
    bodies = {
        "clicks": (click, b"no JSON", b'{"visitor":"x","page":"/b"}'),
        "uploads": tuple(json.dumps({"events": [one]}).encode() for one in (event, removed)),
        "raw": (b"abcdefg",),
        "csv": (b"1|a;b", b"# left out", b"x|c"),
        "avro": (avro_of({"n": 3, "word": "three"}, {"n": None, "word": "none"}),),
        "parquet": (file_of("parquet", rows),),
        "orc": (file_of("orc", rows),),
    }
    names = {kind: new_queue(ground, *found) for kind, found in bodies.items()}

    pipeline = started(ground, QUICK + QUEUES, variables=names)
    until(lambda: not any(ground.left(name) for name in names.values()), pipeline)
    pipeline.stop()

    first, second = (sink.name for sink in pipeline.spec.plan.sinks if sink.name.startswith("select_"))
    assert printed(pipeline, first) == ["7, /a, 2026-01-15 10:00:00.000", "null, /b, null"]
    assert printed(pipeline, second) == ["b1, x.png"]
    assert printed(pipeline, "print_sink") == ["abcde"]
    assert sorted(lines_of(pipeline, "shown")) == [
        "file> +I(1, a+b)", "file> +I(3, three)", "file> +I(5, five)", "file> +I(5, five)", "file> +I(null, c)",
        "file> +I(null, none)",
    ]  # fmt: skip
    assert pipeline.report().connectors["clicks"]["deserializationErrors"] == 1


def test_an_event_of_a_bucket_has_19_columns_and_a_bad_body_fails_the_job(ground: Ground) -> None:
    kinds = {"string": "STRING", "bigint": "BIGINT", "timestamp": "TIMESTAMP(3)"}
    columns = ", ".join(f"`{name}` {kinds[kind]}" for name, (_, kind) in OSS_EVENT_COLUMNS.items())
    queue = new_queue(ground, json.dumps({"events": [EVENT]}).encode())
    text = f"""{QUICK}CREATE TEMPORARY TABLE events ({columns}) WITH (OF_QUEUE, 'queueName' = '{queue}',
      'format' = 'json', 'messageType' = 'OSS');
    SELECT * FROM events"""
    pipeline = started(ground, text)
    until(lambda: not ground.left(queue), pipeline)
    (sink,) = pipeline.spec.plan.sinks
    assert printed(pipeline, sink.name) == [
        "ObjectCreated:PutObject, acs:oss, 2026-01-15 10:00:00.000, 1.0, mq-private, acs:oss:mq-private:1:b1, b1, 1,"
        " x.png, 12, AB, 12, 1, 9, 1.0, rule-1, 10.0.0.1, 5FC6, 1"
    ]
    ground.fill(queue, [b'{"events":[]}'])
    assert pipeline.wait(90)
    assert isinstance(pipeline.failure, PipelineFailed)
    assert "it is no event of a bucket" in pipeline.failure.user_message
    assert pipeline.failure.line == 6


SINKS = """
CREATE TABLE order_sink (id INTEGER, total BIGINT, note VARCHAR) WITH (OF_TOPIC,
  'topic' = '${orders}', 'producerGroup' = 'GID_flink',
  'tag' = 'created', 'encoding' = 'utf-8',
  'retryTimes' = '3', 'sleepTimeMs' = '200',
  'instanceID' = 'MQ_INST_demo01'
);
CREATE TEMPORARY TABLE bytes_sink (payload VARBINARY) WITH (OF_TOPIC, 'topic' = '${raw}', 'producerGroup'='GID_flink');
create temporary table gb (a varchar, b double, c boolean, d timestamp(3), e decimal(5,2)) with (OF_TOPIC,
  'topic' = '${gb}', 'producerGroup' = 'GID_flink', 'encoding' = 'gb18030', 'fieldDelimiter' = ',');
CREATE TEMPORARY VIEW words AS SELECT * FROM (VALUES ('abc'), ('abcdefg'), (''), (CAST(NULL AS STRING))) AS t(word);

INSERT INTO order_sink VALUES (5, 120, 'new'), (6, CAST(NULL AS BIGINT), 'a,b');
INSERT INTO bytes_sink SELECT CAST(SUBSTRING(word,0,5) AS VARBINARY) FROM words;
INSERT INTO gb SELECT '航班', 2.5, TRUE, TIMESTAMP '2026-01-15 10:00:00.5', 1.5;
"""


def test_rows_are_written_to_topics(ground: Ground) -> None:
    topics = {"raw": ground.new_topic(), "gb": ground.new_topic()}
    orders = ground.new_topic(instance="MQ_INST_demo01")
    pipeline = ended(ground, SINKS, variables=topics | {"orders": orders})
    written = ground.messages(wrap("MQ_INST_demo01", orders))
    assert sorted(message.body for message in written) == [b"5\x01120\x01new", b"6\x01\x01a,b"]
    assert {message.tags for message in written} == {"created"}
    assert sorted(message.body for message in ground.messages(topics["raw"])) == [b"abc", b"abcde"]
    assert pipeline.report().connectors == {"bytes_sink": {"emptyRows": 2}}
    (message,) = ground.messages(topics["gb"])
    assert message.body.decode("gb18030") == "航班,2.5,true,2026-01-15 10:00:00.500,1.50"


def test_topics_are_read_by_every_option(ground: Ground) -> None:
    topic = ground.new_topic()
    with Producer(ground.namesrv, ground.credentials, "GID_forms") as producer:
        for body, tag in (("1|one", "a"), ("2", "b"), ("3|three|more", "c"), ("x|four\n5|five", "a")):
            producer.send(Message(topic, body.encode("utf-16"), tag, keys="k"))
    since = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d %H:%M:%S}"
    later = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M:%S}"
    tables = {
        "plain": "", "skipped": "'lengthCheck' = 'SKIP'", "padded": "'lengthCheck' = 'PAD'",
        "tagged": "'tag' = 'a || b'", "all": "'tag' = '*'",
        "lines": "'lineDelimiter' = ';'", "since": f"'startTime' = '{since}'", "later": f"'startTime' = '{later}'",
        "behind": "'startMessageOffset' = '99'",
    }  # fmt: skip
    text = "".join(
        f"""CREATE TABLE {name} (n INT, word STRING) WITH (OF_TOPIC, 'topic' = '{topic}', 'consumerGroup' = 'GID_r',
        'fieldDelimiter' = '|', 'encoding' = 'utf-16'{", " + option if option else ""});
        CREATE TABLE {name}_out (n INT, word STRING) WITH ('connector' = 'print');
        INSERT INTO {name}_out SELECT n, REPLACE(word, CHR(10), '/') FROM {name};\n"""
        for name, option in tables.items()
    )
    text += f"""CREATE TABLE whole (body VARBINARY, `topic` STRING METADATA, q INT METADATA FROM 'queue-id' VIRTUAL,
      o BIGINT METADATA FROM 'queue-offset', id STRING METADATA FROM 'msg-id', `keys` STRING METADATA,
      tags STRING METADATA, stored TIMESTAMP(3) METADATA FROM 'store-timestamp', twice AS o * 2)
      WITH (OF_TOPIC, 'Topic' = '{topic}', 'consumerGroup' = 'GID_r');
    SELECT `topic`, `keys`, tags, twice = o + o, CHAR_LENGTH(id) > 10, q >= 0, stored > TIMESTAMP '2026-01-01 00:00:00',
      DECODE(body, 'UTF-16') FROM whole WHERE tags <> 'c' AND tags <> 'a'"""
    pipeline = ended(ground, text)
    found = {name: printed(pipeline, f"{name}_out") for name in tables}
    plain = ["1, one", "3, three", "5, five", "null, four"]
    assert found == {
        "plain": plain, "all": plain, "skipped": ["1, one", "5, five", "null, four"], "padded": sorted([*plain, "2, "]),
        "tagged": ["1, one", "5, five", "null, four"], "lines": ["1, one", "3, three", "null, four/5"],
        "since": plain, "later": [], "behind": [],
    }  # fmt: skip
    (sink,) = (sink.name for sink in pipeline.spec.plan.sinks if sink.name.startswith("select_"))
    assert printed(pipeline, sink) == [f"{topic}, k, b, true, true, true, true, 2"]


def test_a_line_of_another_length_fails_a_job_that_says_so(ground: Ground) -> None:
    topic = ground.new_topic()
    with Producer(ground.namesrv, ground.credentials, "GID_forms") as producer:
        producer.send(Message(topic, b"1,2,3", ""))
    with pytest.raises(PipelineFailed, match="has a line of 3 fields, and the table has 1 columns"):
        ended(
            ground,
            f"""CREATE TABLE t (a INT) WITH (OF_TOPIC, 'topic' = '{topic}', 'consumerGroup' = 'GID_r',
            'fieldDelimiter' = ',', 'lengthCheck' = 'EXCEPTION'); SELECT * FROM t""",
        )


WINDOWS = """
CREATE TEMPORARY TABLE clicks (who STRING, n INT, `at` TIMESTAMP(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND) WITH (OF_QUEUE, 'queueName' = '${clicks}', 'format' = 'json');
CREATE TEMPORARY TABLE tumbled (who STRING, since TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'print');
CREATE TEMPORARY TABLE older (who STRING, since TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'print');
CREATE TEMPORARY TABLE hopped (since TIMESTAMP(3), until TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
CREATE TEMPORARY TABLE sessions (who STRING, since TIMESTAMP(3), until TIMESTAMP(3), n BIGINT)
  WITH ('connector'='print');
CREATE TEMPORARY TABLE named (who STRING, name STRING) WITH ('connector' = 'print');
BEGIN STATEMENT SET;
INSERT INTO tumbled SELECT who, window_start, COUNT(*), SUM(n)
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '10' SECONDS)) GROUP BY who, window_start, window_end;
INSERT INTO older SELECT who, TUMBLE_START(`at`, INTERVAL '10' SECOND), COUNT(*), SUM(n)
  FROM clicks GROUP BY who, TUMBLE(`at`, INTERVAL '10' SECOND);
INSERT INTO hopped SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(`at`),
  INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
INSERT INTO sessions SELECT who, window_start, window_end, COUNT(*)
  FROM TABLE(SESSION(TABLE clicks PARTITION BY who, DESCRIPTOR(`at`), INTERVAL '4' SECOND))
  GROUP BY who, window_start, window_end;
INSERT INTO named SELECT c.who, COALESCE(a.name, '?') FROM clicks AS c
  LEFT JOIN airlines FOR SYSTEM_TIME AS OF c.`at` AS a ON c.who = a.code;
END;
"""


def test_windows_end_by_the_watermark_without_late_rows_beside_a_join_to_the_catalog(ground: Ground) -> None:
    def click(who: str, second: int) -> bytes:
        return json.dumps({"who": who, "n": 2, "at": f"2026-01-15T10:00:{second:02}.000"}).encode()

    folder = f"oss://alice-lake/airlines-{next(_numbers)}/"
    lake.write_file(f"{folder}a.csv", io.BytesIO(b"code,name\nUA,United\nDL,Delta\n"))
    queue = new_queue(ground, click("UA", 1), click("UA", 3), click("XX", 8), click("UA", 9))
    pipeline = started(ground, QUICK + WINDOWS, variables={"clicks": queue}, airlines=folder)
    until(lambda: not ground.left(queue), pipeline)
    ground.fill(queue, [click("UA", 25)])
    ended = {"tumbled": 2, "older": 2, "hopped": 3, "sessions": 3}  # each insert has a watermark of its own
    until(lambda: all(len(printed(pipeline, sink)) == windows for sink, windows in ended.items()), pipeline)
    ground.fill(queue, [click("UA", 2), click("UA", 50)])  # the first is late: its window has ended
    until(lambda: all(len(printed(pipeline, sink)) >= 3 for sink in ("tumbled", "older")), pipeline)
    until(lambda: len(printed(pipeline, "hopped")) >= 5 and len(printed(pipeline, "sessions")) >= 4, pipeline)
    late = [insert.late_rows for insert in pipeline.report().inserts]
    pipeline.stop()

    def at(second: int) -> str:
        return f"{datetime(2026, 1, 15, 10, tzinfo=UTC) + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}.000"

    assert printed(pipeline, "tumbled") == [f"UA, {at(0)}, 3, 6", f"UA, {at(20)}, 1, 2", f"XX, {at(0)}, 1, 2"]
    assert printed(pipeline, "older") == printed(pipeline, "tumbled")
    assert printed(pipeline, "hopped") == [
        f"{at(-5)}, {at(5)}, 2", f"{at(0)}, {at(10)}, 4", f"{at(5)}, {at(15)}, 2", f"{at(20)}, {at(30)}, 1",
        f"{at(25)}, {at(35)}, 1",
    ]  # fmt: skip
    assert printed(pipeline, "sessions") == [
        f"UA, {at(1)}, {at(7)}, 2", f"UA, {at(9)}, {at(13)}, 1", f"UA, {at(25)}, {at(29)}, 1",
        f"XX, {at(8)}, {at(12)}, 1",
    ]  # fmt: skip
    assert printed(pipeline, "named") == sorted([*["UA, United"] * 6, "XX, ?"])
    assert all(rows > 0 for rows in late[:4])


def test_a_broker_that_comes_back_has_each_row_of_a_stream(ground: Ground) -> None:
    with broker_process() as broker:
        key = Credentials(broker.access_key_id, broker.access_key_secret)
        queue = new_queue(ground)
        text = f"""{QUICK}CREATE TEMPORARY TABLE words (word STRING) WITH (OF_QUEUE, 'queueName' = '{queue}',
          'format' = 'raw');
        CREATE TEMPORARY TABLE sent (payload BYTES) WITH ('connector' = 'mq', 'endpoint' = '{broker.namesrv}',
          'accessId' = '{key.access_key_id}', 'accessKey' = '${{secret_values.other}}', 'topic' = 'words',
          'producerGroup' = 'GID_w', 'retryTimes' = '600', 'sleepTimeMs' = '100', 'tag' = 'word');
        INSERT INTO sent SELECT CAST(word AS BYTES) FROM words"""
        with Admin(broker.namesrv, key) as admin:
            elsewhere = replace(ground, namesrv=broker.namesrv, credentials=key, admin=admin)
            admin.topics.create("words", queues=2)
            made = plan(
                text.replace("OF_QUEUE", OF_QUEUE),
                variables={"queues": ground.endpoint},
                secrets={"id", "secret", "other"},
            )
            spec = ground.spec(made)
            pipeline = runner.start(replace(spec, secrets={**spec.secrets, "other": key.access_key_secret}))
            ground.fill(queue, [b"one"])
            until(lambda: not ground.left(queue), pipeline)
            broker.kill()
            ground.fill(queue, [b"two", b"three"])
            until(lambda: pipeline.report().connectors["words"]["deletedMessages"] == 1, pipeline)
            time.sleep(2)  # some tries fail
            assert pipeline.is_running
            broker.start()
            until(lambda: not ground.left(queue), pipeline)
            pipeline.stop()
            assert {message.body for message in elsewhere.messages("words")} == {b"one", b"two", b"three"}


def test_a_broker_that_comes_back_is_read_on_by_a_stream(ground: Ground) -> None:
    with broker_process() as broker:
        key = Credentials(broker.access_key_id, broker.access_key_secret)
        text = f"""{QUICK}CREATE TEMPORARY TABLE words (word STRING) WITH ('connector' = 'mq',
          'endpoint' = '{broker.namesrv}', 'accessId' = '{key.access_key_id}',
          'accessKey' = '${{secret_values.other}}', 'topic' = 'words', 'consumerGroup' = 'GID_w');
        CREATE TEMPORARY TABLE seen (word STRING) WITH ('connector' = 'print');
        INSERT INTO seen SELECT word FROM words"""
        with Admin(broker.namesrv, key) as admin, Producer(broker.namesrv, key, "GID_p") as producer:
            admin.topics.create("words", queues=2)
            eventually(lambda: "words" in admin.topics.names())
            made = plan(text, secrets={"other"})
            pipeline = runner.start(replace(ground.spec(made), secrets={"other": key.access_key_secret}))
            producer.send(Message("words", b"one"))
            until(lambda: printed(pipeline, "seen") == ["one"], pipeline)
            broker.kill()
            assert not pipeline.wait(3)  # the stream asks some times
            broker.start()
            producer.send(Message("words", b"two"))
            until(lambda: printed(pipeline, "seen") == ["one", "two"], pipeline)
            pipeline.stop()


FILES = """
CREATE TABLE made (n INT, day STRING, `at` TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE p (n INT, day STRING) PARTITIONED BY (day) WITH ('connector' = 'filesystem', 'path' = '${folder}p/',
  'format' = 'parquet', 'parquet.compression' = 'gzip');
CREATE TABLE o (n INT, day STRING) WITH ('connector'='filesystem', 'path'='${folder}o/', 'format' = 'orc',
  'orc.compress' = 'zstd');
CREATE TABLE c (n INT, day STRING) WITH ('connector'='filesystem', 'path'='${folder}c/', 'format' = 'csv',
  'csv.field-delimiter' = ';', 'csv.null-literal' = '-', 'csv.allow-comments' = 'true');
CREATE TABLE j (n INT, day STRING, `at` TIMESTAMP(3)) WITH ('connector'='filesystem', 'path'='${folder}j/',
  'format' = 'json');
"""


def test_files_of_every_format_are_written_and_read(ground: Ground) -> None:
    folder = f"oss://alice-lake/forms-{next(_numbers)}/"
    writes = """INSERT INTO p VALUES (1, 'mon'), (2, 'tue'); INSERT INTO o VALUES (3, 'wed');
    INSERT INTO c VALUES (4, CAST(NULL AS STRING)); INSERT INTO j VALUES (5, 'fri',
      TIMESTAMP '2026-01-15 10:00:00.25');"""
    ended(ground, FILES + writes, variables={"folder": folder})
    lake.write_file(f"{folder}c/more.csv", io.BytesIO(b"# a comment\n6;sat\n"))
    lake.write_file(f"{folder}j/more.json", io.BytesIO(b'{"n":7,"at":"2026-01-15 11:00:00"}\n'))
    shown = {"j": "DATE_FORMAT(`at`, 'yyyy HH:mm:ss.SSS')"}
    reads = "".join(
        f"CREATE TABLE out_{name} (n INT, day STRING) WITH ('connector'='print');"
        f"INSERT INTO out_{name} SELECT n, {shown.get(name, 'day')} FROM {name};"
        for name in "pocj"
    )
    pipeline = ended(ground, FILES + reads, variables={"folder": folder})
    assert {name: printed(pipeline, f"out_{name}") for name in "pocj"} == {
        "p": ["1, mon", "2, tue"], "o": ["3, wed"], "c": ["4, null", "6, sat"],
        "j": ["5, 2026 10:00:00.250", "7, 2026 11:00:00.000"],
    }  # fmt: skip
    lake.write_file(f"{folder}j/bad.json", io.BytesIO(b"no JSON\n"))
    with pytest.raises(PipelineFailed):
        ended(ground, FILES + "SELECT * FROM j", variables={"folder": folder})
    skipping = FILES.replace("'format' = 'json'", "'format' = 'json', 'json.ignore-parse-errors' = 'true'")
    pipeline = ended(ground, skipping + "SELECT n FROM j", variables={"folder": folder})
    assert printed(pipeline, pipeline.spec.plan.sinks[0].name) == ["5", "7"]


def test_rows_are_made_up_as_told(ground: Ground) -> None:
    text = """SET 'table.local-time-zone' = 'Asia/Shanghai';
    CREATE TABLE made (n INT, m DOUBLE, s STRING, v STRING, x BIGINT, t TIMESTAMP(3), d DECIMAL(5, 2), b BOOLEAN,
      y BYTES, at_once AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '200',
      'fields.n.min' = '3', 'fields.n.max' = '5', 'fields.m.min' = '1', 'fields.m.max' = '2', 'fields.s.length' = '7',
      'fields.v.length' = '5', 'fields.v.var-len' = 'true', 'fields.x.kind' = 'sequence', 'fields.x.start' = '10',
      'fields.x.end' = '109', 'fields.t.max-past' = '1h', 'fields.d.max' = '5', 'fields.b.null-rate' = '1',
      'fields.y.length' = '3');
    SELECT COUNT(*), MIN(n) >= 3 AND MAX(n) <= 5, MIN(m) >= 1 AND MAX(m) <= 2, MIN(CHAR_LENGTH(s)), MAX(CHAR_LENGTH(s)),
      MAX(CHAR_LENGTH(v)) <= 5, MIN(CHAR_LENGTH(v)) < 5, MIN(x), MAX(x), MIN(t) > NOW() - INTERVAL '2' HOUR,
      MAX(d) <= 5, COUNT(b), FROM_UNIXTIME(0) FROM made"""
    pipeline = ended(ground, text)
    assert printed(pipeline, pipeline.spec.plan.sinks[0].name) == [
        "100, true, true, 7, 7, true, true, 10, 109, true, true, 0, 1970-01-01 08:00:00"
    ]


#: Over a row with i = 7, n = NULL and the columns below → what comes out.
EXPRESSIONS = {
    "CAST(SUBSTRING('abcdefg',0,5) AS VARBINARY)": "b'abcde'",
    "i / 2": "3", "-7 / 2": "-3", "i % 4": "3", "MOD(i, 4)": "3", "i * 1.5": "10.5", "POWER(2, 3)": "8",
    "CEIL(2.1)": "3", "FLOOR(f)": "2", "ROUND(2.345, 2)": "2.35", "SIGN(-2)": "-1", "BIN(5)": "101", "HEX(255)": "FF",
    "'a' || 'b'": "ab", "POSITION('b' IN 'abc')": "2", "TRIM(LEADING 'x' FROM 'xxa')": "a",
    "REGEXP_REPLACE('foobar', 'oo|ar', '')": "fb", "REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)": "bar",
    "REGEXP('abc', 'b')": "true", "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6)": "xxxxxxxxx",
    "SUBSTRING('abcdef' FROM 2 FOR 3)": "bcd", "TRANSLATE('abc', 'ab', 'xy')": "xyc", "LPAD('hi', 4, '?')": "??hi",
    "CONCAT('a', CAST(NULL AS STRING))": "null", "CONCAT_WS('~', 'AA', CAST(NULL AS STRING), 'BB')": "AA~BB",
    "FROM_BASE64('aGVsbG8=')": "hello", "TO_BASE64('hello')": "aGVsbG8=", "CHR(97)": "a", "LEFT('abc', 2)": "ab",
    "PARSE_URL('http://f.com/p?k=v', 'QUERY', 'k')": "v", "SPLIT_INDEX(s, ',', 1)": "def",
    "SPLIT_INDEX(s, ',', 9)": "null", "SPLIT_INDEX(s, 44, 2)": "ghi", "STR_TO_MAP('a=1,b=2')['b']": "2",
    "MD5('a')": "0cc175b9c0f1b6a831c399e269772661", "DATE '2026-01-15'": "2026-01-15", "EXTRACT(DOW FROM d)": "5",
    "QUARTER(d)": "1", "WEEK(d)": "3", "FLOOR(ts TO MINUTE)": "2026-01-15 10:20:00.000",
    "DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSS')": "2026-01-15 10:20:30.456",
    "TIMESTAMPADD(WEEK, 1, ts)": "2026-01-22 10:20:30.456", "TIMESTAMPDIFF(DAY, d, ts)": "0",
    "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')": "1969-12-31 16:00:00",
    "FROM_UNIXTIME(44)": "1970-01-01 00:00:44", "UNIX_TIMESTAMP('15/01/2026', 'dd/MM/yyyy')": "1768435200",
    "TO_DATE('bad')": "null", "TO_DATE('15.01.2026', 'dd.MM.yyyy')": "2026-01-15", "TO_TIMESTAMP('bad')": "null",
    "TO_TIMESTAMP('2026-01-15 10:00:00.123')": "2026-01-15 10:00:00.123",
    "TO_TIMESTAMP_LTZ(100, 0)": "1970-01-01 00:01:40.000", "TO_TIMESTAMP_LTZ(1000, 3)": "1970-01-01 00:00:01.000",
    "ts + INTERVAL '1 10' DAY TO HOUR": "2026-01-16 20:20:30.456", "LEAST(1, n)": "null", "NULLIF(5, 5)": "null",
    "COALESCE(n, 9)": "9", "IF(i > 1, 'a', 'b')": "a", "CASE i WHEN 7 THEN 'x' ELSE 'y' END": "x",
    "'a_b' LIKE 'a!_b' ESCAPE '!'": "true", "(i > 1) IS TRUE": "true", "n IS DISTINCT FROM 1": "true",
    "i NOT BETWEEN 1 AND 9": "false", "arr[1]": "1", "arr[9]": "null", "CARDINALITY(arr)": "3", "m['k']": "v",
    "m['z']": "null", "r.f1": "x", "ARRAY_SLICE(arr, 1, 2)": "[1, 2]", "ARRAY_SLICE(arr, 2)": "[2, 3]",
    "ARRAY_CONTAINS(arr, 2)": "true", "SPLIT('a.b', '.')": "['a', 'b']", "JSON_VALUE(j, '$.a.b')": "1",
    "JSON_VALUE(j, 'lax $.t')": "x", "JSON_QUERY(j, '$.c')": "[1,2]", "JSON_EXISTS(j, '$.z')": "false",
    "TRY_CAST('x' AS INT)": "null", "CAST(1.239 AS DECIMAL(10, 2))": "1.24", "CAST(ts AS DATE)": "2026-01-15",
    "CAST(ARRAY[1] AS ARRAY<STRING>)": "['1']", "CAST(CAST('abc' AS BYTES) AS STRING)": "abc", "'it''s'": "it's",
    "SHA256('a')": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "i IN (SELECT i FROM one)": "true", "BITAND(i, 3)": "3", "ROW(1, 'a').f0": "1",
}  # fmt: skip


def test_functions_and_casts_give_what_the_vendors_give(ground: Ground) -> None:
    text = """CREATE TABLE one (i INT, n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1',
      'fields.i.min' = '7', 'fields.i.max' = '7', 'fields.n.null-rate' = '1');
    CREATE TEMPORARY VIEW v AS SELECT i, n, CAST('2026-01-15 10:20:30.456' AS TIMESTAMP(3)) AS ts,
      DATE '2026-01-15' AS d, 'abc,def,ghi' AS s, ARRAY[1, 2, 3] AS arr, MAP['k', 'v'] AS m, ROW(1, 'x') AS r,
      CAST(2.5 AS DOUBLE) AS f, '{"a":{"b":1},"c":[1,2],"t":"x"}' AS j FROM one;
    SELECT """
    between = ", '¦', "
    pipeline = ended(ground, f"{text}{between.join(EXPRESSIONS)} FROM v")
    (line,) = printed(pipeline, pipeline.spec.plan.sinks[0].name)
    assert dict(zip(EXPRESSIONS, line.split(", ¦, "), strict=True)) == EXPRESSIONS


AGGREGATES = """
CREATE TEMPORARY VIEW v (a, b) AS SELECT * FROM (VALUES (1, 'x'), (2, 'x'), (3, 'y')) AS t(a, b);
SELECT b, COUNT(*), SUM(a), AVG(a), LISTAGG(CAST(a AS STRING), '-'), COUNT(DISTINCT a), COUNT(*) FILTER (WHERE a > 1)
  FROM v GROUP BY b HAVING SUM(a) > 0;
SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) FROM v ORDER BY a LIMIT 2;
SELECT b, SUM(a) FROM v GROUP BY ROLLUP (b);
SELECT a FROM v EXCEPT SELECT 1;
SELECT b, u.x FROM v CROSS JOIN UNNEST(ARRAY[a, a * 2]) AS u(x) WHERE a = 3;
WITH w AS (SELECT a FROM v) SELECT l.a, r.a FROM w l FULL OUTER JOIN (SELECT a + 2 AS a FROM w) r ON l.a = r.a;
"""


def test_a_batch_job_groups_orders_and_joins(ground: Ground) -> None:
    pipeline = ended(ground, AGGREGATES)
    assert [printed(pipeline, sink.name) for sink in pipeline.spec.plan.sinks] == [
        ["x, 2, 3, 1.5, 1-2, 2, 1", "y, 1, 3, 3, 3, 1, 1"],
        ["1, 2", "2, 1"],
        ["null, 6", "x, 3", "y, 3"],
        ["2", "3"],
        ["y, 3", "y, 6"],
        ["1, null", "2, null", "3, 3", "null, 4", "null, 5"],
    ]
