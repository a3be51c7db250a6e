"""Secrets of an account stand where nothing shows them, and whoever may only write texts learns none of them."""

from __future__ import annotations

import pytest

from analytics.pipelines.plan import CREDENTIALS, SECRET, filled
from console.jobs.compiler.connectors.known import CONNECTORS
from console.pipelines import starts
from tests.console.jobs.compiler.texts import (
    DATAGEN,
    FILES,
    MNS,
    MQ_SINK,
    MQ_SOURCE,
    plan,
    read_job,
    refusal,
    write_job,
)

pytestmark = pytest.mark.process
STOLEN = "${secret_values.stolen}"
#: Where a text would write what the secret is: into rows, messages, names of folders, or the log of the job.
SHOWN = [
    read_job("a INT", {**MNS, "format": "csv", "csv.null-literal": STOLEN}),
    read_job("a INT", {**MNS, "format": "json", "json.timestamp-format.pattern": STOLEN}),
    read_job("a INT", {**FILES, "path": f"oss://demo-bucket/{STOLEN}/"}),
    read_job("a INT", {**FILES, "source.path.regex-pattern": STOLEN}),
    read_job("a INT", {**MQ_SOURCE, "tag": STOLEN}),
    read_job("a INT", {**MQ_SOURCE, "consumerGroup": STOLEN}),
    read_job("a INT", {**MQ_SOURCE, "endpoint": STOLEN}),
    write_job("a INT", {**MQ_SINK, "endpoint": f"{STOLEN}:9876"}),
    write_job("a INT", {**MQ_SINK, "topic": STOLEN}),
    write_job("a INT", {**MQ_SINK, "fieldDelimiter": STOLEN}),
    read_job("a INT", {**MNS, "queueName": STOLEN}),
    read_job("a INT", {**MNS, "endpoint": STOLEN}),
    read_job("a INT", {**MNS, "region": STOLEN}),
    read_job("a INT", {**MNS, "format": STOLEN}),
    write_job("a INT", {**MQ_SINK, "tag": STOLEN}),
    write_job("a INT", {**FILES, "partition.default-name": STOLEN}),
    write_job("a INT", {"connector": "print", "print-identifier": STOLEN}),
    write_job("a INT", {"connector": "print", "print-identifier": f"x{STOLEN}y"}),
    read_job(f"a INT, b AS '{STOLEN}'", DATAGEN),
    read_job("a INT", DATAGEN).replace("SELECT *", f"SELECT '{STOLEN}'"),
    read_job("a INT", DATAGEN).replace("SELECT *", f"SELECT * FROM (VALUES ('{STOLEN}')) AS v(x) UNION ALL SELECT *"),
    f"SET 'pipeline.name' = '{STOLEN}';" + read_job("a INT", DATAGEN),
    f"SET '{STOLEN}' = 'x';" + read_job("a INT", DATAGEN),
]


@pytest.mark.parametrize("text", SHOWN)
def test_a_secret_cannot_stand_where_its_value_would_be_shown(text: str) -> None:
    told = refusal(text, secrets={"id", "secret", "stolen"})
    assert "cannot stand here" in told or "there is no setting" in told.lower() or "no setting" in told, told


#: Variables with which a text would bring a secret's name to where it cannot be written, in one piece or in two.
SMUGGLED = [
    ("${v}", {"v": STOLEN}),
    ("x${v}y", {"v": STOLEN}),
    ("${d}{secret_values.stolen}", {"d": "$"}),
    ("${secret_values.${v}}", {"v": "stolen"}),
    ("$${v}", {"v": STOLEN.removeprefix("$")}),
]


@pytest.mark.parametrize(("written", "variables"), SMUGGLED)
@pytest.mark.parametrize(
    ("connector", "option"), [(MQ_SINK, "tag"), (MQ_SINK, "accessId"), ({"connector": "print"}, "print-identifier")]
)
def test_a_variable_brings_no_secret_to_where_none_was_written(
    connector: dict[str, str], option: str, written: str, variables: dict[str, str]
) -> None:
    text = write_job("a INT", {**connector, option: written})
    told = refusal(text, secrets={"id", "secret", "stolen"}, variables=variables)
    assert "a variable's value names no secret" in told, told


def test_no_variable_brings_a_secret_into_a_query() -> None:
    text = read_job("a INT", DATAGEN).replace("SELECT *", "SELECT '${v}', *")
    assert "a variable's value names no secret" in refusal(text, secrets={"stolen"}, variables={"v": STOLEN})


def test_a_secret_is_put_into_credentials_and_nowhere_else() -> None:
    named = dict.fromkeys(("accessKeyId", "accessKey", "tag", "endpoint", "print-identifier"), STOLEN)
    assert filled(named, {"stolen": "hunter22"}) == named | {"accessKeyId": "hunter22", "accessKey": "hunter22"}


def test_credentials_are_options_that_sign() -> None:
    known = {(one.name, option.name) for one in CONNECTORS.values() for option in one.options}
    assert {(connector, name) for connector, name in known if name in CREDENTIALS} == {
        *(("mns", name) for name in ("accessKeyId", "accessKeySecret")),
        *(("mq", name) for name in ("accessId", "accessKey")),
    }
    assert {option.name for one in CONNECTORS.values() for option in one.options if option.secret} <= CREDENTIALS


def test_a_plan_has_the_names_of_secrets_only() -> None:
    made = plan(read_job("a INT", {**MNS, "accessKeyId": STOLEN}), secrets={"id", "secret", "stolen"})
    assert SECRET.findall(made.to_json()) == ["stolen", "secret"]


def test_a_reason_tells_no_secret_and_no_key() -> None:
    hidden = {
        "hunter22": "${secret_values.stolen}",
        "hunter22-and-more": "${secret_values.longer}",
        "sEcReT": "(accessKey)",
    }
    told = "The queue service at hunter22-and-more cannot be reached as hunter22 with sEcReT: refused."
    assert starts.without(hidden, told) == (
        "The queue service at ${secret_values.longer} cannot be reached as ${secret_values.stolen} with (accessKey):"
        " refused."
    )
    assert len(starts.without(hidden, "hunter22 " * 10_000)) <= 4_000
