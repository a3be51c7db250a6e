"""The document of an inflow task, and the pipeline that it becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from analytics.inflow.delivery import RetryPolicy
from analytics.inflow.expressions import Expression
from analytics.inflow.http_function import HttpFunction
from analytics.inflow.parts import TaskError
from analytics.inflow.task import EVENTS, MESSAGES, Task, plan_of
from analytics.inflow.task_sinks import DeadLetters, HttpSink, QueueSink
from analytics.inflow.task_sources import TaskSource
from analytics.pipelines.plan import Plan

SMALL: dict[str, Any] = {"name": "orders-to-topic", "source": {"log": "oss://b/logs/1/"}, "sink": {"topic": "orders"}}
FULL: dict[str, Any] = {
    "name": "orders-to-topic",
    "description": "Changes of orders",
    "source": {"log": "oss://b/logs/1/", "startTimeMs": 1_768_435_200_000, "messages": 200, "interval": 5},
    "pattern": {"data": {"tableName": ["orders"]}},
    "transform": {"kind": "expression", "expression": "@"},
    "sink": {
        "topic": "order_changes", "ordered": True, "routes": ["by_table", "by_table"],
        "endpoint": "localhost:9876", "instanceID": "MQ_INST_1",
        "accessId": "${secret_values.id}", "accessKey": "${secret_values.key}",
        "body": {"method": "complete_data"},
        "key": {"method": "data_extraction", "path": "$.data.primaryKey"},
        "tag": {"method": "fixed_value", "value": "change"},
    },
    "retry": "exponential", "faults": "prohibited", "deadLetterTopic": "order_changes_dead",
}  # fmt: skip


HTTP: dict[str, Any] = {"kind": "http", "url": "https://a.example/in"}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small document with something else in one place."""
    document = json.loads(json.dumps(SMALL))
    *folders, last = path.split(".")
    inner = document
    for folder in folders:
        inner = inner.setdefault(folder, {})
    inner[last] = value
    return dict(document)


def test_what_a_document_does_not_say_has_the_defaults_of_the_specification() -> None:
    task = Task.read(SMALL)
    assert task.source == TaskSource("changes", {"log": "oss://b/logs/1/", "messages": 100, "interval": 3})
    assert (task.pattern, task.transform, task.sink.kind, bool(task.dead_letters)) == ("{}", None, "topic", False)
    assert not task.sink.is_ordered
    assert (task.retry, task.allows_faults) == (RetryPolicy.BACKOFF, True)
    assert task.sink.builder.build({"id": "1"}).body == b'{"id":"1"}'
    flow = task.flow(None)
    assert (flow.task, flow.has_dead_letters, flow.transform) == ("orders-to-topic", False, None)
    assert flow.pattern.matches({"any": 1})


def test_the_plan_has_a_source_and_a_sink_and_no_secret() -> None:
    plan = plan_of(FULL)
    assert Plan.from_json(plan.to_json()) == plan
    (source,), (sink,), (insert,) = plan.sources, plan.sinks, plan.inserts
    assert (source.name, source.connector, sink.name, sink.connector) == (EVENTS, "events", MESSAGES, "inflow")
    assert source.options == FULL["source"] | {"calls": 5, "stretches": True}
    assert {name: value for name, value in sink.options.items() if name != "task"} == {
        "endpoint": "localhost:9876", "topic": "order_changes", "instanceID": "MQ_INST_1",
        "accessId": "${secret_values.id}", "accessKey": "${secret_values.key}", "producerGroup": "GID_INFLOW",
    }  # fmt: skip
    assert plan.secrets == ("id", "key")
    assert (insert.sql, insert.sink) == ("select event from events", MESSAGES)
    assert plan.settings.mode == "streaming"


def test_what_the_sink_is_told_is_the_same_task() -> None:
    document = json.loads(str(plan_of(FULL).sinks[0].options["task"]))
    task, told = Task.read(FULL), Task.read(document)
    assert told.to_document() == task.to_document() == document
    assert told.source.parts["messages"] == 200 and told.sink.is_ordered and not told.allows_faults
    assert told.flow(None).routes == {"order_changes", "by_table"}
    assert told.sink.topics == ("order_changes", "by_table")
    assert document["sink"]["kind"] == "topic"
    assert "log" not in document["source"] and "accessKey" not in document["sink"]


