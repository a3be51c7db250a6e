"""The broker is killed while messages wait for the end of a transaction, a time, a retry or an acknowledgement."""

from __future__ import annotations

import time

from tests.brokercore.crash.field import BROKER_NAME, Field
from tests.brokercore.crash.figures import judge
from tests.support.broker import eventually


def test_a_half_message_survives_and_is_checked_after_the_restart(ground: Field) -> None:
    topic, group = ground.topic(message_type="TRANSACTION"), ground.group()
    consumer = ground.start("consume", topic, group=group)
    producer = ground.start("transact", topic, group="GID_tx", outcome="UNKNOWN", check="COMMIT", count=60)
    producer.wait_for("acknowledged", 20)
    ground.restart_broker()
    producer.wait_for("done", 1)
    judge(
        "broker killed between half message and check", producer.bodies("sent"), producer.bodies("acknowledged"),
        consumer, most_deliveries=2, remark="every transaction ended by a check",
    )  # fmt: skip


def test_a_half_message_survives_its_producer_and_another_one_of_the_group_is_asked(ground: Field) -> None:
    topic, group = ground.topic(message_type="TRANSACTION"), ground.group()
    consumer = ground.start("consume", topic, group=group)
    first = ground.start("transact", topic, group="GID_tx", outcome="UNKNOWN", check="UNKNOWN", count=20)
    first.wait_for("done", 1)
    first.kill()
    ground.restart_broker()
    second = ground.start("transact", topic, group="GID_tx", check="COMMIT", count=1, name="other")
    sent = [*first.bodies("sent"), "other:0"]
    judge("producer and broker killed before the end", sent, first.bodies("acknowledged"), consumer)
    assert set(first.bodies("acknowledged")) <= set(second.bodies("checked"))


def test_commits_and_rollbacks_hold_over_kills(ground: Field) -> None:
    topic, group = ground.topic(message_type="TRANSACTION"), ground.group()
    consumer = ground.start("consume", topic, group=group)
    keep = ground.start("transact", topic, group="GID_keep", count=120, name="keep")
    drop = ground.start(
        "transact", topic, group="GID_drop", outcome="ROLLBACK", check="ROLLBACK", count=120, name="drop"
    )
    for _ in range(2):
        keep.wait_for_more("acknowledged", 20)
        ground.restart_broker()
    keep.wait_for("done", 1)
    drop.wait_for("done", 1)
    # A half message that was refused may be there all the same: it is checked, and committed like the others.
    judge("broker killed around commits", keep.bodies("sent"), keep.bodies("acknowledged"), consumer)
    eventually(lambda: not _waiting(ground, "half"))
    assert not [body for body in consumer.bodies("received") if body.startswith("drop")]


def test_delayed_messages_survive_and_come_once(ground: Field) -> None:
    topic, group = ground.topic(message_type="DELAY"), ground.group()
    consumer = ground.start("consume", topic, group=group)
    soon = ground.start("produce", topic, name="soon", delay_ms=1500, count=120, pause=0.002, insist=1)
    later = ground.start("produce", topic, name="later", delay_ms=6000, count=120, pause=0.002, insist=1)
    soon.wait_for("done", 1)
    later.wait_for("done", 1)
    ground.broker.kill()
    last = max(record.at for record in soon.named("acknowledged")) + 1.5
    eventually(lambda: time.time() > last, 5)  # these are due while nobody is there
    ground.broker.start()
    sent, acknowledged = (soon.bodies(kind) + later.bodies(kind) for kind in ("sent", "acknowledged"))
    judge("broker killed during a delay", sent, acknowledged, consumer, remark="half of them due during the outage")
    due = {record.body: record.at + 6.0 for record in reversed(later.named("sent"))}  # of its first send
    arrived = {record.body: record.at for record in consumer.named("received")}
    assert not [body for body, at in due.items() if body in arrived and arrived[body] < at - 0.1]
    eventually(lambda: not _waiting(ground, "timers"))


def test_retries_and_dead_letters_survive_kills_while_they_are_sent_back(ground: Field) -> None:
    topic, group = ground.topic(), ground.group()
    producer = ground.start("produce", topic, fails=99, count=240, insist=1)
    consumer = ground.start("consume", topic, group=group, max_reconsume_times=0)
    for _ in range(2):
        consumer.wait_for_more("received", 40)
        ground.restart_broker()
    producer.wait_for("done", 1)
    reader = ground.start("consume", f"%DLQ%{group}", group=ground.group())
    judge("broker killed during dead-letter moves", producer.bodies("sent"), producer.bodies("acknowledged"), reader)


def test_what_was_acknowledged_by_pop_never_comes_again(ground: Field) -> None:
    topic, group = ground.topic(), ground.group()
    producer = ground.start("produce", topic, pause=0.01)
    options = {"group": group, "broker": ground.broker.address, "broker_name": BROKER_NAME}
    poppers = [ground.start("pop", topic, **options) for _ in range(2)]
    for _ in range(3):
        for popper in poppers:
            popper.wait_for_more("acknowledged", 30)
        ground.restart_broker()
    producer.finish()
    judge("broker killed during POP", producer.bodies("sent"), producer.bodies("acknowledged"), poppers,
          most_deliveries=6)  # fmt: skip
    eventually(lambda: not _waiting(ground, "pop:flights"), 30)
    done: dict[str, float] = {}
    for record in sorted((record for popper in poppers for record in popper.records), key=lambda record: record.at):
        if record.kind == "acknowledged":
            done.setdefault(record.body, record.at)
    again = [
        record.body
        for popper in poppers
        for record in popper.named("received")
        if record.body in done and record.at > done[record.body]
    ]
    assert not [body for body in again if _copies(ground, topic, body) == 1]


def _waiting(ground: Field, name: str) -> int:
    """How many members or fields one of the broker's sets has."""
    kind = "ZCARD" if name in ("half", "timers") else "HLEN"
    return int(ground.command(kind, f"gantry:{BROKER_NAME}:{name}")[1:].strip())


def _copies(ground: Field, topic: str, key: str) -> int:
    """How often a message is stored: a send whose answer was lost is tried again."""
    return len(ground.admin.messages.query(topic, key))
