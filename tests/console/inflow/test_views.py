"""Pages of inflow tasks: the list, the wizard with what it leads to, one task."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from analytics.inflow.event_log import EventLog
from analytics.pipelines.reports import InsertReport, Reached, Report
from analytics.pipelines.waits import Waiting
from console.inflow import queries, services
from console.pipelines import journal, lifecycle, samples
from console.pipelines import services as pipelines
from console.pipelines.models import Kind, Pipeline, StartFrom, State
from tests.console.inflow.conftest import SOURCE, document, reloaded
from tests.support.cast import Cast

pytestmark = pytest.mark.process
NOW = round(time.time() * 1000)
REPORT = Report(
    (InsertReport("messages", 0, batch=7, committed_ms=NOW, rows_in_per_second=12.0, rows_out_per_second=11.0),),
    connectors={"messages": {"eventsRead": 4711, "eventsFiltered": 17, "messagesDelivered": 4690, "deadLetters": 4}},
    rows_in_per_second=12.0,
    reached={"events": Reached(4711, "mysql-bin.000012:4711", NOW - 9_000, 4720, NOW - 2_000)},
)
FORM = {
    "name": "orders-to-topic",
    "description": "Changes of orders",
    "source": SOURCE,
    "group": f"{SOURCE}/{SOURCE}",
    "messages": "200",
    "interval": "0",
    "pattern": '{"data": {"tableName": ["orders"]}}',
    "transform": "",
    "topic": "order_changes",
    "body_method": "complete_data",
    "properties_method": "template",
    "properties_parameters": '{"table": "$.data.tableName"}',
    "properties_template": '{"sourceTable": "${table}"}',
    "key_method": "data_extraction",
    "key_path": "$.data.primaryKey.id",
    "tag_method": "fixed_value",
    "tag_value": "change",
    "retry": "backoff",
    "faults": "allowed",
    "dead_kind": "topic",
    "dead_letters": "order_changes_dead",
}


def page(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", part: bool = False, **query: str) -> str:
    headers = {"HX-Request": "true"} if part else {}
    response = cast.client(who).get(reverse(url_name, args=arguments), query, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def sent(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", **changes: str) -> Any:
    data = FORM | {"instance": cast.instance.instance_id} | changes
    return cast.client(who).post(reverse(url_name, args=arguments), data)


def running(cast: Cast, task: Pipeline) -> lifecycle.Lease:
    services.begin(actor=cast.actor("alice"), pipeline=task)
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    return lease


def test_the_wizard_makes_a_task_and_starts_it(cast: Cast, log: EventLog, topics: None) -> None:
    response = sent(cast, "inflow.create")
    assert response.status_code == 302, response.context["form"].errors
    assert response["Location"] == reverse("inflow.detail", args=["orders-to-topic"])
    task = reloaded(cast)
    assert task.state == State.STARTING
    assert services.document_of(task) == {
        "name": "orders-to-topic",
        "description": "Changes of orders",
        "source": {"task": SOURCE, "group": SOURCE, "messages": 200, "interval": 0},
        "pattern": {"data": {"tableName": ["orders"]}},
        "sink": {
            "topic": "order_changes",
            "instanceID": cast.instance.instance_id,
            "body": {"method": "complete_data"},
            "properties": {
                "method": "template",
                "parameters": {"table": "$.data.tableName"},
                "template": '{"sourceTable": "${table}"}',
            },
            "key": {"method": "data_extraction", "path": "$.data.primaryKey.id"},
            "tag": {"method": "fixed_value", "value": "change"},
        },
        "retry": "backoff",
        "faults": "allowed",
        "deadLetterTopic": "order_changes_dead",
    }


def test_a_form_of_a_task_makes_its_document_again(cast: Cast, log: EventLog, topics: None) -> None:
    sent(cast, "inflow.create")
    before = reloaded(cast)
    shown = cast.client("alice").get(reverse("inflow.update", args=["orders-to-topic"])).context["form"]
    data = {name: "" if value is None else str(value) for name, value in shown.initial.items()}
    response = cast.client("alice").post(reverse("inflow.update", args=["orders-to-topic"]), data)
    assert response.status_code == 302, response.context["form"].errors
    assert reloaded(cast).version_id == before.version_id and reloaded(cast).draft == before.draft


@pytest.mark.parametrize(
    ("changes", "field", "step"),
    [
        ({"name": "a b"}, "name", "source"),
        ({"source": ""}, "source", "source"),
        ({"group": ""}, "group", "source"),
        ({"messages": "0"}, "messages", "source"),
        ({"offset": "1999-01-01T00:00:00"}, "offset", None),
        ({"pattern": "{"}, "pattern", "filtering"),
        ({"transform": "expression", "expression": "a["}, "expression", "transformation"),
        ({"transform": "expression", "language": "jsonata", "expression": "{a: b}]"}, "expression", "transformation"),
        ({"transform": "expression", "language": "sql", "expression": "a"}, "language", "transformation"),
        ({"transform": "function", "url": "ftp://x"}, "url", "transformation"),
        ({"transform": "sql", "sql": "delete from events"}, "sql", "transformation"),
        ({"topic": "nowhere"}, "topic", "sink"),
        ({"body_method": "data_extraction", "body_path": "x"}, "body_path", "sink"),
        ({"properties_parameters": "["}, "properties_parameters", "sink"),
        ({"dead_letters": "order_changes"}, "dead_letters", "properties"),
    ],
)
def test_what_is_wrong_stands_at_its_field_in_the_step_that_is_open(  # noqa: PLR0917
    cast: Cast, log: EventLog, topics: None, changes: dict[str, str], field: str, step: str | None
) -> None:
    response = sent(cast, "inflow.create", **changes)
    if step is None:  # before the first event the task begins with that
        assert response.status_code in (302, 422)
        return
    assert response.status_code == 422
    form = response.context["form"]
    assert list(form.errors) == [field]
    assert f'value="{step}" checked' in response.content.decode()
    assert not Pipeline.objects.exists()


def test_a_missing_right_stands_above_the_form(cast: Cast, log: EventLog, topics: None) -> None:
    from tests.console.inflow.test_services import allow

    allow(cast, "nora", "dts:*", "dla:ReadBucket")
    response = sent(cast, "inflow.create", who="nora")
    assert response.status_code == 422
    assert "mq:PUB" in str(response.context["form"].non_field_errors())


def test_a_password_is_on_no_page(cast: Cast, log: EventLog, topics: None) -> None:
    response = sent(cast, "inflow.create", password="sEcReT-4", topic="nowhere")
    assert "sEcReT-4" not in response.content.decode()


def test_while_one_types_an_event_travels(cast: Cast, log: EventLog, topics: None) -> None:
    shown = sent(cast, "inflow.journey").content.decode()
    assert "The last event of the source" in shown and "shop.customers" in shown
    assert "filtered" in shown and "data.tableName" in shown  # the last event is of another table
    assert "sourceTable" in shown and "customers" in shown
    assert shown.count("bg-green-lt") == 1  # of the recent ones


def test_the_events_of_a_task_may_be_debeziums_records(cast: Cast, log: EventLog, topics: None) -> None:
    change: dict[str, Any] = {"operation": "DELETE", "databaseName": "shop", "schemaName": None, "tableName": "orders"}
    change |= {"primaryKey": {"id": 5}, "before": {"id": 5}, "after": None, "commitTime": 1, "position": "bin.000001:4"}
    given = {"envelope": "debezium", "key_method": "not_specified", "pattern": '{"op": ["d"]}'}
    given |= {"properties_parameters": '{"table": "$.source.table"}'}
    sample = json.dumps({"type": "dts:Change", "id": "e:1", "data": change})
    shown = sent(cast, "inflow.journey", **given, sample=sample).content.decode()
    assert "passes" in shown and "<dt>Key</dt><dd>{&quot;id&quot;:5}</dd>" in shown
    assert "&quot;op&quot;:&quot;d&quot;" in shown
    assert sent(cast, "inflow.create", **given).status_code == 302
    assert services.document_of(reloaded(cast))["source"]["envelope"] == "debezium"


def test_the_transform_is_shown_before_and_after(cast: Cast, log: EventLog, topics: None) -> None:
    given = {"transform": "expression", "expression": "{kind: type, data: data, gantrytopic: 'other'}", "pattern": ""}
    given["routes"] = "other, another"
    shown = sent(cast, "inflow.journey", **given, sample=json.dumps({"type": "t", "data": {"primaryKey": {"id": 5}}}))
    text = shown.content.decode()
    assert "1 event after it" in text and "Your sample event" in text
    assert "<dt>Topic</dt><dd>other</dd>" in text and "<dt>Key</dt><dd>5</dd>" in text


def test_a_query_is_saved_and_made_by_the_engine_alone(cast: Cast, log: EventLog, topics: None) -> None:
    given = {"transform": "sql", "sql": "select * from events where operation = 'INSERT'"}
    typed = sent(cast, "inflow.journey", **given).content.decode()
    assert "The query is made by the engine when you choose Try it" in typed
    assert sent(cast, "inflow.create", **given).status_code == 302
    assert json.loads(reloaded(cast).draft)["transform"] == {"kind": "sql", "sql": given["sql"]}


def test_an_expression_in_jsonata_is_saved_and_shown_as_such(cast: Cast, log: EventLog, topics: None) -> None:
    given = {"transform": "expression", "language": "jsonata", "expression": '$merge([$, {"gantrytopic": "other"}])'}
    sample = json.dumps({"type": "t", "data": {"primaryKey": {"id": 5}}})
    shown = sent(cast, "inflow.journey", **given, routes="other", pattern="", sample=sample).content.decode()
    assert "1 event after it" in shown and "<dt>Topic</dt><dd>other</dd>" in shown
    assert sent(cast, "inflow.create", **given).status_code == 302
    assert json.loads(reloaded(cast).draft)["transform"] == {"kind": "expression"} | {
        name: given[name] for name in ("language", "expression")
    }
    form = cast.client("alice").get(reverse("inflow.update", args=["orders-to-topic"])).context["form"]
    assert {name: form[name].value() for name in given} == given


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pattern": "{"}, "Event pattern"),
        ({"transform": "expression", "expression": "a["}, "cannot be read"),
        ({"sample": "["}, "A sample event is a JSON object"),
        ({"key_path": "x"}, "Message key, JSONPath"),
        ({"body_method": "data_extraction", "body_path": "$.nothing"}, "body"),
    ],
)
def test_what_is_wrong_is_told_while_one_types(
    cast: Cast, log: EventLog, topics: None, changes: dict[str, str], said: str
) -> None:
    response = sent(cast, "inflow.journey", **changes)
    assert response.status_code == 200
    assert said in response.content.decode()


def test_a_function_is_asked_only_when_that_is_chosen(cast: Cast, log: EventLog, topics: None) -> None:
    function = {"transform": "function", "url": "http://127.0.0.1:9/none"}
    assert "is asked when you choose Try it" in sent(cast, "inflow.journey", **function).content.decode()
    tried = sent(cast, "inflow.journey", **function, mode="try").content.decode()
    assert "Address of the function" in tried


def test_without_scripts_a_trial_is_the_page_again(cast: Cast, log: EventLog, topics: None) -> None:
    response = sent(cast, "inflow.create", mode="try")
    assert response.status_code == 200
    assert "What it leads to" in response.content.decode()
    assert not Pipeline.objects.exists()


def test_a_form_that_nobody_has_sent_shows_where_an_event_would_go(cast: Cast, topics: None) -> None:
    shown = page(cast, "inflow.create")
    assert "An example of an event" in shown and "There is no change tracking task" in shown


def test_the_list_shows_state_source_topic_delay_and_rates(cast: Cast, task: Pipeline) -> None:
    running(cast, task)
    samples.keep(task.pk, REPORT)
    shown = page(cast, "inflow.list")
    for text in ("orders-to-topic", "Running", SOURCE, "order_changes", ">12<", ">11<", "7 s"):
        assert text in shown, text
    assert "No task matches the search" in page(cast, "inflow.list", part=True, q="nothing")


def test_the_list_offers_what_a_visitor_may_do_with_each_task(cast: Cast, task: Pipeline) -> None:
    found = page(cast, "inflow.list")
    assert all(f'aria-label="{verb} orders-to-topic"' in found for verb in ("Enable", "Edit", "Delete"))
    assert "of 200 events, or after 0 s" in page(cast, "inflow.detail", "orders-to-topic")
    Pipeline.objects.update(state=State.RUNNING)
    found = page(cast, "inflow.list")
    assert 'aria-label="Pause orders-to-topic"' in found and 'aria-label="Enable' not in found
    from tests.console.inflow.test_services import allow

    allow(cast, "nora", "dts:QueryInflowTask")
    assert "orders-to-topic" in page(cast, "inflow.list", who="nora")
    assert 'aria-label="Pause' not in page(cast, "inflow.list", who="nora")


def test_the_list_costs_the_same_for_few_and_many(cast: Cast) -> None:
    counts = []
    page(cast, "inflow.list")  # what is asked once a session
    for number in range(20):
        pipelines.create(actor=cast.actor("alice"), name=f"task-{number}", kind=Kind.INFLOW, draft="{}")
        if number in (9, 19):
            with CaptureQueriesContext(connection) as asked:
                page(cast, "inflow.list")
            counts.append(len(asked))
    assert counts[0] == counts[1]


def test_an_account_without_tasks_is_told_what_they_are(cast: Cast) -> None:
    assert "No inflow task yet" in page(cast, "inflow.list")
    assert "Inflow tasks" in page(cast, "inflow.list")


def test_a_task_shows_its_figures_and_its_position_in_the_sources_words(cast: Cast, task: Pipeline) -> None:
    running(cast, task)
    samples.keep(task.pk, REPORT)
    shown = page(cast, "inflow.detail", "orders-to-topic")
    for text in ("mysql-bin.000012:4711", "4,711", "4,690", "Dead letters", "7 s", "Pause"):
        assert text in shown, text
    assert "Position" in page(cast, "inflow.live", "orders-to-topic", part=True)


def test_a_task_shows_what_it_waits_for_and_why_it_stopped(cast: Cast, task: Pipeline) -> None:
    lease = running(cast, task)
    waiting = Waiting("messages", "The topic order_changes cannot be written to.", 2, 4, NOW, NOW + 20_000)
    samples.keep(task.pk, Report(REPORT.inserts, waiting=(waiting,)))
    assert "order_changes cannot be written to" in page(cast, "inflow.detail", "orders-to-topic")
    lifecycle.fail(lease, "The event e1 failed.", for_good=True, halted=True)
    shown = page(cast, "inflow.detail", "orders-to-topic")
    assert "Ready" in shown and "The event e1 failed." in shown and "Enable" in shown


def test_curves_log_and_versions_have_pages(cast: Cast, task: Pipeline) -> None:
    key = f"gantry:pipelines:{task.pk}:"
    samples.forget(task.pk)
    samples.keep(task.pk, REPORT)
    samples._redis().delete(f"{key}step")
    samples.keep(task.pk, REPORT)
    assert "Events a second" in page(cast, "inflow.statistics", "orders-to-topic")
    assert [one.behind_ms for one in samples.counted(task.pk, 900)] == [7_000, 7_000]
    journal.write(cast.acme.uid, task.pk, "info", "It begins.")
    assert "It begins." in page(cast, "inflow.log", "orders-to-topic")
    assert "Version 1" in page(cast, "inflow.versions", "orders-to-topic")
    assert "order_changes" in page(cast, "inflow.version", "orders-to-topic", 1)


def test_a_task_is_enabled_paused_and_deleted_after_a_question(cast: Cast, task: Pipeline) -> None:
    alice = cast.client("alice")
    assert "orders-to-topic begins to deliver. It reads and writes with your rights." in page(
        cast, "inflow.enable", "orders-to-topic", part=True
    )
    assert alice.post(reverse("inflow.enable", args=["orders-to-topic"])).status_code == 302
    assert queries.state_of(reloaded(cast)) == "Starting"
    assert "what it has begun is delivered" in page(cast, "inflow.delete", "orders-to-topic")
    assert alice.post(reverse("inflow.pause", args=["orders-to-topic"])).status_code == 302
    assert queries.state_of(reloaded(cast)) == "Paused"
    assert "goes on where it stopped" in page(cast, "inflow.enable", "orders-to-topic", part=True)
    anew = reverse("inflow.enable", args=["orders-to-topic"]) + "?anew"
    assert f'hx-get="{anew}"' in page(cast, "inflow.detail", "orders-to-topic")
    asked = alice.get(anew, headers={"hx-request": "true"}).content.decode()
    assert "forgets where it stopped" in asked and f'hx-post="{anew}"' in asked
    assert alice.post(anew).status_code == 302
    assert reloaded(cast).start_from == StartFrom.NOTHING
    assert "inflow-anew" not in page(cast, "inflow.detail", "orders-to-topic")
    alice.post(reverse("inflow.pause", args=["orders-to-topic"]))
    again = alice.post(reverse("inflow.pause", args=["orders-to-topic"]))
    assert again.status_code == 422 and "does not run" in again.content.decode()
    assert (
        alice.post(reverse("inflow.delete", args=["orders-to-topic"]), {"name": "orders-to-topic"}).status_code == 302
    )
    assert not Pipeline.objects.exists()


def test_a_document_of_the_api_keeps_what_the_form_has_not(cast: Cast, task: Pipeline) -> None:
    told = document(cast, source={"log": f"oss://acme-logs/event-logs/{SOURCE}/"})
    services.change(actor=cast.actor("alice"), pipeline=task, document=told)
    form = cast.client("alice").get(reverse("inflow.update", args=["orders-to-topic"])).context["form"]
    data = {name: "" if value is None else str(value) for name, value in form.initial.items()}
    assert cast.client("alice").post(reverse("inflow.update", args=["orders-to-topic"]), data).status_code == 302
    assert services.document_of(reloaded(cast))["source"]["log"] == f"oss://acme-logs/event-logs/{SOURCE}/"


def test_a_task_that_waits_for_its_first_start_is_offered_to_who_may_start_it(
    cast: Cast, log: EventLog, topics: None
) -> None:
    services.create(
        actor=cast.actor("alice"), document=document(cast, description="Orders as they change"), start=False
    )
    from tests.console.inflow.test_services import allow

    allow(cast, "nora", "dts:QueryInflowTask")
    enable = reverse("inflow.enable", args=["orders-to-topic"])
    text = page(cast, "inflow.list")
    invitation = text[text.index("inflow-invitation") :]
    assert "has not been started yet" in invitation and "Orders as they change." in invitation and enable in invitation
    assert "deliver to" in invitation and ">order_changes</strong>" in invitation
    assert "has not been started yet" not in page(cast, "inflow.list", part=True)
    assert "has not been started yet" not in page(cast, "inflow.list", who="nora")
    assert "orders-to-topic begins to deliver. It reads and writes with your rights." in page(
        cast, "inflow.enable", "orders-to-topic"
    )
    assert page(cast, "inflow.detail", "orders-to-topic").count("Not started") >= 1
    services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert "has not been started yet" not in page(cast, "inflow.list")


def test_what_a_refused_form_leads_to_is_made_of_what_was_typed(cast: Cast, log: EventLog, topics: None) -> None:
    wrong = "$.id"
    refused = sent(cast, "inflow.create", transform="expression", language="jmespath", expression=wrong)
    assert refused.status_code == 422
    content = refused.content.decode()
    assert content.count("The expression cannot be read") == 2  # at its field, and beside the form
    assert "a text is needed" not in content


def test_the_page_of_a_task_tells_its_pattern_and_its_transform(cast: Cast, log: EventLog, topics: None) -> None:
    told = {"kind": "expression", "language": "jmespath", "expression": "merge(@, {data: data.after})"}
    services.create(actor=cast.actor("alice"), document=document(cast, transform=told), start=False)
    shown = page(cast, "inflow.detail", "orders-to-topic")
    assert "&quot;tableName&quot;: [" in shown
    assert "merge(@, {data: data.after})" in shown
    assert "JMESPath" in shown