def test_what_starts_the_task_gives_need_not_be_in_the_document() -> None:
    plan = plan_of({"name": "a", "source": {}, "sink": {"topic": "t"}})
    quick = {"messages": 100, "interval": 3, "calls": 500, "stretches": True}
    assert plan.sources[0].options == quick, "a topic alone is quick"
    large = plan_of(changed("source.messages", 10_000))
    assert large.sources[0].options["calls"] == 5
    assert set(plan.sinks[0].options) == {"task", "topic", "producerGroup"}


def test_a_queue_and_its_dead_letters_are_told_to_the_sink() -> None:
    told = {
        "kind": "queue", "queue": "orders", "base64": True, "priority": 1, "delaySeconds": 0,
        "endpoint": "https://q.example", "accessKeyId": "id", "accessKeySecret": "${secret_values.key}",
    }  # fmt: skip
    plan = plan_of(SMALL | {"sink": told, "deadLetterTopic": "dead", "deadLetterInstance": "MQ_INST_1"})
    (sink,) = plan.sinks
    assert {name: value for name, value in sink.options.items() if name != "task"} == {
        "queue": "orders", "endpoint": "https://q.example", "accessKeyId": "id",
        "accessKeySecret": "${secret_values.key}",
    }  # fmt: skip
    assert plan.secrets == ("key",)
    document = json.loads(str(sink.options["task"]))
    task = Task.read(document)
    assert task.to_document() == document and "accessKeySecret" not in document["sink"]
    assert isinstance(task.sink, QueueSink)
    assert (task.sink.base64, task.sink.priority, task.sink.delay_s) == (True, 1, 0)
    assert task.dead_letters == DeadLetters("dead", "MQ_INST_1") and task.flow(None).has_dead_letters
    assert task.flow(None).routes == frozenset()


def test_an_endpoint_is_told_to_the_sink_and_its_headers_beside_the_document() -> None:
    told = HTTP | {
        "mode": "body", "contentType": "text/csv", "batch": 10, "timeout": 5, "ordered": True,
        "headers": {"Authorization": "Bearer ${secret_values.a}", "x-b": "${secret_values.b}/${secret_values.a}"},
    }  # fmt: skip
    plan = plan_of(SMALL | {"sink": told, "deadLetterQueue": "dead"})
    (sink,) = plan.sinks
    headers = {name.lower(): value for name, value in told["headers"].items()}
    assert json.loads(str(sink.options["headers"])) == headers and plan.secrets == ("a", "b")
    document = json.loads(str(sink.options["task"]))
    task = Task.read(document)
    assert task.to_document() == document and "headers" not in document["sink"]
    assert isinstance(task.sink, HttpSink) and task.flow(None).is_ordered
    assert (task.sink.mode, task.sink.content_type, task.sink.batch, task.sink.timeout_s) == ("body", "text/csv", 10, 5)
    assert task.dead_letters == DeadLetters(queue="dead")


def test_dead_letters_have_one_place_which_is_not_that_of_the_messages() -> None:
    for more, field in (
        ({"deadLetterTopic": "a", "deadLetterQueue": "b"}, "deadLetterQueue"),
        ({"sink": {"kind": "queue", "queue": "q"}, "deadLetterQueue": "q"}, "deadLetterQueue"),
        ({"sink": HTTP, "deadLetterInstance": "MQ_INST_1"}, "deadLetterInstance"),
    ):
        with pytest.raises(TaskError) as refused:
            plan_of(SMALL | more)
        assert refused.value.field == field


