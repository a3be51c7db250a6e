"""Whole jobs: the connectors' examples as they are written, settings, variables, secrets, and the plan as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analytics.pipelines.plan import Column, Plan, Settings, filled
from console.web.errors import Refused
from tests.console.jobs.compiler.texts import DATAGEN, MNS, MQ_SINK, checked, plan, process, read_job, refusal, table

pytestmark = process

CLICKS = """CREATE TEMPORARY TABLE clicks (
  `visitor` BIGINT,
  `page` STRING,
  `at` TIMESTAMP(3)
) WITH (
  'connector' = 'mns',
  'endpoint' = 'http://1000000001.mns.cn-demo.example.com',
  'region' = 'cn-demo',
  'queueName' = 'clicks',
  'accessKeyId' = '${secret_values.id}',
  'accessKeySecret' = '${secret_values.secret}',
  'format' = 'json',
  'batchSize' = '16'
);
"""
UPLOADS = """CREATE TEMPORARY TABLE uploads (
  `eventName` STRING,
  `ossBucketName` STRING,
  `ossObjectKey` STRING,
  `ossObjectSize` BIGINT
) WITH (
  'connector' = 'mns', 'endpoint' = 'http://127.0.0.1:8071', 'region' = 'cn-demo', 'queueName' = 'uploads',
  'accessKeyId' = '…', 'accessKeySecret' = '…', 'format' = 'json', 'messageType' = 'OSS'
);
SELECT ossBucketName, ossObjectKey FROM uploads WHERE eventName LIKE 'ObjectCreated:%';
"""
ORDERS = """CREATE TABLE order_sink (id INTEGER, total BIGINT, note VARCHAR) WITH (
  'connector' = 'mq',
  'endpoint' = 'mq-demo.internal:9876',
  'accessId' = '…', 'accessKey' = '…',
  'topic' = 'orders_demo', 'producerGroup' = 'GID_flink',
  'tag' = 'created', 'encoding' = 'utf-8',
  'retryTimes' = '3', 'sleepTimeMs' = '200',
  'instanceID' = 'MQ_INST_demo01'
);
"""
BYTES = """CREATE TEMPORARY TABLE bytes_sink (payload VARBINARY) WITH (
  'connector' = 'mq', 'endpoint' = 'mq-demo.internal:9876',
  'accessId' = '…', 'accessKey' = '…',
  'topic' = 'raw_demo', 'producerGroup' = 'GID_flink'
);
INSERT INTO bytes_sink SELECT CAST(word AS VARBINARY) FROM words;
"""
#: Forms that the vendor's own pages have: small key words, no blanks, comments, variables, a printed queue.
FORMS = """-- reads a queue
create temporary table mns_source(
  data string
) with (
  'connector'='mns',
  'endpoint'='${endpoint}',
  'region'='${region}',
  'queueName'='${queueName}',
  'accessKeyId'='${secret_values.ak_id}',
  'accessKeySecret'='${secret_values.ak_secret}',
  'format'='raw'
);

create table print_sink (data varchar) with ('connector'='print');

begin statement set;
  insert into print_sink
  select data from mns_source; -- all of it
  insert into print_sink select substring(data, 0, 5) from mns_source where data is not null;
