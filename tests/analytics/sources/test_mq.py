"""Topics as tables: what a column holds, what is read and what is not."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from analytics import engine
from analytics.errors import QueryCancelled, QueryFailed
from analytics.sources import mq
from analytics.specs import TableSpec
from brokercore.client import Admin, Message, Producer, TransactionState
from brokercore.client.session import Call, Session
from tests.analytics.conftest import specification
from tests.analytics.sources.conftest import COLUMNS, Rows, asked, new_topic, send, send_batches, table_of
from tests.support.broker import BrokerProcess, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ask = Callable[..., Rows]


def test_every_column_holds_what_was_sent(ask: Ask, producer: Producer, topic: str, broker: BrokerProcess) -> None:
    before = datetime.now(UTC)
    sent = producer.send(Message(topic, b'{"sum": 7}', tags="paid", keys="k-1 k-2", properties={"colour": "red"}))
    (row,) = ask(f"select * from mq.`{topic}`")
    assert list(row) == [name for name, _ in COLUMNS]
    assert row["message_id"] == sent.message_id
    assert row["offset_message_id"] == sent.offset_message_id
    assert (row["broker"], row["queue"]) == (sent.queue.broker_name, str(sent.queue.queue_id))
    assert row["offset"] == str(sent.queue_offset)
    assert json.loads(row["keys"]) == ["k-1", "k-2"]
    assert row["tag"] == "paid"
    assert json.loads(row["properties"])["colour"] == "red"
    assert row["body"] == '{"sum": 7}'
    assert row["reconsume_times"] == "0"
    assert row["born_host"].startswith("127.0.0.1:")
    for name in ("born_time", "store_time"):
        at = datetime.fromisoformat(row[name]).replace(tzinfo=UTC)
        assert abs((at - before).total_seconds()) < 60


def test_names_with_percent_and_hyphen_qualify_columns(ask: Ask, producer: Producer, topic: str) -> None:
    send(producer, topic, "a")
    rows = ask(
        f"with mine as (select `{topic}`.body, mq.`{topic}`.offset from mq.`{topic}`)"
        f" select mine.body, (select count(*) from mq.`{topic}` as c where c.body = mine.body) as n from mine"
    )
    assert rows == [{"body": "a", "n": "1"}]


def test_bodies_are_texts_when_they_are_and_bytes_always(ask: Ask, producer: Producer, topic: str) -> None:
    send(producer, topic, b"\xff\xfe", "grüße 🚀")
    rows = ask(f"select body, hex(body_binary) as bytes from mq.`{topic}` order by body")
    assert rows == [{"body": "", "bytes": "FFFE"}, {"body": "grüße 🚀", "bytes": "grüße 🚀".encode().hex().upper()}]


def test_keys_and_tags_may_be_emoji_and_may_be_missing(ask: Ask, producer: Producer, topic: str) -> None:
    send(producer, topic, "a", keys="🚀 b", tags="日本")
    send(producer, topic, "b")
    rows = ask(f"select body, keys[0] as first, size(keys) as n, tag from mq.`{topic}` order by body")
    assert rows == [
        {"body": "a", "first": "🚀", "n": "2", "tag": "日本"},
        {"body": "b", "first": "", "n": "", "tag": ""},
    ]


def test_compressed_bodies_are_unpacked(ask: Ask, producer: Producer, topic: str) -> None:
    send(producer, topic, "x" * 100_000)
    assert ask(f"select length(body) as n from mq.`{topic}`") == [{"n": "100000"}]


def test_a_body_that_its_producer_packed_stays_as_it_is(ask: Ask, producer: Producer, topic: str) -> None:
    packed = gzip.compress(b"hello")
    send(producer, topic, packed)
    assert ask(f"select body, hex(body_binary) as b from mq.`{topic}`") == [{"body": "", "b": packed.hex().upper()}]


def test_messages_of_a_batch_are_rows_of_their_own(ask: Ask, admin: Admin, topic: str) -> None:
    send_batches(admin, topic, 0, [b"m%d" % number for number in range(3)])
    rows = ask(f"select offset, body from mq.`{topic}` order by offset")
    assert rows == [{"offset": str(number), "body": f"m{number}"} for number in range(3)]


def test_half_messages_are_not_seen(ask: Ask, admin: Admin, producer: Producer) -> None:
    topic = new_topic(admin, message_type="TRANSACTION")
    producer.send_transaction(Message(topic, b"committed"), lambda *_: TransactionState.COMMIT)
    producer.send_transaction(Message(topic, b"rolled back"), lambda *_: TransactionState.ROLLBACK)
    eventually(lambda: ask(f"select body from mq.`{topic}`") == [{"body": "committed"}], 20)


def test_an_empty_topic_has_no_rows(ask: Ask, topic: str) -> None:
    assert ask(f"select count(*) as n from mq.`{topic}`") == [{"n": "0"}]
    assert ask(f"select * from mq.`{topic}`") == []


def test_a_dead_letter_topic_that_does_not_exist_yet_is_empty(ask: Ask) -> None:
    assert ask("select count(*) as n from mq.`%DLQ%GID_never`") == [{"n": "0"}]


def test_json_bodies_join_the_tables_of_the_lake(ask: Ask, producer: Producer, topic: str) -> None:
    send(producer, topic, '{"carrier": "AA", "sum": 3}', '{"carrier": "AA", "sum": 4}')
    rows = ask(
        f"""select a.name, sum(get_json_object(m.body, '$.sum')) as total, max(from_json(m.body, 'sum int').sum) as most
            from mq.`{topic}` m join demo.airlines a on a.carrier = get_json_object(m.body, '$.carrier')
            group by a.name"""
    )
    assert rows == [{"name": "American Airlines Inc.", "total": "7.0", "most": "4"}]


def test_fifty_thousand_messages_arrive_once_each(ask: Ask, admin: Admin, topic: str) -> None:
    for queue in range(2):
        send_batches(admin, topic, queue, [b"%d-%d" % (queue, number) for number in range(25_000)])
    rows = ask(
        f"select queue, count(*) as n, count(distinct body) as bodies, min(offset) as first, max(offset) as last"
        f" from mq.`{topic}` group by queue order by queue"
    )
    expected = {"n": "25000", "bodies": "25000", "first": "0", "last": "24999"}
    assert rows == [{"queue": "0"} | expected, {"queue": "1"} | expected]


def test_scanned_rows_are_the_messages_read(
    spark: SparkSession, admin: Admin, topic: str, broker: BrokerProcess
) -> None:
    send_batches(admin, topic, 0, [b"%d" % number for number in range(1_000)])
    send_batches(admin, topic, 1, [b"%d" % number for number in range(1_000)])

    def scanned(where: str) -> int:
        return engine.run_query(asked(broker, f"select body from mq.`{topic}` where {where}", [])).scanned_row_count

    assert scanned("body like '%9%'") == 2_000
    assert scanned("queue = 1") == 1_000
    assert scanned("queue in (1, 7) and offset between 100 and 149") == 50
    assert scanned("offset = 5") == 2
    assert scanned("offset < 5 and broker = 'no-such'") == 0


def test_store_time_narrows_what_is_read(
    spark: SparkSession, admin: Admin, topic: str, broker: BrokerProcess, ask: Ask
) -> None:
    send_batches(admin, topic, 0, [b"old"] * 500)
    newest = admin.topics.stats(topic)
    last_ms = max(stats.last_update_ms for stats in newest.values())
    eventually(lambda: int(time.time() * 1000) > last_ms + 5)
    send_batches(admin, topic, 0, [b"new"] * 20)
    moment = datetime.fromtimestamp((last_ms + 2) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    for condition, body, count in ((">=", "new", 20), ("<", "old", 500)):
        sql = f"select body from mq.`{topic}` where store_time {condition} timestamp'{moment}'"
        spec = asked(broker, sql, [])
        result = engine.run_query(spec)
        assert (result.row_count, result.scanned_row_count) == (count, count)
        assert {row["body"] for row in ask(sql)} == {body}
    assert ask(f"select count(*) as n from mq.`{topic}` where store_time > timestamp'2999-01-01'") == [{"n": "0"}]


def test_both_sides_of_a_join_see_the_same_messages(admin: Admin, broker: BrokerProcess, topic: str) -> None:
    """The reach is noted once: what arrives between two readings of a statement is in neither."""
    send_batches(admin, topic, 0, [b"a"] * 10)
    fixed = mq.fix(dict(table_of(broker, topic).options))
    send_batches(admin, topic, 0, [b"b"] * 10)
    for _ in range(2):
        reader = mq.MqReader(fixed)
        assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 10


def test_long_queues_are_cut_and_short_ones_joined() -> None:
    reach = [mq.Reach("a", 0, 0, 120_000), mq.Reach("a", 1, 5, 10), mq.Reach("a", 2, 7, 7)]
    assert [part.value for part in mq.plan(reach)] == [
        [("a", 0, 0, 50_000)],
        [("a", 0, 50_000, 100_000)],
        [("a", 0, 100_000, 120_000), ("a", 1, 5, 10)],
    ]


def test_no_plan_result_or_error_shows_the_key(
    spark: SparkSession, broker: BrokerProcess, topic: str, capfd: pytest.CaptureFixture[str], producer: Producer
) -> None:
    from analytics.sql.backend import Backend

    send(producer, topic, "a")
    spec = asked(broker, f"select * from mq.`{topic}`", [])
    assert broker.access_key_secret not in repr(spec) + repr(table_of(broker, topic))
    backend = Backend()
    with backend.statement("alice", spec.task_id):
        frame = backend.prepare(spec)
        frame.collect()
        texts = [backend.explained(frame, mode) for mode in ("extended", "formatted", "cost", "codegen")]
        catalog = frame.sparkSession._jsparkSession.sharedState().externalCatalog()
        texts.append(str(catalog.getTable("mq", topic.lower()).toString()))
    with pytest.raises(QueryFailed) as failure:
        engine.run_query(asked(broker, f"select assert_true(false), body from mq.`{topic}`", []))
    texts.append(failure.value.user_message)
    captured = capfd.readouterr()
    texts += [captured.out, captured.err]
    assert not [text for text in texts if broker.access_key_secret in text or broker.access_key_id in text]


def test_python_workers_see_none_of_our_settings(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, broker: BrokerProcess, topic: str
) -> None:
    """A worker runs as we do, so what must not be read must not be there."""

    def names(_: object) -> list[str]:
        return list(os.environ)

    seen = spark.sparkContext.parallelize([0], 1).flatMap(names).collect()
    assert not [name for name in seen if name.startswith(("GANTRY_", "REDIS_URL", "DATABASE_URL", "DJANGO_"))]


def test_an_outage_is_told_in_one_sentence(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    def lookup(schema: str, name: str) -> TableSpec:
        return table_of(broker, topic, name, namesrv="127.0.0.1:21799")

    with pytest.raises(QueryFailed) as failure:
        engine.run_query(specification("select * from mq.orders", {}, schema="mq", lookup=lookup))
    assert failure.value.condition == "MESSAGES_UNREADABLE"
    assert "cannot be asked" in failure.value.user_message
    assert "Traceback" not in failure.value.user_message


def test_an_outage_while_it_reads_is_no_shorter_result(
    spark: SparkSession, broker: BrokerProcess, topic: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_batches(admin, topic, 0, [b"a"] * 10)
    fixed = mq.fix(dict(table_of(broker, topic).options))
    gone = mq.Topic("127.0.0.1:21799", fixed.name, fixed.key_id, fixed.secret, fixed.reach)
    monkeypatch.setattr(mq, "fix", lambda options: gone)
    with pytest.raises(QueryFailed, match="cannot be read") as failure:
        engine.run_query(asked(broker, f"select * from mq.`{topic}`", []))
    assert failure.value.condition == "MESSAGES_UNREADABLE"


def test_a_cancelled_statement_leaves_the_broker_alone(
    spark: SparkSession, broker: BrokerProcess, admin: Admin, topic: str
) -> None:
    """The Python worker ends too, even while it waits for an answer."""
    send_batches(admin, topic, 0, [b"x" * 500] * 20_000)
    sql = f"select count(*) from mq.`{topic}` a cross join mq.`{topic}` b where a.body || b.body = 'y'"
    spec = asked(broker, sql, [])
    failures: list[BaseException] = []

    def run_it() -> None:
        try:
            engine.run_query(spec)
        except QueryCancelled as error:
            failures.append(error)

    thread = threading.Thread(target=run_it)
    thread.start()
    eventually(lambda: engine.progress(spec.task_id), 30)
    assert engine.cancel(spec.task_id)
    thread.join(20)
    assert failures
    assert not thread.is_alive()


def test_pulls_that_come_in_part_are_asked_for_again(admin: Admin, producer: Producer) -> None:
    """An answer holds 256 KiB: of large messages it has fewer than were asked for."""
    from brokercore.client import MessageQueue

    topic = new_topic(admin, queues=1)
    bodies = [os.urandom(60_000) for _ in range(40)]
    send(producer, topic, *bodies)
    queue = next(iter(admin.topics.stats(topic)))
    assert isinstance(queue, MessageQueue)
    found = [message for part in admin.messages.read_range(queue, 3, 39) for message in part]
    assert [message.queue_offset for message in found] == list(range(3, 39))
    assert [message.decoded_body() for message in found] == bodies[3:39]


def test_only_the_pulls_of_the_range_are_sent(admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send_batches(admin, topic, 0, [b"a"] * 500)
    queue = next(queue for queue in admin.topics.stats(topic) if queue.queue_id == 0)
    asked_for: list[str] = []
    submit = Session.submit

    def counted(self: Session, call: Call, timeout_ms: int | None = None) -> object:
        asked_for.append(call.ext.get("queueOffset", ""))
        return submit(self, call, timeout_ms)

    monkeypatch.setattr(Session, "submit", counted)
    assert sum(len(part) for part in admin.messages.read_range(queue, 100, 164)) == 64
    assert asked_for == ["100", "132"]