def test_both_kinds_of_transform_are_made() -> None:
    expression = Task.read(changed("transform", {"kind": "expression", "expression": "@"})).made_transform()
    function = Task.read(changed("transform", {"kind": "function", "url": "https://a.example/f"})).made_transform(b"k")
    assert isinstance(expression, Expression) and isinstance(function, HttpFunction)
    assert Task.read(SMALL).made_transform() is None


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("name", "", "name: a text is needed"),
        ("name", "a b", "name: a name has 1 to 127 letters, digits, '_' and '-'."),
        ("name", "a" * 128, "name: a name has 1 to 127"),
        ("name", 7, "name: it is a text"),
        ("description", "x" * 256, "description: a description has at most 255 characters."),
        ("source", None, "source: it is needed, as an object."),
        ("source.kind", "tape", "source.kind: it is changes"),
        ("source.kind", ["changes"], "source.kind: it is changes"),
        ("source.messages", 0, "source.messages: it is a whole number from 1 to 10,000."),
        ("source.messages", 10_001, "source.messages: "),
        ("source.messages", True, "source.messages: "),
        ("source.messages", 1.5, "source.messages: "),
        ("source.interval", -1, "source.interval: it is a whole number from 0 to 15."),
        ("source.interval", 16, "source.interval: "),
        ("source.startTimeMs", "2026-01-15", "source.startTimeMs: "),
        ("source.log", "/etc", "source.log: it is a folder of the lake, such as oss://bucket/folder/."),
        ("source.password", "x", "source.password: a source of the kind changes has no such part; it has kind, log"),
        ("pattern", "{", "pattern: "),
        ("pattern", 7, "pattern: it is an object of fields, or its JSON as a text."),
        ("pattern", {"data": {"n": [{"prefix": 1}]}}, "pattern.data.n[0].prefix: "),
        ("transform", {"kind": "xslt"}, "transform.kind: it is expression or function or sql."),
        ("transform", {"kind": "sql", "sql": "select 1"}, "transform.sql: The query has to read the table events."),
        ("transform", {"kind": "expression"}, "transform.expression: a text is needed."),
        ("transform", {"kind": "expression", "expression": "a" * 9000}, "transform.expression: An expression has 1 to"),
        ("transform", {"kind": "function", "url": "ftp://a"}, "transform.url: A function's URL begins with http"),
        ("transform", {"kind": "function", "url": "http://a", "key": "k"}, "transform.key: "),
        ("sink.kind", "fax", "sink.kind: it is topic or queue or http."),
        ("sink.topic", "", "sink.topic: a text is needed"),
        ("sink.topic", "a b", "sink.topic: a topic's name has 1 to 127 letters, digits, '_' and '-'."),
        ("sink.topic", "MQ_INST_2%orders", "sink.topic: a topic's name has 1 to 127 letters"),
        ("sink.routes", "t", "sink.routes: it is a list of up to 100 topics."),
        ("sink.routes", ["t", "a b"], "sink.routes[1]: a topic's name has 1 to 127 letters"),
        ("sink.ordered", "yes", "sink.ordered: it is true or false."),
        ("sink.body", {"method": "not_specified"}, "sink.body.method: Not Specified is not offered here; "),
        ("sink.key", {"method": "data_extraction", "path": "data"}, "sink.key.path: "),
        ("sink.accessKey", "hunter2", "sink.accessKey: it is the name of a secret, such as ${secret_values.broker}."),
        (
            "sink.other",
            1,
            "sink.other: a sink of the kind topic has no such part; it has kind, topic, ordered, routes, body",
        ),
        ("sink", {"kind": "queue"}, "sink.queue: a text is needed"),
        ("sink", {"kind": "queue", "queue": "a_b"}, "sink.queue: a queue's name has 1 to 120 letters"),
        ("sink", {"kind": "queue", "queue": "q", "key": {}}, "sink.key: a sink of the kind queue has no such part"),
        ("sink", {"kind": "queue", "queue": "q", "priority": 17}, "sink.priority: it is a whole number from 1 to 16."),
        ("sink", {"kind": "queue", "queue": "q", "delaySeconds": -1}, "sink.delaySeconds: it is a whole number from 0"),
        ("sink", {"kind": "queue", "queue": "q", "base64": 1}, "sink.base64: it is true or false."),
        (
            "sink",
            {"kind": "queue", "queue": "q", "endpoint": "http://a"},
            "sink.accessKeyId: a queue of another account",
        ),
        ("sink", {"kind": "queue", "queue": "q", "accessKeySecret": "x"}, "sink.accessKeySecret: it is the name of a"),
        ("sink", {"kind": "http", "url": "ftp://a"}, "sink.url: An endpoint's URL begins with http:// or https://"),
        ("sink", HTTP | {"mode": "batched"}, "sink.mode: it is structured or binary or body."),
        ("sink", HTTP | {"mode": "binary", "batch": 2}, "sink.batch: in binary mode a request has one event."),
        ("sink", HTTP | {"batch": 501}, "sink.batch: it is a whole number from 1 to 500."),
        ("sink", HTTP | {"timeout": 61}, "sink.timeout: it is a whole number from 1 to 60."),
        ("sink", HTTP | {"contentType": "json\r\nx: y"}, "sink.contentType: it is a media type"),
        ("sink", HTTP | {"headers": []}, "sink.headers: it is an object of up to 20 headers."),
        ("sink", HTTP | {"headers": {"a b": "c"}}, "sink.headers: a header's name has"),
        ("sink", HTTP | {"headers": {"Host": "c"}}, "sink.headers.Host: this header is the request's own."),
        ("sink", HTTP | {"headers": {"X-Gantry-Signature": "c"}}, "sink.headers.X-Gantry-Signature: this header is"),
        ("sink", HTTP | {"headers": {"Content-Length": "1"}}, "sink.headers.Content-Length: this header is"),
        ("sink", HTTP | {"headers": {"a": "b\r\nc: d"}}, "sink.headers.a: a header's value has"),
        ("sink", HTTP | {"headers": {"a": "b", "A": "c"}}, "sink.headers.A: this header stands twice."),
        ("sink", HTTP | {"headers": {"authorization": "Bearer x"}}, "sink.headers.authorization: it has the name of a"),
        ("deadLetterQueue", "a_b", "deadLetterQueue: a queue's name has"),
        (
            "deadLetterInstance",
            "MQ_INST_1",
            "deadLetterInstance: it is for a dead-letter topic of a task whose sink is no",
        ),
        ("retry", "often", "retry: it is backoff or exponential."),
        ("faults", True, "faults: it is allowed or prohibited."),
        ("deadLetterTopic", "orders", "deadLetterTopic: it is the topic of the messages; another one is needed."),
        ("deadLetterTopic", "a b", "deadLetterTopic: a topic's name"),
        ("other", 1, "other: the task has no such part; it has name, description, source"),
    ],
)
def test_what_is_not_allowed_is_refused_by_its_place(path: str, value: Any, sentence: str) -> None:
    with pytest.raises(TaskError) as refused:
        plan_of(changed(path, value))
    assert refused.value.user_message.startswith(sentence)
    assert refused.value.field == sentence.partition(":")[0]
    assert not refused.value.user_message.endswith("..")


