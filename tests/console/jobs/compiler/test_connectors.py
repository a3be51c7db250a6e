"""Every option of every connector and format, with a good and a bad value, and what must fit together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analytics.pipelines.plan import OSS_EVENT_COLUMNS, Value
from console.jobs.compiler.connectors import formats
from console.jobs.compiler.connectors.known import CONNECTORS
from tests.console.jobs.compiler.texts import (
    DATAGEN,
    FILES,
    MNS,
    MQ,
    MQ_SINK,
    MQ_SOURCE,
    checked,
    plan,
    process,
    read_job,
    refusal,
    table,
    write_job,
)

pytestmark = process

#: Connector and role → the other options that it needs.
BASES = {
    ("mns", "source"): MNS,
    ("mq", "source"): MQ_SOURCE,
    ("mq", "sink"): MQ_SINK,
    ("datagen", "source"): DATAGEN,
    ("print", "sink"): {"connector": "print"},
    ("blackhole", "sink"): {"connector": "blackhole"},
    ("filesystem", "source"): FILES,
    ("filesystem", "sink"): FILES,
}
SECRET = "${secret_values.secret}"
#: Connector, role, option → what is written, what the plan has for it, what is refused, and what is then said.
OPTIONS: dict[tuple[str, str, str], tuple[str, Value, str, str]] = {
    ("mns", "source", "endpoint"): ("http://127.0.0.1:8071", "http://127.0.0.1:8071", "mns.example.com",
                                    "an address as http://host:port"),
    ("mns", "source", "region"): ("cn-demo", "cn-demo", " ", "a text that is not empty"),
    ("mns", "source", "queueName"): ("a-1", "a-1", "a/b", "a queue's name: 1 to 120 letters, digits and hyphens"),
    ("mns", "source", "accessKeyId"): ("LTAI", "LTAI", "", "a text that is not empty"),
    ("mns", "source", "accessKeySecret"): (SECRET, SECRET, "", "a text that is not empty"),
    ("mns", "source", "batchSize"): ("16", 16, "17", "a whole number from 1 to 16"),
    ("mns", "source", "pollingWaitTime"): ("30s", 30_000, "31s", "a duration from 0s to 30s"),
    ("mns", "source", "messageType"): ("raw", "RAW", "XML", "RAW and OSS"),
    ("mns", "source", "deleteMaxRetries"): ("0", 0, "-1", "a whole number from 0 to 100"),
    ("mns", "source", "startTimeMs"): ("1768471200000", 1768471200000, "yesterday", "a whole number from 0"),
    ("mns", "source", "scan.parallelism"): ("1", 1, "2", "a whole number from 1 to 1"),
    ("mq", "source", "topic"): ("orders_demo", "orders_demo", "a topic", "a topic's name: 1 to 255 letters"),
    ("mq", "sink", "topic"): ("MQ_INST_1%orders", "MQ_INST_1%orders", "", "a topic's name: 1 to 255 letters"),
    ("mq", "sink", "endpoint"): ("http://MQ_INST_1.mq.example.com:80", "http://MQ_INST_1.mq.example.com:80", "a b",
                                 "an address as host:port"),
    ("mq", "sink", "accessId"): ("x", "x", "", "a text that is not empty"),
    ("mq", "sink", "accessKey"): (SECRET, SECRET, " ", "a text that is not empty"),
    ("mq", "sink", "instanceID"): ("MQ_INST_demo01", "MQ_INST_demo01", "a b", "an instance's ID as MQ_INST_…"),
    ("mq", "sink", "encoding"): ("gbk", "gbk", "utf-88", "the name of a character set, such as utf-8"),
    ("mq", "sink", "fieldDelimiter"): ("\\u0002", "\x02", "", "1 to 16 characters, such as | or \\u0001"),
    ("mq", "source", "fieldDelimiter"): ("|", "|", "x" * 17, "1 to 16 characters, such as | or \\u0001"),
    ("mq", "sink", "tag"): ("", "", "", ""),
    ("mq", "sink", "nameServerSubgroup"): ("nsaddr4client-internal", "nsaddr4client-internal", "internal",
                                           "nsaddr4client-internal and nsaddr4client-internet"),
    ("mq", "sink", "producerGroup"): ("GID_flink", "GID_flink", "a group", "a group's name: 1 to 255 letters"),
    ("mq", "sink", "retryTimes"): ("3", 3, "3.5", "a whole number from 0 to 1000"),
    ("mq", "sink", "sleepTimeMs"): ("200", 200, "1s", "a whole number from 0 to 3600000"),
    ("mq", "source", "consumerGroup"): ("GID_flink", "GID_flink", "", "a group's name: 1 to 255 letters"),
    ("mq", "source", "pullIntervalMs"): ("1000", 1000, "-1", "a whole number from 0 to 3600000"),
    ("mq", "source", "pullBatchSize"): ("64", 64, "0", "a whole number from 1 to 1024"),
    ("mq", "source", "startMessageOffset"): ("1000", 1000, "first", "a whole number from -2"),
    ("mq", "source", "startTimeMs"): ("0", 0, "-5", "a whole number from 0"),
    ("mq", "source", "startTime"): ("2026-01-15 10:00:00", 1768471200000, "2026-01-15", "a time in UTC as"),
    ("mq", "source", "lineDelimiter"): ("\\n", "\n", "", "1 to 16 characters"),
    ("mq", "source", "lengthCheck"): ("pad", "PAD", "MAYBE", "NONE, SKIP, EXCEPTION and PAD"),
    ("mq", "source", "columnErrorDebug"): ("TRUE", True, "yes", "true and false"),
    ("datagen", "source", "rows-per-second"): ("5", 5, "0", "a whole number from 1"),
    ("datagen", "source", "number-of-rows"): ("7", 7, "many", "a whole number from 1"),
    ("datagen", "source", "scan.parallelism"): ("2", 2, "65", "a whole number from 1 to 64"),
    ("datagen", "source", "fields.a.kind"): ("random", "random", "poisson", "random and sequence"),
    ("datagen", "source", "fields.a.min"): ("-5", -5, "3000000000", "a whole number from -2147483648"),
    ("datagen", "source", "fields.a.max"): ("5", 5, "1.5", "a whole number from -2147483648"),
    ("datagen", "source", "fields.a.start"): ("1", 1, "one", "a whole number from -2147483648"),
    ("datagen", "source", "fields.a.end"): ("9", 9, "", "a whole number from -2147483648"),
    ("datagen", "source", "fields.a.max-past"): ("1 d", 86_400_000, "long", "a duration from 0ms to 36500d"),
    ("datagen", "source", "fields.a.length"): ("", 0, "0", "a whole number from 1 to 65536"),
    ("datagen", "source", "fields.a.var-len"): ("true", True, "1", "true and false"),
    ("datagen", "source", "fields.a.null-rate"): ("0.25", 0.25, "1.25", "a number from 0 to 1"),
    ("print", "sink", "print-identifier"): ("late", "late", "", ""),
    ("print", "sink", "standard-error"): ("true", True, "2", "true and false"),
    ("print", "sink", "logger"): ("false", False, "off", "true and false"),
    ("print", "sink", "limit"): ("10", 10, "0", "a whole number from 1 to 1000000"),
    ("print", "sink", "sink.parallelism"): ("1", 1, "0", "a whole number from 1 to 64"),
    ("blackhole", "sink", "sink.parallelism"): ("1", 1, "x", "a whole number from 1 to 64"),
    ("filesystem", "source", "path"): ("oss://demo-bucket/x/", "oss://demo-bucket/x/", "file:///etc/passwd",
                                       "a folder of the lake as oss://bucket/folder/"),
    ("filesystem", "source", "source.monitor-interval"): ("10s", 10_000, "0s", "a duration from 1ms to 36500d"),
    ("filesystem", "source", "source.path.regex-pattern"): (".*[.]json", ".*[.]json", "*.json",
                                                           "a regular expression of Java's, and it has a * that"),
    ("filesystem", "sink", "partition.default-name"): ("none", "none", "", "a text that is not empty"),
    ("filesystem", "sink", "sink.rolling-policy.file-size"): ("1MB", 1024**2, "0", "a size of 1 byte and more"),
    ("filesystem", "sink", "sink.rolling-policy.rollover-interval"): ("1 min", 60_000, "0s", "a duration from 1s"),
    ("filesystem", "sink", "sink.rolling-policy.check-interval"): ("2min", 120_000, "never", "a duration from 1s"),
    ("filesystem", "sink", "auto-compaction"): ("true", True, "t", "true and false"),
    ("filesystem", "sink", "sink.parallelism"): ("4", 4, "-1", "a whole number from 1 to 64"),
}  # fmt: skip
#: Every text is right.
FREE = {("mq", "sink", "tag"), ("print", "sink", "print-identifier")}
#: Right for texts alone.
OF_TEXTS = {("datagen", "source", "fields.a.length")}
FORMATS: dict[str, tuple[str, Value, str, str]] = {
    "json.fail-on-missing-field": ("true", True, "1", "true and false"),
    "json.ignore-parse-errors": ("true", True, "si", "true and false"),
    "json.timestamp-format.standard": ("sql", "SQL", "RFC", "SQL and ISO-8601"),
    "json.timestamp-format.pattern": ("yyyyMMdd", "yyyyMMdd", "", "a text that is not empty"),
    "json.map-null-key.mode": ("drop", "DROP", "KEEP", "FAIL, DROP and LITERAL"),
    "json.map-null-key.literal": ("", "", "", ""),
    "json.encode.decimal-as-plain-number": ("true", True, "x", "true and false"),
    "csv.field-delimiter": ("|", "|", "||", "one character, such as | or \\u0001"),
    "csv.line-delimiter": ("\\r\\n", "\r\n", "abc", "1 to 2 characters"),
    "csv.disable-quote-character": ("true", True, "x", "true and false"),
    "csv.quote-character": ("'", "'", "''", "one character"),
    "csv.allow-comments": ("true", True, "x", "true and false"),
    "csv.ignore-parse-errors": ("false", False, "x", "true and false"),
    "csv.array-element-delimiter": (",", ",", "", "1 to 16 characters"),
    "csv.escape-character": ("\\\\", "\\", "xy", "one character"),
    "csv.null-literal": ("", "", "", ""),
    "avro.codec": ("deflate", "deflate", "zip", "null, deflate, snappy, bzip2, xz and zstandard"),
    "avro.timestamp_mapping.legacy": ("false", False, "x", "true and false"),
    "parquet.utc-timezone": ("true", True, "x", "true and false"),
    "parquet.compression": ("zstd", "zstd", "rar", "snappy, none, gzip, zstd and lz4"),
    "orc.compress": ("snappy", "snappy", "rar", "snappy, none, zlib, zstd and lz4"),
    "raw.charset": ("gbk", "gbk", "rot13", "the name of a character set"),
    "raw.endianness": ("little-endian", "little-endian", "middle", "big-endian and little-endian"),
}
FREE_FORMATS = {"json.map-null-key.literal", "csv.null-literal"}


def job(connector: str, role: str, **given: str) -> str:
    options = {**BASES[connector, role], **given}
    return read_job("a INT", options) if role == "source" else write_job("a INT", options)


def options_of(connector: str, role: str, text: str) -> dict[str, Value]:
    found = plan(text)
    tables = found.sources if role == "source" else found.sinks
    return next(one for one in tables if one.connector == connector).options


def test_every_option_stands_in_the_tables_above() -> None:
    of_columns = CONNECTORS["datagen"].of_columns({"a": "int"})
    known = {(name, option.name) for name, one in CONNECTORS.items() for option in one.options}
    known |= {("datagen", name) for name in of_columns}
    assert {(name, option) for name, _, option in OPTIONS} == known
    assert set(FORMATS) == {f"{name}.{option.name}" for name, options in formats.OPTIONS.items() for option in options}


@pytest.mark.parametrize("case", [case for case in OPTIONS if case not in OF_TEXTS])
def test_a_good_value_is_in_the_plan_as_what_it_means(case: tuple[str, str, str]) -> None:
    connector, role, name = case
    written, value, _, _ = OPTIONS[case]
    stored = "startTimeMs" if name == "startTime" else name
    assert options_of(connector, role, job(connector, role, **{name: written}))[stored] == value


@pytest.mark.parametrize("case", [case for case in OPTIONS if case not in FREE])
def test_a_bad_value_is_refused_with_what_is_allowed(case: tuple[str, str, str]) -> None:
    connector, role, name = case
    _, _, bad, allowed = OPTIONS[case]
    message = refusal(job(connector, role, **{name: bad}))
    shown = "what is written" if name in ("accessKey", "accessKeySecret") else f"'{bad}'"
    assert f"{name} cannot be {shown}; allowed is {allowed}" in message
    assert message.startswith(f"Line {1 if role == 'source' else 2}, column ")


@pytest.mark.parametrize("name", FORMATS)
def test_a_good_value_of_a_format_is_in_the_plan(name: str) -> None:
    written, value, _, _ = FORMATS[name]
    form, _, rest = name.partition(".")
    (source,) = plan(job("mns", "source", format=form, **{name: written})).sources
    assert source.format == form
    assert source.format_options[rest] == value


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in FREE_FORMATS])
def test_a_bad_value_of_a_format_is_refused(name: str) -> None:
    _, _, bad, allowed = FORMATS[name]
    message = refusal(job("mns", "source", format=name.partition(".")[0], **{name: bad}))
    assert f"{name} cannot be '{bad}'; allowed is {allowed}" in message


@pytest.mark.parametrize(
    ("connector", "role", "name"),
    [
        (connector, role, option.name)
        for connector, role in BASES
        for option in CONNECTORS[connector].options
        if option.required and option.role in ("", role)
    ],
)
def test_a_required_option_is_asked_for(connector: str, role: str, name: str) -> None:
    options = {key: value for key, value in BASES[connector, role].items() if key != name}
    text = read_job("a INT", options) if role == "source" else write_job("a INT", options)
    purpose = "reading" if role == "source" else "writing"
    assert f"needs the option '{name}' for {purpose}." in refusal(text)


@pytest.mark.parametrize(
    ("connector", "role", "defaults"),
    [
        ("mns", "source", {"batchSize": 1, "pollingWaitTime": 10_000, "messageType": "RAW", "deleteMaxRetries": 3}),
        (
            "mq",
            "sink",
            {"tag": "", "encoding": "utf-8", "retryTimes": 10, "sleepTimeMs": 1000, "fieldDelimiter": "\x01"},
        ),
        (
            "mq",
            "source",
            {"pullIntervalMs": 1000, "lengthCheck": "NONE", "lineDelimiter": "\n", "columnErrorDebug": False},
        ),
        ("datagen", "source", {"rows-per-second": 10_000, "fields.a.kind": "random", "fields.a.null-rate": 0.0}),
        ("print", "sink", {"print-identifier": "", "standard-error": False}),
    ],
)
def test_defaults_are_in_the_plan(connector: str, role: str, defaults: dict[str, Value]) -> None:
    found = options_of(connector, role, job(connector, role))
    assert {name: found[name] for name in defaults} == defaults


def test_what_has_no_default_is_left_out() -> None:
    assert "startTimeMs" not in options_of("mns", "source", job("mns", "source"))


@pytest.mark.parametrize(
    ("connector", "role", "wrong", "sentence"),
    [
        ("mns", "source", "batchsize", "the connector mns has no option batchsize. Did you mean batchSize? It has"),
        ("mns", "source", "queue", "the connector mns has no option queue."),
        ("mq", "sink", "retryTime", "the connector mq has no option retryTime. Did you mean retryTimes? It has"),
        (
            "datagen",
            "source",
            "fields.b.min",
            "the connector datagen has no option fields.b.min. Did you mean fields.a.min?",
        ),
        ("blackhole", "sink", "format", "the connector blackhole has no option format."),
        ("filesystem", "sink", "json.pretty", "the format json has no option pretty."),
        ("filesystem", "sink", "csv.allow-comments", "csv.allow-comments is an option of csv, and the format is json."),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(connector: str, role: str, wrong: str, sentence: str) -> None:
    assert sentence in refusal(job(connector, role, **{wrong: "1"}))


def test_a_rate_beside_a_number_of_rows_is_taken_with_a_warning() -> None:
    for more, warnings in (
        ({}, ()),
        ({"number-of-rows": "5"}, ("rows-per-second has no effect beside number-of-rows: so many rows",)),
    ):
        found = checked(read_job("a INT", {**DATAGEN, "rows-per-second": "5", **more})).warnings
        assert len(found) == len(warnings)
        assert all(sentence in warning for sentence, warning in zip(warnings, found, strict=True))


def test_another_case_of_an_option_of_mq_is_taken_with_a_warning() -> None:
    options = {**MQ_SINK, "instanceId": "MQ_INST_x"}
    found = checked(write_job("a INT", options))
    assert found.plan is not None
    assert found.plan.sinks[0].options["instanceID"] == "MQ_INST_x"
    assert [one.partition(": ")[2] for one in found.warnings] == ["the option instanceId is spelled instanceID."]


def test_an_option_in_two_cases_is_set_twice() -> None:
    assert "the option topic is set twice." in refusal(write_job("a INT", {**MQ_SINK, "Topic": "x"}))


def test_the_name_servers_subgroup_has_no_effect_and_it_is_said() -> None:
    found = checked(write_job("a INT", {**MQ_SINK, "nameServerSubgroup": "nsaddr4client-internet"}))
    assert "nameServerSubgroup has no effect" in found.warnings[0]


@pytest.mark.parametrize(("connector", "role"), [("mns", "source"), ("mq", "source"), ("mq", "sink")])
def test_address_and_keys_are_left_out_together_where_the_thing_is_the_accounts_own(connector: str, role: str) -> None:
    own = CONNECTORS[connector].own
    base = {name: value for name, value in BASES[connector, role].items() if name not in own}
    made = plan(write_job("a INT", base) if role == "sink" else read_job("a INT", base))
    (table,) = made.sources if role == "source" else made.sinks[:1]
    assert not own & table.options.keys()


@pytest.mark.parametrize(
    ("connector", "role", "name", "value"),
    [
        ("mq", "source", "pullBatchSize", "64"),
        ("print", "sink", "limit", "5"),
        ("filesystem", "sink", "auto-compaction", "true"),
        ("filesystem", "sink", "json.map-null-key.mode", "DROP"),
        ("filesystem", "source", "json.fail-on-missing-field", "true"),
        ("filesystem", "sink", "json.ignore-parse-errors", "true"),
        ("filesystem", "sink", "csv.ignore-parse-errors", "true"),
        ("filesystem", "sink", "csv.allow-comments", "true"),
        ("filesystem", "source", "parquet.compression", "gzip"),
        ("filesystem", "source", "orc.compress", "zlib"),
        ("mns", "source", "csv.line-delimiter", "\\r\\n"),
        ("mns", "source", "avro.codec", "deflate"),
        ("mns", "source", "avro.timestamp_mapping.legacy", "false"),
        ("mns", "source", "parquet.compression", "gzip"),
        ("mns", "source", "parquet.utc-timezone", "true"),
        ("mns", "source", "orc.compress", "zlib"),
    ],
)
def test_an_option_that_means_nothing_here_is_told_where_it_is_written(
    connector: str, role: str, name: str, value: str
) -> None:
    assert not [one for one in checked(job(connector, role)).warnings if "no effect" in one]
    form = {"format": name.partition(".")[0]} if name.partition(".")[0] in formats.NAMES else {}
    (warning,) = checked(job(connector, role, **form, **{name: value})).warnings
    assert f"{name} has no effect: " in warning


@pytest.mark.parametrize(("role", "name"), [("sink", "parquet.compression"), ("source", "csv.allow-comments")])
def test_an_option_that_means_something_in_one_role_alone_is_told_in_the_other(role: str, name: str) -> None:
    value = "gzip" if name == "parquet.compression" else "true"
    text = job("filesystem", role, format=name.partition(".")[0], **{name: value})
    assert checked(text).warnings == ()


@pytest.mark.parametrize(
    ("connector", "role", "pattern", "sentence"),
    [
        ("mns", "source", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", ""),
        ("mns", "source", "QQ yyyy", "the pattern 'QQ yyyy' has 'QQ', which is not known here."),
        ("mns", "source", "yyyy-MM-dd[ HH]", "has a [, which is not known here."),
        ("mns", "source", "HH:mm:ss.SSSSSSSSS", "has 'SSSSSSSSS', which is not known here."),
        ("mns", "source", "dd.MM.dd", "has 'dd' beside another part of the same meaning."),
        ("mns", "source", "yyyy 'at", "has a ', which is not known here."),
        ("filesystem", "source", "yyyy-MM-dd['T'HH:mm:ss[.SSSSSSSSS]][XXX]", ""),
        ("filesystem", "source", "YYYY-MM-dd", "has 'YYYY'; letters by which Spark reads times are d"),
        ("filesystem", "source", "EEE d", "has 'EEE'; letters by which Spark reads times are d"),
        ("filesystem", "sink", "EEE d", ""),
        ("filesystem", "sink", "MMMMM", "has 'MMMMM'; allowed are 1 to 4 of it."),
        ("filesystem", "source", "yyyy 'at", "has a quote that is not closed."),
        ("filesystem", "source", "HH]", "has a ] that closes nothing."),
    ],
)
def test_a_pattern_of_times_is_one_that_is_read_and_written_by(
    connector: str, role: str, pattern: str, sentence: str
) -> None:
    text = job(connector, role, format="json", **{"json.timestamp-format.pattern": pattern})
    if not sentence:
        plan(text)
        return
    message = refusal(text)
    assert sentence in message
    line, column = map(int, re.match(r"Line (\d+), column (\d+)", message).groups())  # type: ignore[union-attr]
    assert text.splitlines()[line - 1][column - 1 :].startswith(f"'{pattern.replace(chr(39), chr(39) * 2)}'")


@pytest.mark.parametrize(
    "pattern",
    ["a.*", r"(?i)\Qa(b\E+[^]a-z&&[^b]]{2,3}?", r"(?<n>x)\k<n>|\p{Alpha}*+", "(?x) ( # )", "]}{1}", r"\R\h^*"],
)
def test_a_pattern_of_paths_may_be_all_that_java_reads(pattern: str) -> None:
    assert plan(job("filesystem", "source", **{"source.path.regex-pattern": pattern})).sources


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(a|b", "a ( that is not closed, at its character 1"),
        ("a)", "a ) that closes nothing, at its character 2"),
        ("[a", "a [ that is not closed, at its character 1"),
        ("a|*", "a * that repeats nothing, at its character 3"),
        ("a**", "a * that repeats nothing, at its character 3"),
        ("a{x}", "a { that is no number of times; a { itself is written \\{, at its character 2"),
        ("a{3,2}", "a { that is no number of times"),
        (r"\y", r"the escape \y, which Java does not know, at its character 1"),
        ("\\", "the escape \\, which Java does not know, at its character 1"),
        (r"\Qa", r"a \Q that no \E ends, at its character 1"),
        ("(?P<n>a)", "a group of a kind that Java does not know, at its character 1"),
        ("(?<n>a)(?<n>b)", "two groups named n, at its character 8"),
        ("[z-a]", "the range z-a, which goes backwards, at its character 2"),
    ],
)
def test_a_pattern_of_paths_that_java_does_not_read_is_refused(pattern: str, what: str) -> None:
    message = refusal(job("filesystem", "source", **{"source.path.regex-pattern": pattern}))
    assert f"allowed is a regular expression of Java's, and it has {what}" in message


@pytest.mark.parametrize("connector", ["mns", "datagen"])
def test_a_table_that_is_only_read_is_not_written(connector: str) -> None:
    message = refusal(write_job("a INT", BASES[connector, "source"]))
    assert f"tables of the connector {connector} can only be read: it stands behind FROM." in message


@pytest.mark.parametrize("connector", ["print", "blackhole"])
def test_a_table_that_is_only_written_is_not_read(connector: str) -> None:
    message = refusal(read_job("a INT", BASES[connector, "sink"]))
    assert f"tables of the connector {connector} can only be written: it stands behind INSERT INTO." in message


@pytest.mark.parametrize("form", formats.NAMES)
def test_a_queue_is_read_in_every_format(form: str) -> None:
    (source,) = plan(read_job("a STRING", {**MNS, "format": form})).sources
    assert source.format == form


def test_times_in_messages_of_a_queue_are_iso_and_in_files_sql() -> None:
    assert plan(job("mns", "source")).sources[0].format_options["timestamp-format.standard"] == "ISO-8601"
    assert plan(job("filesystem", "source")).sources[0].format_options["timestamp-format.standard"] == "SQL"


def test_an_unknown_format_is_refused() -> None:
    message = refusal(job("mns", "source", format="jsn"))
    assert "format cannot be 'jsn'; allowed are json, csv, avro, parquet, orc, raw. Did you mean json?" in message


@pytest.mark.parametrize(
    ("columns", "given", "sentence"),
    [
        ("a INT", {"json.fail-on-missing-field": "true", "json.ignore-parse-errors": "true"}, "are both true"),
        ("a INT, b INT", {"format": "raw"}, "the format raw is one column with the whole message; the table has 2."),
        ("a DATE", {"format": "raw"}, "the format raw cannot carry column a, whose type is date"),
        ("a MAP<STRING, INT>", {"format": "csv"}, "csv cannot carry column a"),
        ("a INT", {"format": "csv", "csv.field-delimiter": '"'}, "are the same character"),
        ("a INT", {"region": "cn-other"}, "region is cn-other, and the endpoint is one of cn-demo; write the same."),
        ("a INT", {"messageType": "OSS", "format": "csv"}, "messageType OSS needs the format json, and not csv."),
        ("a INT", {"messageType": "OSS"}, "an OSS event has no column a; it has eventName, eventSource"),
        ("eventTime BIGINT", {"messageType": "OSS"}, "column eventTime of an OSS event is timestamp, and not bigint."),
        ("a INT, k STRING METADATA", {}, "the connector mns has no metadata k; it has none."),
    ],
)
def test_it_refuses_what_does_not_fit_together_in_a_queue(columns: str, given: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(read_job(columns, {**MNS, **given}))


def test_an_oss_event_has_its_columns_in_any_case() -> None:
    columns = ", ".join(f"{name.upper()} {kind}" for name, (_, kind) in OSS_EVENT_COLUMNS.items())
    (source,) = plan(read_job(columns, {**MNS, "messageType": "OSS"})).sources
    assert len(source.columns) == 19
    assert [one.name for one in source.columns] == [name.upper() for name in OSS_EVENT_COLUMNS]


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8071", "https://smq.example.com", "http://7.mns.cn-x-internal.aliyuncs.com"]
)
def test_an_endpoint_without_a_region_says_nothing_about_it(endpoint: str) -> None:
    region = "cn-x" if "cn-x" in endpoint else "anywhere"
    assert plan(job("mns", "source", endpoint=endpoint, region=region)).sources[0].options["endpoint"] == endpoint


@pytest.mark.parametrize(
    ("columns", "form"), [("a VARBINARY", "binary"), ("a INT, b STRING", "csv"), ("a STRING", "csv")]
)
def test_the_columns_tell_the_format_of_a_topic(columns: str, form: str) -> None:
    assert plan(write_job(columns, MQ_SINK)).sinks[0].format == form
    assert plan(read_job(columns, MQ_SOURCE)).sources[0].format == form


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("a VARBINARY, b INT", "column a is VARBINARY beside others; a message is one VARBINARY column, or columns of"),
        ("a ARRAY<INT>", "column a is array<int>, which CSV cannot carry; write it as STRING."),
    ],
)
def test_it_refuses_columns_that_a_topic_cannot_carry(columns: str, sentence: str) -> None:
    assert sentence in refusal(write_job(columns, MQ_SINK))


def test_metadata_is_not_written_to_a_topic() -> None:
    text = table("written", "a INT, k STRING METADATA FROM 'keys'", MQ_SINK) + "INSERT INTO written SELECT 1, 'k'"
    assert "column k is metadata, which the sink mq cannot write" in refusal(text)


def test_a_topics_metadata_has_types() -> None:
    columns = "a STRING, t TIMESTAMP(3) METADATA FROM 'born-timestamp', q INT METADATA FROM 'queue-id'"
    assert [one.metadata for one in plan(read_job(columns, MQ_SOURCE)).sources[0].columns] == [
        "",
        "born-timestamp",
        "queue-id",
    ]
    message = refusal(read_job("q DATE METADATA FROM 'queue-id'", MQ_SOURCE))
    assert "the metadata queue-id is int, and not date." in message
    message = refusal(read_job("q INT METADATA FROM 'queue_id'", MQ_SOURCE))
    assert "the connector mq has no metadata queue_id" in message
    assert message.endswith("Did you mean queue-id?")


def test_two_times_to_start_at_are_refused() -> None:
    text = read_job("a INT", {**MQ_SOURCE, "startTime": "2026-01-15 10:00:00", "startTimeMs": "5"})
    assert "startTime and startTimeMs are both set; allowed is one of them." in refusal(text)


@pytest.mark.parametrize(
    ("columns", "form", "sentence"),
    [
        ("a INT", "avro", "format cannot be 'avro'; allowed are csv, json, parquet, orc."),
        ("a BYTES", "raw", "format cannot be 'raw'; allowed are csv, json, parquet, orc."),
        ("a ARRAY<INT>", "csv", "a file of CSV cannot carry column a, whose type is array<int>; json can."),
    ],
)
def test_it_refuses_files_that_spark_cannot_read(columns: str, form: str, sentence: str) -> None:
    assert sentence in refusal(read_job(columns, {**FILES, "format": form}))


@pytest.mark.parametrize(
    ("columns", "given", "sentence"),
    [
        (
            "a INT",
            {"fields.a.kind": "sequence"},
            "fields.a.kind is sequence, which needs fields.a.start and fields.a.end.",
        ),
        ("a INT", {"fields.a.min": "5", "fields.a.max": "4"}, "fields.a.min is above fields.a.max."),
        ("a INT", {"fields.a.length": "5"}, "fields.a.length is for texts and bytes; column a is int."),
        ("a DATE", {"fields.a.min": "5"}, "fields.a.min is for numbers; column a is date."),
    ],
)
def test_it_refuses_what_cannot_be_generated(columns: str, given: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(read_job(columns, {**DATAGEN, **given}))


def test_generated_texts_have_a_length() -> None:
    options = {
        **DATAGEN,
        "fields.a.length": "5",
        "fields.b.kind": "sequence",
        "fields.b.start": "1",
        "fields.b.end": "9",
    }
    assert plan(read_job("a STRING, b BIGINT", options)).sources[0].options["fields.a.length"] == 5


def test_a_secret_cannot_be_a_number() -> None:
    message = refusal(read_job("a INT", {**MNS, "batchSize": SECRET}))
    assert message.endswith("a secret is allowed as accessId, accessKey, accessKeyId, accessKeySecret in WITH (…).")


def test_options_of_the_other_direction_are_read_over() -> None:
    found = plan(write_job("a INT", {**MQ_SINK, "consumerGroup": "GID_r", "pullIntervalMs": "1000"}))
    assert not {"consumerGroup", "pullIntervalMs"} & found.sinks[0].options.keys()


def test_the_form_without_a_producer_group_is_incomplete() -> None:
    assert "needs the option 'producerGroup' for writing." in refusal(write_job("a INT", MQ))


def test_every_option_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[4] / "docs/use/jobs.md").read_text()
    names = {option.name for one in CONNECTORS.values() for option in one.options}
    names |= {option.name for options in formats.OPTIONS.values() for option in options}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