end;
"""


def test_a_queue_of_json_messages_is_read() -> None:
    (source,) = plan(CLICKS + "SELECT * FROM clicks").sources
    assert source.columns == (Column("visitor", "bigint"), Column("page", "string"), Column("at", "timestamp"))
    assert source.format == "json"
    assert source.options == {
        "endpoint": "http://1000000001.mns.cn-demo.example.com",
        "region": "cn-demo",
        "queueName": "clicks",
        "accessKeyId": "${secret_values.id}",
        "accessKeySecret": "${secret_values.secret}",
        "batchSize": 16,
        "pollingWaitTime": 10_000,
        "messageType": "RAW",
        "deleteMaxRetries": 3,
    }


def test_created_objects_are_selected_and_shown() -> None:
    found = plan(UPLOADS)
    assert found.sources[0].options["messageType"] == "OSS"
    assert [(one.sink, one.sql, one.line) for one in found.inserts] == [
        (
            "select_10",
            "SELECT `ossBucketName`, `ossObjectKey` FROM `uploads` WHERE `eventName` LIKE 'ObjectCreated:%'",
            10,
        )
    ]
    assert [(one.name, one.connector, one.columns) for one in found.sinks] == [("select_10", "print", ())]


def test_rows_are_written_to_a_topic() -> None:
    (sink,) = plan(ORDERS + "INSERT INTO order_sink VALUES (5, 120, 'new');").sinks
    assert sink.columns == (Column("id", "int"), Column("total", "bigint"), Column("note", "string"))
    assert sink.format == "csv"
    assert {
        name: sink.options[name] for name in ("tag", "retryTimes", "sleepTimeMs", "instanceID", "fieldDelimiter")
    } == {
        "tag": "created",
        "retryTimes": 3,
        "sleepTimeMs": 200,
        "instanceID": "MQ_INST_demo01",
        "fieldDelimiter": "\x01",
    }


def test_bytes_are_written_to_a_topic() -> None:
    found = plan(table("words", "word STRING", DATAGEN) + BYTES)
    assert found.sinks[0].format == "binary"
    assert found.inserts[0].sql == "SELECT CAST(`word` AS binary) FROM `words`"


def test_the_forms_of_the_vendors_pages_are_read() -> None:
    given = {"endpoint": "http://1.mns.cn-x.example.com", "region": "cn-x", "queueName": "q"}
    found = plan(FORMS, variables=given)
    assert found.sources[0].options["queueName"] == "q"
    assert [one.sql for one in found.inserts] == [
        "SELECT `data` FROM `mns_source`",
        "SELECT SUBSTRING(`data`, 0, 5) FROM `mns_source` WHERE NOT `data` IS NULL",
    ]
    assert found.secrets == ("ak_id", "ak_secret")


@pytest.mark.parametrize("text", [UPLOADS, ORDERS + "INSERT INTO order_sink SELECT 1, 2, 'x'"])
def test_a_secret_that_was_written_into_the_text_is_taken_out_of_it(text: str) -> None:
    option = "accessKeySecret" if text == UPLOADS else "accessKey"
    written = text.replace(f"'{option}' = '…'", f"'{option}' = 'sEcReT-1'")
    found = checked(written)
    assert found.plan is not None
    (secret,) = found.found_secrets
    name = "uploads_accessKeySecret" if text == UPLOADS else "order_sink_accessKey"
    assert (secret.name, secret.value) == (name, "sEcReT-1")
    assert "sEcReT-1" not in found.plan.to_json() + found.text + repr(found) + str(found.plan)
    assert f"'{option}' = '${{secret_values.{name}}}'" in found.text
    again = checked(found.text, secrets=[name])
    assert again.plan == found.plan
    assert again.found_secrets == ()


def test_a_found_secret_gets_a_name_that_is_free() -> None:
    found = checked(UPLOADS, secrets=["uploads_accessKeySecret"])
    assert [one.name for one in found.found_secrets] == ["uploads_accessKeySecret_2"]


@pytest.mark.parametrize(
    "wrong",
    ["SELECT nothing(1)", "END", "DROP TABLE x", "CREATE TABLE uploads (a INT) WITH ('connector' = 'print')"],
)
def test_a_secret_is_found_in_a_text_that_is_wrong_elsewhere(wrong: str) -> None:
    found = checked(
        f"{UPLOADS}{wrong};".replace("'region'", "'regio'").replace("'accessKeySecret' = '…'", "'ACCESSKEYSECRET'='q'")
    )
    assert found.plan is None
    assert [(one.name, one.value) for one in found.found_secrets] == [("uploads_ACCESSKEYSECRET", "q")]
    assert "'ACCESSKEYSECRET'='${secret_values.uploads_ACCESSKEYSECRET}'" in found.text


def test_a_secret_is_no_variable() -> None:
    message = refusal(read_job("a INT", {**MNS, "accessKeySecret": "${x}"}), variables={"x": "y"})
    assert message.endswith("a secret is no variable, which everybody sees; write ${secret_values.name}.")


def test_a_bad_secret_is_not_repeated_in_the_refusal() -> None:
    assert "what is written" in refusal(read_job("a INT", {**MNS, "accessKeySecret": " "}))


def test_secrets_are_put_in_by_whoever_starts_the_job() -> None:
    options = plan(CLICKS + "SELECT * FROM clicks").sources[0].options
    given = filled(options, {"id": "LTAI", "secret": "xyz"})
    assert (given["accessKeyId"], given["accessKeySecret"], given["batchSize"]) == ("LTAI", "xyz", 16)
    with pytest.raises(KeyError, match="secret"):
        filled(options, {"id": "LTAI"})


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("accessKeyId", "${secret_values.ids}", "there is no secret ids, or you may not use it. Did you mean id?"),
        ("accessKeyId", "${secret_values.}", "${secret_values.} names no secret; write ${secret_values.name}."),
        ("queueName", "${quue}", "the variable quue has no value. Did you mean queue?"),
        ("queueName", "${a b}", "${a b} names no variable; write ${name} or ${secret_values.name}, in quotes."),
    ],
)
def test_an_unknown_name_is_refused_at_its_place(option: str, value: str, sentence: str) -> None:
    text = read_job("a INT", {**MNS, option: value})
    message = refusal(text, secrets=["id", "secret"], variables={"queue": "q"})
    assert message.startswith("Line 1, column ")
    assert message.endswith(sentence)


def test_a_variable_is_a_value_and_never_more_than_that() -> None:
    text = table("s", "a STRING", DATAGEN) + "SELECT a FROM s WHERE a = '${x}'"
    assert plan(text, variables={"x": "' OR '1' = '1"}).inserts[0].sql == (
        "SELECT `a` FROM `s` WHERE `a` = '\\' OR \\'1\\' = \\'1'"
    )


def settings(*lines: str) -> Settings:
    return plan("".join(f"SET {line};\n" for line in lines) + read_job("a INT", DATAGEN)).settings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("'execution.runtime-mode' = 'BATCH'", Settings(mode="batch")),
        ("'execution.checkpointing.interval' = '3min'", Settings(checkpoint_interval_ms=180_000)),
        ("'execution.checkpointing.interval'='500ms'", Settings(checkpoint_interval_ms=500, batch_interval_ms=500)),
        ("'execution.checkpointing.interval' = '0'", Settings(checkpoint_interval_ms=0)),
        ("'execution.batch-interval' = '100 ms'", Settings(batch_interval_ms=100)),
        ("'parallelism.default' = '2'", Settings(parallelism=2)),
        ("'table.exec.resource.default-parallelism' = '4'", Settings(parallelism=4)),
        ("'table.local-time-zone' = 'Asia/Shanghai'", Settings(time_zone="Asia/Shanghai")),
        ("'table.local-time-zone' = 'GMT+08:00'", Settings(time_zone="GMT+08:00")),
        ("'restart-strategy' = 'none'", Settings(restart_attempts=0)),
        ("'restart-strategy.type' = 'fixed-delay'", Settings(restart_attempts=1, restart_max_delay_ms=1_000)),
        ("'restart-strategy.fixed-delay.attempts' = '7'", Settings(restart_attempts=7)),
        ("'restart-strategy.exponential-delay.max-backoff' = '1min'", Settings(restart_max_delay_ms=60_000)),
    ],
)
def test_a_setting_is_in_the_plan(line: str, expected: Settings) -> None:
    assert settings(line) == expected


def test_the_last_of_a_setting_holds() -> None:
    assert settings("'parallelism.default' = '2'", "'parallelism.default' = '3'").parallelism == 3


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("'table.exec.mini-batch.enabled' = 'true'", "table.exec.mini-batch.enabled has no effect here."),
        (
            "'table.exec.state.ttl' = '36 h'",
            "table.exec.state.ttl has no effect: what has no watermark keeps its state for ever.",
        ),
        (
            "'table.exec.source.idle-timeout' = '10s'",
            "table.exec.source.idle-timeout has no effect: a source without rows holds the watermark back.",
        ),
    ],
)
def test_a_setting_without_effect_is_told_so(line: str, sentence: str) -> None:
    found = checked(f"SET {line};\n" + read_job("a INT", DATAGEN))
    assert found.plan is not None and found.plan.settings == Settings()
    assert found.warnings == (f"Line 1, column 1: {sentence}",)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "'execution.runtime-mode' = 'fast'",
            "execution.runtime-mode cannot be 'fast'; allowed is streaming and batch.",
        ),
        (
            "'execution.checkpointing.interval' = 'often'",
            "allowed is a duration from 0ms to 36500d, such as 10s, 500ms or 3min.",
        ),
        ("'paralelism.default' = '1'", "there is no setting paralelism.default. Did you mean parallelism.default?"),
        ("'parallelism.default' = '65'", "allowed is a whole number from 1 to 64."),
        ("'table.local-time-zone' = 'Mars'", "allowed is a time zone as Europe/Berlin or GMT+08:00."),
        (
            "parallelism.default = 1",
            "`parallelism` is not expected here; expected is the name of a setting in single quotes.",
        ),
        (
            "'pipeline.name' = '${secret_values.x}'",
            "cannot stand here; a secret is allowed as accessId, accessKey, accessKeyId, accessKeySecret in WITH (…).",
        ),
    ],
)
def test_a_wrong_setting_is_refused_at_its_place(line: str, sentence: str) -> None:
    message = refusal(f"\nSET {line};\n" + read_job("a INT", DATAGEN))
    assert message.startswith("Line 2, column ")
    assert sentence in message


def test_a_queue_needs_checkpoints() -> None:
    text = "SET 'execution.checkpointing.interval' = '0';\n" + read_job("a INT", MNS)
    assert "need SET 'execution.checkpointing.interval' = '10s'" in refusal(text)


def test_a_queue_is_not_read_by_a_batch_job() -> None:
    text = "SET 'execution.runtime-mode' = 'batch';\n" + read_job("a INT", MNS)
    assert "a queue has no end" in refusal(text)


def test_everything_that_is_wrong_is_told_in_the_order_of_the_text() -> None:
    text = """SET 'a' = 'b';