@pytest.mark.parametrize("document", [None, [], "a", 7])
def test_what_is_no_document_is_refused(document: Any) -> None:
    with pytest.raises(TaskError, match="task: it is an object with name, description"):
        plan_of(document)


# Sources that are no event logs

TOPIC: dict[str, Any] = {"kind": "topic", "topic": "paid", "group": "GID_paid"}
QUEUE: dict[str, Any] = {"kind": "queue", "queue": "orders-in"}
ELSEWHERE = {"endpoint": "mq.example.com:9876", "accessId": "id", "accessKey": "${secret_values.key}"}
QUEUES_ELSEWHERE = {"endpoint": "http://q.example.com", "accessKeyId": "id", "accessKeySecret": "${secret_values.key}"}


@pytest.mark.parametrize(
    ("source", "connector", "options"),
    [
        (TOPIC, "mq", {"topic": "paid", "consumerGroup": "GID_paid", "body": "text"}),
        (
            TOPIC | ELSEWHERE | {"instanceID": "I", "tag": "a || b", "format": "json", "startTimeMs": 7, "interval": 0},
            "mq",
            {"topic": "paid", "consumerGroup": "GID_paid", "body": "json", "instanceID": "I", "tag": "a || b",
             "startTimeMs": 7, "interval": 0, **ELSEWHERE},
        ),
        (QUEUE, "mns", {"queueName": "orders-in", "body": "text", "batchSize": 16}),
        (
            QUEUE | QUEUES_ELSEWHERE | {"base64": True, "format": "binary", "messages": 500},
            "mns",
            {"queueName": "orders-in", "body": "binary", "base64": True, "batchSize": 16, "messages": 500, "calls": 20,
             **QUEUES_ELSEWHERE},
        ),
    ],
)  # fmt: skip
def test_messages_are_read_as_events_by_the_connectors_that_jobs_have(
    source: dict[str, Any], connector: str, options: dict[str, Any]
) -> None:
    plan = plan_of(SMALL | {"source": source})
    (table,) = plan.sources
    assert (table.connector, table.format) == (connector, "event")
    assert table.options == {"messages": 100, "interval": 3, "calls": 100} | options
    assert plan.secrets == (("key",) if "endpoint" in source else ())
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (TOPIC | {"topic": "a%b"}, "source.topic: a topic's name has 1 to 127 letters"),
        (TOPIC | {"topic": None}, "source.topic: a text is needed."),
        (TOPIC | {"group": ""}, "source.group: a text is needed."),
        (TOPIC | {"group": "GID paid"}, "source.group: a name has 1 to 127 letters"),
        (TOPIC | {"format": "xml"}, "source.format: it is text or json or binary."),
        (TOPIC | {"tag": "x" * 1025}, "source.tag: it has at most 1024 characters."),
        (TOPIC | {"startTimeMs": "now"}, "source.startTimeMs: it is a whole number"),
        (TOPIC | {"log": "oss://b/l/"}, "source.log: a source of the kind topic has no such part; it has kind, topic"),
        (TOPIC | {"endpoint": "h:1"}, "source.accessId: a source elsewhere has endpoint, accessId, accessKey."),
        (TOPIC | ELSEWHERE | {"accessKey": "hunter2"}, "source.accessKey: it is the name of a secret, such as"),
        (TOPIC | {"interval": 16}, "source.interval: it is a whole number from 0 to 15."),
        (QUEUE | {"queue": "a_b"}, "source.queue: a queue's name has 1 to 120 letters, digits and '-'."),
        (QUEUE | {"queue": "a" * 121}, "source.queue: a queue's name has"),
        (QUEUE | {"base64": "yes"}, "source.base64: it is true or false."),
        (QUEUE | {"startTimeMs": 7}, "source.startTimeMs: a source of the kind queue has no such part"),
        (QUEUE | {"messages": 0}, "source.messages: it is a whole number from 1 to 10,000."),
        (TOPIC | {"topic": "orders"}, "sink.topic: orders is the topic that the task reads; another one is needed."),
    ],
)
def test_what_is_wrong_with_a_source_of_messages_is_refused_by_its_place(source: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TaskError) as refused:
        plan_of(SMALL | {"source": source})
    assert refused.value.user_message.startswith(sentence)


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_records_of_debezium_go_to_an_endpoint_as_bodies_alone(mode: str) -> None:
    told = SMALL | {"source": {"log": "oss://b/l/", "envelope": "debezium"}, "sink": HTTP | {"mode": mode}}
    with pytest.raises(TaskError, match=r"^sink\.mode: records of Debezium's are no CloudEvents"):
        plan_of(told)
    assert plan_of(told | {"sink": HTTP | {"mode": "body"}})


