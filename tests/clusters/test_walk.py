"""One walk through the console on each version: what is there, made, sent, found, received, moved and deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.urls import reverse

from analytics import engine
from analytics.pipelines import producers
from analytics.sources import mq
from analytics.specs import Column, TableSpec
from brokercore.client import Admin, ConsumeResult, Message, MessageView, Producer, PushConsumer
from brokercore.client.errors import GroupNotExist, TopicNotExist
from console.adoption import services as adoption
from console.adoption import worker
from console.adoption.models import Kind
from console.adoption.unowned import unowned
from console.alarms import conditions
from console.alarms.models import Condition, Rule
from console.alarms.readings import Readings
from console.drift import sweep
from console.instances.models import Cluster
from console.messaging import queries, services, status
from console.messaging.queries import Source
from console.metrics import sampler
from console.metrics.store import Store
from console.overview import queries as overview
from console.topics import live
from console.topics import services as topics
from console.topics.models import OrderType, Topic
from console.web.errors import Refused
from tests.analytics.conftest import demo_tables, result_text, spark, specification
from tests.analytics.sources.conftest import COLUMNS
from tests.console.openapi.matrix import MATRIX as OPERATIONS
from tests.console.openapi.matrix import SIGNS
from tests.console.openapi.stage import Stage
from tests.console.web.test_every_page import test_every_page_opens_for_who_may_see_it
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic, on_broker

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.database]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["demo_tables", "spark", "test_every_page_opens_for_who_may_see_it"]


def _now() -> int:
    return int(time.time() * 1000)


def has_route(admin: Admin, topic: Topic) -> bool:
    """Whether clients can use the topic: brokers tell the name server a moment after they made it."""
    try:
        return set(admin.routes.masters(topic.physical_name)) == set(admin.brokers.masters())
    except TopicNotExist:
        return False


def test_names_are_made_read_and_deleted(cast: Cast, cluster: Cluster, admin: Admin) -> None:
    topic = make_topic(cast.alice, cast.instance)
    ordered = make_topic(cast.alice, cast.instance, "ordered", OrderType.PARTITIONALLY_ORDERED)
    group = make_group(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic) and has_route(admin, ordered), 30)
    assert admin.topics.config(topic.physical_name).topic == topic.physical_name
    assert admin.groups.config(group.physical_name).group == group.physical_name
    with pytest.raises(TopicNotExist):
        admin.topics.config("nobody-made-it")
    with pytest.raises(GroupNotExist):
        admin.groups.config("GID_nobody_made_it")
    topics.set_group_reading(actor=cast.actor("alice"), group=group, enabled=False)
    assert not admin.groups.config(group.physical_name).consume_enable
    assert topic.physical_name in admin.topics.stats_of([topic.physical_name])
    sweep.sweep(cluster)
    assert sweep.last(cluster, cast.acme).differences == []  # type: ignore[union-attr]
    topics.delete_topic(actor=cast.actor("alice"), topic=ordered)
    topics.delete_group(actor=cast.actor("alice"), group=group)
    assert not {ordered.physical_name, group.physical_name} & on_broker(cluster)


def test_messages_are_sent_found_and_received_and_their_group_is_moved(
    cast: Cast, cluster: Cluster, admin: Admin, apache: ApacheRocketMQ
) -> None:
    actor = cast.actor("alice")
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    begin = _now() - 60_000
    sent = [
        services.publish_test_message(actor, topic, body=f"{number}".encode(), tag="red", key="bill-7")
        for number in range(6)
    ]
    source = Source.of_topic(topic)
    eventually(lambda: len(queries.find_by_key(source, "bill-7")) == 6, 20)
    (found,) = eventually(lambda: queries.find_by_id(source, sent[0].message_id), 20)
    assert (found.body, found.offset_message_id) == (b"0", sent[0].offset_message_id)
    assert [one.body for one in queries.find_by_id(source, sent[1].offset_message_id)] == [b"1"]
    page = queries.search_by_time(actor, source, begin, _now() + 1000)
    assert {message.body for message in page.messages} == {f"{number}".encode() for number in range(6)}

    received: list[MessageView] = []
    with PushConsumer(
        apache.namesrv, apache.credentials(), group.physical_name, consume_from="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:

        @consumer.on_message
        def take(message: MessageView) -> ConsumeResult:
            received.append(message)
            return ConsumeResult.SUCCESS

        consumer.subscribe(topic.physical_name).start()
        eventually(lambda: len(received) == 6, 60)
        online = eventually(lambda: status.clients_of(group), 20)
        diagnosis = status.diagnose(group)
        eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == 0, 20)
        stats = admin.topics.stats(topic.physical_name)
        place = max(stats, key=lambda queue: stats[queue].max_offset - stats[queue].min_offset)
        held, name = stats[place].max_offset - stats[place].min_offset, f"{place.broker_name}:{place.queue_id}"
        with pytest.raises(Refused, match="moves one queue only while no consumer of the group is online"):
            services.reset_offset(actor, group, topic, "begin", name)
    assert [connection.language for connection in online.connections] == ["PYTHON"]
    assert len(diagnosis.clients) == 1
    eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == 0, 20)
    assert topic.physical_name in admin.groups.topics(group.physical_name)
    assert group.physical_name in admin.topics.groups(topic.physical_name)
    assert live.delivery(group).ordered == []

    # It is offline now.
    eventually(lambda: status.clients_of(group) is None, 30)
    assert services.preview_reset(group, topic, begin).repeated == 6
    services.reset_offset(actor, group, topic, begin)
    eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == 6, 10)
    services.reset_offset(actor, group, topic, "end")
    eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == 0, 10)
    assert status.group_status(group).topics

    # One queue alone: the others stay where they are, and what comes again is that queue's alone.
    (move,) = services.preview_reset(group, topic, begin, name).moves
    assert (move.current, move.target) == (stats[place].max_offset, stats[place].min_offset)
    assert services.reset_offset(actor, group, topic, begin, name) == {name: stats[place].min_offset}
    eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == held, 10)
    ends = {queue: found.max_offset for queue, found in stats.items() if queue != place and found.max_offset}
    assert {queue: admin.offsets.committed(group.physical_name, queue) for queue in ends} == ends
    again: list[MessageView] = []
    with PushConsumer(apache.namesrv, apache.credentials(), group.physical_name) as consumer:

        @consumer.on_message
        def take_again(message: MessageView) -> ConsumeResult:
            again.append(message)
            return ConsumeResult.SUCCESS

        consumer.subscribe(topic.physical_name).start()
        eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == 0, 60)
        assert {one.queue for one in again} == {place}
        assert len(again) == held


def test_the_age_of_what_waits_is_told_though_it_came_before_the_console(
    cast: Cast, cluster: Cluster, admin: Admin
) -> None:
    actor = cast.actor("alice")
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    began, begin = time.monotonic(), _now() - 60_000
    for number in range(3):
        services.publish_test_message(actor, topic, body=f"{number}".encode(), tag="red")
    eventually(lambda: sum(one.max_offset for one in admin.topics.stats(topic.physical_name).values()) == 3, 20)
    services.reset_offset(actor, group, topic, begin)
    eventually(lambda: _lag(admin, group.physical_name, topic.physical_name) == 3, 10)
    Store(cluster.name).forget()
    for _number in range(2):  # the second one has counted since the first one
        assert eventually(lambda: sampler.sample_cluster(cluster), 20)
    (found,) = overview.groups_by_backlog(actor).behind
    assert found.delay_s is not None
    assert (found.backlog, 0 < found.delay_s <= time.monotonic() - began + 5) == (3, True)
    page = cast.client("alice").get(reverse("instances.overview_attention")).content.decode()
    assert "the oldest waits" in page and "more than an hour" not in page
    # Nor is it said by an alarm.
    rule = Rule(tenant=cast.acme, instance=cast.instance, condition=Condition.DELAY, threshold=600)
    assert conditions.findings(rule, Readings()) == []


def _lag(admin: Admin, group: str, topic: str) -> int:
    rows = admin.groups.stats(group, topic).queues
    return sum(row.broker_offset - row.consumer_offset for queue, row in rows.items() if queue.topic == topic)


def test_a_dead_letter_is_found_and_sent_again(cast: Cast, admin: Admin, apache: ApacheRocketMQ) -> None:
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    seen: list[bytes] = []
    with (
        PushConsumer(
            apache.namesrv,
            apache.credentials(),
            group.physical_name,
            max_reconsume_times=0,
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        ) as consumer,
        Producer(apache.namesrv, apache.credentials(), "GID_sender") as producer,
    ):

        @consumer.on_message
        def fail(message: MessageView) -> ConsumeResult:
            seen.append(message.body)
            return ConsumeResult.RECONSUME_LATER if len(seen) == 1 else ConsumeResult.SUCCESS

        consumer.subscribe(topic.physical_name).start()
        producer.send(Message(topic.physical_name, b"lost"))
        dead = Source.of_dead_letters(group)
        actor = cast.actor("alice")

        def letters() -> Any:
            try:
                return queries.search_by_time(actor, dead, 0, _now() + 1000).messages
            except TopicNotExist:
                return []

        (letter,) = eventually(letters, 60)
        assert letter.body == b"lost"
        (result,) = services.resend_dead_letters(actor, group, [letter.offset_message_id])
        assert result.error == ""
        eventually(lambda: len(seen) == 2, 60)


def test_a_statement_reads_the_messages_of_a_topic(
    cast: Cast, admin: Admin, apache: ApacheRocketMQ, spark: SparkSession, demo_tables: list[TableSpec]
) -> None:
    topic = make_topic(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    source = Source.of_topic(topic)
    for number in range(4):
        services.publish_test_message(cast.actor("alice"), topic, body=f"{number}".encode(), key="sql")
    eventually(lambda: len(queries.find_by_key(source, "sql")) == 4, 20)
    where = {
        "namesrv": apache.namesrv,
        "topic": topic.physical_name,
        "accessKeyId": apache.admin_key,
        "accessKeySecret": apache.admin_secret,
    }
    table = TableSpec(
        topic.physical_name, "", "mq", tuple(Column(*column) for column in COLUMNS), options=tuple(where.items())
    )
    spec = specification(
        f"select count(*) c, max(body) m from mq.`{topic.physical_name}` where array_contains(keys, 'sql')",
        {"demo": demo_tables},
        lookup=lambda schema, name: table if (schema, name) == ("mq", topic.physical_name) else None,
    )
    engine.run_query(spec)
    assert result_text(spec).split() == ["c,m", "4,3"]


@pytest.mark.of_kind(access="open")
def test_a_pipeline_sends_and_reads_without_a_key(cast: Cast, admin: Admin, apache: ApacheRocketMQ) -> None:
    topic = make_topic(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    address = producers.Address(apache.namesrv, "", "", "GID_pipeline")
    address.producer().send(Message(topic.physical_name, b"unsigned"))
    reader = mq.fix({"namesrv": apache.namesrv, "topic": topic.physical_name})
    assert sum(reach.end - reach.begin for reach in reader.reach) == 1


def test_what_was_there_before_is_adopted_as_it_is(cast: Cast, cluster: Cluster, admin: Admin) -> None:
    before = {"walk|100%_odd", "walk-payments"}
    for name in before:
        admin.topics.create(name, queues=2)
    admin.groups.create("walk-service", retry_max_times=3)
    wanted = {*before, "walk-service"}
    eventually(lambda: wanted <= {one.name for one in unowned(cluster)}, 20)
    there = on_broker(cluster)
    actor = cast.actor("alice")
    instance = adoption.instance_for(actor=actor, tenant=cast.acme, cluster=cluster)
    run = adoption.adopt(actor=actor, instance=instance, names=[one for one in unowned(cluster) if one.name in wanted])
    worker.work(run.pk)
    assert set(instance.topics.values_list("name", flat=True)) == before
    assert instance.groups.get().retry_max_times == 3
    assert on_broker(cluster) == there
    assert not wanted & {one.name for one in unowned(cluster)}
    sweep.sweep(cluster)
    assert sweep.last(cluster, cast.acme).differences == []  # type: ignore[union-attr]
    client = cast.client("petra")
    for kind, name in ((Kind.TOPIC, "walk-payments"), (Kind.GROUP, "walk-service")):
        assert client.get(f"/platform/adoption/{cluster.pk}/{kind}/{name}/").status_code in (200, 404)
    for name in before:
        admin.topics.delete(name)
    admin.groups.delete("walk-service")


def test_every_operation_of_the_api_answers_as_on_the_embedded_broker(stage: Stage, admin: Admin) -> None:
    eventually(lambda: f"{stage.instance_id}%orders" in admin.topics.names(), 30)
    alice, signs = stage.caller("alice"), {symbol: sign for sign, symbol in SIGNS.items()}
    answers = {}
    for path, row in OPERATIONS.items():
        with transaction.atomic():
            status = alice.symbol(path, **stage.valid(path))
            transaction.set_rollback(True)
        if signs.get(status, ".") != row.split()[-1]:
            answers[path] = status
    assert answers == {}
