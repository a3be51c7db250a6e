"""A query over each batch on Spark, behind its wall: what it makes of events, and what of it is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics import lake
from analytics.errors import AnalyticsError, PipelineEnded, PipelineFailed, PipelineRefused, QueryRefused
from analytics.inflow.delivery import REASON
from analytics.pipelines import query_trial, runner
from analytics.pipelines.runner import Pipeline
from analytics.specs import Column, TableSpec
from tests.inflow.tasks import Log, change, counted, delivered_to, document, ended, in_order, ordered_topic, started
from tests.pipelines.jobs import Ground

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

CUSTOMERS = "oss://alice-lake/inflow-sql/customers/"
TABLES = {"shop": [TableSpec("customers", CUSTOMERS, "csv", (Column("id", "int"), Column("name", "string")))]}
WHOLE = {"body": {"method": "complete_data"}}


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with log.writer:
        yield log


@pytest.fixture(scope="module", autouse=True)
def customers() -> None:
    folder = Path(lake.lake_path(CUSTOMERS))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.csv").write_text("1,Ann\n2,Bob\n")


def query(ground: Ground, log: Log, topic: str, sql: str, **more: Any) -> Pipeline:
    sink = WHOLE | more.pop("sink", {})
    told = document(ground, log, topic, transform={"kind": "sql", "sql": sql}, sink=sink, **more)
    return started(ground, told, tables=TABLES)


def events(ground: Ground, topic: str) -> list[dict[str, Any]]:
    return [json.loads(message.decoded_body()) for message in ground.messages(topic)]


def test_a_query_maps_enriches_splits_and_routes(ground: Ground, topic: str, log: Log) -> None:
    other = ground.new_topic()
    log.add(1, 2, 3, lines=[{"sku": "a"}, {"sku": "b"}], big=2**63 - 1, price="12.50")
    log.add(4, table="items")
    sql = f"""
        select e.id || '/' || line.pos as id, 'shop.line' as type, c.name, line.value:sku::string as sku,
               data:big::bigint as big, data:price::decimal(10,2) as price, e.before is null as `new`,
               if(line.pos = 1, '{other}', null) as gantrytopic
        from events e left join shop.customers c on c.id = e.after:n::int, lateral variant_explode(data:lines) line
        where tableName = 'orders'
    """
    pipeline = query(ground, log, topic, sql, sink={"routes": [other]})
    delivered_to(pipeline, 4)
    log.add(5, lines=[])
    delivered_to(pipeline, 5)
    assert counted(pipeline) == {"eventsRead": 5, "eventsTransformed": 6, "messagesDelivered": 6}
    pipeline.stop()
    assert pipeline.report().inserts[0].rows_in == 5
    found = {one["id"]: one for one in [*events(ground, topic), *events(ground, other)]}
    assert sorted(found) == [f"e{number}/{place}" for number in (1, 2, 3) for place in (0, 1)]
    kept = {name: json.loads(change(2))[name] for name in ("specversion", "source", "subject")}
    data = {"name": "Bob", "sku": "b", "big": 2**63 - 1, "price": "12.50", "new": True}
    assert found["e2/1"] == kept | {"id": "e2/1", "type": "shop.line", "data": data}
    assert found["e3/0"]["data"]["name"] is None
    assert {one["data"]["sku"] for one in events(ground, other)} == {"b"}


SAMPLES = [json.loads(change(number, price=f"{number}.5", lines=[{"sku": "a"}, {"sku": "b"}])) for number in (1, 2)]


def tried_on_samples(sql: str, **more: Any) -> list[dict[str, Any]]:
    return query_trial.tried(query_trial.Trial("alice", sql, TABLES, **more), SAMPLES).events


def test_a_query_is_tried_over_sample_events_as_it_would_be_made_of_a_batch() -> None:
    sql = """
        select e.id || '/' || line.pos as id, c.name, line.value:sku::string as sku, 'other' as gantrytopic
        from events e left join shop.customers c on c.id = e.after:n::int, lateral variant_explode(data:lines) line
    """
    done = query_trial.tried(query_trial.Trial("alice", sql, TABLES), SAMPLES)
    assert Counter(done.origins) == {0: 2, 1: 2} and done.failed == {}
    found = {one["id"]: one for one in done.events}
    assert found["e2/1"] == SAMPLES[1] | {"id": "e2/1", "gantrytopic": "other", "data": {"name": "Bob", "sku": "b"}}
    assert tried_on_samples("select * from events where operation = 'NOTHING'") == []


def test_a_query_that_is_tried_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, asked = runner.Names.judged, list[str]()

    def counted(names: runner.Names, sql: str, line: int) -> Any:
        asked.append(sql)
        return judged(names, sql, line)

    monkeypatch.setattr(runner.Names, "judged", counted)
    assert len(tried_on_samples("select id from events")) == 2
    assert asked == ["select id from events"]


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("select count(*) from events", "An event's rows may not depend on other events"),
        ("select data:lines::int as n from events", "cannot be cast"),
        ("select * from events, secrets.keys", "There is no schema secrets"),
        ("select nothing from events", "nothing"),
    ],
)
def test_what_is_wrong_with_a_query_that_is_tried_is_told(sql: str, sentence: str) -> None:
    with pytest.raises(AnalyticsError) as failed:
        tried_on_samples(sql)
    assert sentence in failed.value.user_message


def test_a_query_that_is_tried_ends_at_its_limit() -> None:
    sql = "with many as (select count(*) as n from range(0, 1000000000000)) select e.id, many.n from events e, many"
    with pytest.raises(PipelineFailed, match=r"^The query takes longer than 2 s\.$"):
        tried_on_samples(sql, time_limit_s=2.0)
    assert len(tried_on_samples("select id from events")) == 2


def test_events_at_which_a_query_fails_are_dead_letters_and_the_others_go_on(
    ground: Ground, topic: str, log: Log
) -> None:
    dead = ground.new_topic()
    log.add(*range(1, 40), price="1.5")
    log.add(40, price="none")
    log.add(41, price="2.5", table="items")
    log.add(42, price="nothing")
    log.add(43, price="also nothing", table="items")
    sql = "select data:price::decimal(5,1) as price, event:data.after.n as n from events"
    pattern = {"data": {"tableName": ["orders"]}}
    pipeline = query(ground, log, topic, sql, pattern=pattern, deadLetterTopic=dead)
    delivered_to(pipeline, 43)
    assert counted(pipeline) == {
        "eventsRead": 43, "eventsFiltered": 2, "eventsTransformed": 39, "messagesDelivered": 39,
        "eventsFailed": 2, "deadLetters": 2,
    }  # fmt: skip
    pipeline.stop()
    assert sorted(one["data"]["n"] for one in events(ground, topic)) == list(range(1, 40))
    letters = {json.loads(one.decoded_body())["id"]: one.properties[REASON] for one in ground.messages(dead)}
    assert sorted(letters) == ["e40", "e42"]
    assert 'The query fails: The variant value `"none"` cannot be cast' in letters["e40"]


def test_without_faults_the_task_stops_at_the_event_at_which_the_query_fails(
    ground: Ground, topic: str, log: Log
) -> None:
    log.add(1, price="1")
    log.add(2, price="x")
    pipeline = query(ground, log, topic, "select data:price::int as price from events", faults="prohibited")
    failure = ended(pipeline)
    assert isinstance(failure, PipelineEnded) and not failure.is_misset
    assert 'The variant value `"x"` cannot be cast' in failure.user_message
    assert events(ground, topic) == []


def test_changes_of_one_row_keep_their_order_behind_a_join(ground: Ground, topic: str, log: Log) -> None:
    fifo = ordered_topic(ground, f"{topic}-fifo")
    sql = "select event from events e left join shop.customers c on c.id = e.after:n::int % 3"
    sink = {"ordered": True, "body": {"method": "data_extraction", "path": "$.data.after.n"}}
    log.add(*range(100))
    pipeline = query(ground, log, fifo, sql, sink=sink, source={"messages": 20})
    delivered_to(pipeline, 100)
    pipeline.stop()
    rows = list(in_order(ground, fifo))
    assert len(rows) == 5
    assert all(row == sorted(row) and len(row) == 20 for row in rows)


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("select count(*) as n from events", "may not depend on other events"),
        ("select tableName, count(*) as n from events group by 1", "may not depend on other events"),
        ("select distinct id from events", "may not depend on other events"),
        ("select id from events limit 3", "may not depend on other events"),
        ("select id, row_number() over (order by id) as n from events", "may not depend on other events"),
        ("select a.id from events a join events b on a.id = b.id", "may not depend on other events"),
        ("select id from events where id in (select id from events)", "may not depend on other events"),
        ("select c.name from shop.customers c left join events e on true", "may not depend on other events"),
        ("select id, event, 1 as n from events", "has the event and n"),
        ("select tableName, TABLENAME from events", "have the same name"),
        ("select nothing from events", "nothing"),
        ("select id from events join shop.secrets using (id)", "no table shop.secrets"),
        ("select id from events join oss.t using (id)", "no schema oss"),
        ("select java_method('java.lang.System', 'exit') from events", "java_method"),
    ],
)
def test_what_no_batch_can_be_given_is_refused_at_the_start(
    ground: Ground, topic: str, log: Log, sql: str, sentence: str
) -> None:
    with pytest.raises((PipelineRefused, QueryRefused), match=sentence):
        query(ground, log, topic, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from events",
        "with c as (select id, max(name) as name from shop.customers group by id)"
        " select e.id, c.name from events e left join c on c.id = e.after:n::int",
        "select id, 'a' as part from events union all select id, 'b' as part from events order by part",
        "select id from (select * from events where operation = 'UPDATE') changed",
    ],
)
def test_what_sees_one_event_at_a_time_is_let_through(ground: Ground, topic: str, log: Log, sql: str) -> None:
    log.add(1)
    pipeline = query(ground, log, topic, sql)
    delivered_to(pipeline, 1)
    pipeline.stop()
    assert {one["id"] for one in events(ground, topic)} == {"e1"}