CREATE TABLE t (a TIME) WITH ('connector' = 'print');
CREATE TABLE u (a INT) WITH ('connector' = 'prnt');
CREATE TABLE v (a INT) WITH ('connector' = 'print', 'x' = 'y');
INSERT INTO v SELECT nothing(1);
DROP TABLE v;"""
    found = checked(text)
    assert found.plan is None
    assert [one.line for one in found.refusals] == [1, 2, 3, 4, 5, 6]


def test_what_follows_from_a_wrong_definition_is_not_told_as_well() -> None:
    text = """CREATE TABLE t (a INT) WITH ('connector' = 'prnt');
CREATE TABLE s (a INT) WITH ('connector' = 'datagen');
CREATE VIEW v AS SELECT b FROM t;
CREATE VIEW w AS SELECT nothing(a) FROM s;
INSERT INTO t SELECT a FROM v;
INSERT INTO u SELECT a FROM w;
INSERT INTO t SELECT a FROM missing;"""
    assert [one.line for one in checked(text).refusals] == [1, 4, 6]


def test_of_two_tables_with_one_name_the_first_one_counts() -> None:
    text = """CREATE TABLE t (a INT) WITH ('connector' = 'print');
CREATE TABLE t (a INT) WITH ('connector' = 'print');
INSERT INTO t SELECT 1, 2;"""
    assert [one.line for one in checked(text).refusals] == [2, 3]


def test_a_table_that_is_not_used_is_looked_at_all_the_same() -> None:
    unused = table("t", "a INT", {**MQ_SINK, "retryTimes": "x"})
    assert "retryTimes cannot be 'x'" in refusal(unused + "SELECT 1")
    assert checked(table("t", "a INT", MQ_SINK) + "SELECT 1").warnings == ("Line 1, column 24: table t is not used.",)


def test_a_plan_is_the_same_after_json() -> None:
    found = plan(FORMS.replace("${endpoint}", "http://h:1").replace("${region}", "r").replace("${queueName}", "q"))
    assert Plan.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    "change",
    [{"format": 0}, {"sources": [{"name": "x"}]}, {"unknown": 1}, {"settings": {"mode": "fast"}}, {"settings": 5}],
)
def test_what_is_no_plan_is_not_read(change: dict[str, object]) -> None:
    stored = json.loads(plan(read_job("a INT", DATAGEN)).to_json())
    with pytest.raises((ValueError, TypeError)):
        Plan.from_json(json.dumps({**stored, **change}))


def test_a_query_that_is_too_much_for_the_parser_is_refused_at_its_place() -> None:
    deep = "(" * 40 + "1" + ")" * 40
    message = refusal(f"CREATE TABLE o (a INT) WITH ('connector' = 'print');\nINSERT INTO o SELECT {deep}")
    assert message == "Line 2, column 15: the statement is nested too deeply: 32 levels are allowed."


def test_a_refusal_of_a_text_is_one_that_pages_and_the_api_show() -> None:
    (refused,) = checked("DROP TABLE x").refusals
    assert isinstance(refused, Refused)
    assert (refused.symbol, refused.line, refused.column, refused.field) == ("JOB_TEXT_INVALID", 1, 1, "text")
    assert refused.message == f"Line 1, column 1: {refused.sentence}"


def test_a_backslash_hides_nothing_from_the_bounds_of_the_parser() -> None:
    joins = " ".join(f"JOIN t{number}" for number in range(9))
    message = refusal(f"CREATE TABLE o (a INT) WITH ('connector' = 'print');\nINSERT INTO o SELECT '\\' FROM s {joins}")
    assert message.startswith("Line 2, column 15: more than 8 joins wait for their ON or USING")


def test_the_example_of_the_documentation_is_a_job() -> None:
    page = (Path(__file__).parents[4] / "docs/use/jobs.md").read_text()
    (example,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    found = plan(example, variables={"endpoint": "http://127.0.0.1:8071"}, secrets=["id", "secret"])
    assert found.inserts[0].sql == (
        "SELECT `carrier`, `window`.`start` AS `window_start`, COUNT(*) FROM `flights_in` WHERE `late_minutes` > 15"
        " GROUP BY `carrier`, WINDOW(`at`, '1 minute')"
    )