def test_a_task_may_not_read_what_it_routes_or_buries_but_may_elsewhere() -> None:
    told = SMALL | {"source": TOPIC, "sink": {"topic": "orders", "routes": ["items", "paid"]}}
    with pytest.raises(TaskError, match=r"^sink\.routes: paid is the topic that the task reads"):
        plan_of(told)
    with pytest.raises(TaskError, match=r"^deadLetterTopic: paid is the topic that the task reads"):
        plan_of(SMALL | {"source": TOPIC, "deadLetterTopic": "paid"})
    queue = {"sink": {"kind": "queue", "queue": "orders-in"}, "source": QUEUE}
    with pytest.raises(TaskError, match=r"^sink\.queue: orders-in is the queue that the task reads"):
        plan_of(SMALL | queue)
    with pytest.raises(TaskError, match=r"^deadLetterQueue: orders-in is the queue that the task reads"):
        plan_of(SMALL | {"source": QUEUE, "deadLetterQueue": "orders-in"})
    with pytest.raises(TaskError, match=r"^deadLetterTopic: paid is the topic that the task reads"):
        plan_of(SMALL | queue | {"source": TOPIC, "deadLetterTopic": "paid"})
    assert plan_of(SMALL | queue | {"source": QUEUE | QUEUES_ELSEWHERE}).sources
    assert plan_of(told | {"source": TOPIC | ELSEWHERE}).sources
    assert plan_of(told | {"source": TOPIC | {"instanceID": "other"}}).sources
