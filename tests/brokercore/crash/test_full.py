"""Redis has no room: its disk is full, or its memory. Sends are refused clearly, consumers go on, and it heals."""

from __future__ import annotations

from tests.brokercore.crash.field import ALWAYS, Field, field
from tests.brokercore.crash.figures import judge
from tests.brokercore.crash.records import Client
from tests.support.broker import eventually
from tests.support.disk import fill, small_disk

SYSTEM_BUSY = "2"


def refusals(producer: Client, since: int = 0) -> list[str]:
    return [record.more for record in producer.named("refused")[since:]]


def load(ground: Field) -> tuple[Client, Client]:
    topic, group = ground.topic(), ground.group()
    return ground.start("produce", topic, size=300), ground.start("consume", topic, group=group)


def test_a_full_disk_refuses_and_heals() -> None:
    with small_disk() as disk, field("--auto-aof-rewrite-percentage", "0", folder=disk) as ground:
        producer, consumer = load(ground)
        producer.wait_for("acknowledged", 200)
        ballast = fill(disk)
        producer.wait_for("refused", 20)
        known = set(producer.bodies("acknowledged"))
        eventually(lambda: known <= set(consumer.bodies("received")), 30)  # consumption goes on
        assert ground.health()[0] == 200  # consumers are served
        ground.restart_broker()  # a broker starts and serves what there is, though nothing can be written
        producer.wait_for("refused", producer.count("refused") + 20)
        ballast.unlink()
        producer.wait_for_more("acknowledged", 200)
        producer.finish()
        said = [text for text in refusals(producer) if text.startswith(SYSTEM_BUSY + " ")]
        assert any("The disk of Redis is full" in text for text in said), refusals(producer)[:5]
        judge("full disk under Redis (everysec)", producer.bodies("sent"), producer.bodies("acknowledged"), consumer)


def test_a_full_disk_ends_a_redis_that_syncs_always_and_nothing_acknowledged_is_lost() -> None:
    with small_disk() as disk, field(*ALWAYS, "--auto-aof-rewrite-percentage", "0", folder=disk) as ground:
        producer, consumer = load(ground)
        producer.wait_for("acknowledged", 200)
        ballast = fill(disk)
        eventually(lambda: ground.redis.has_ended, 30)  # it does not go on without its disk
        refused = producer.count("refused")
        producer.wait_for("refused", refused + 20)
        assert ground.health()[0] == 503
        ballast.unlink()
        ground.restart_redis()
        producer.wait_for_more("acknowledged", 200)
        producer.finish()
        judge("full disk under Redis (always)", producer.bodies("sent"), producer.bodies("acknowledged"), consumer)


def test_redis_at_its_memory_limit_refuses_and_heals(ground: Field) -> None:
    producer, consumer = load(ground)
    producer.wait_for("acknowledged", 200)
    ground.command("CONFIG", "SET", "maxmemory", "1mb")
    producer.wait_for("refused", 20)
    known = set(producer.bodies("acknowledged"))
    eventually(lambda: known <= set(consumer.bodies("received")), 30)
    ground.restart_broker()
    producer.wait_for("refused", producer.count("refused") + 20)
    eventually(lambda: any("used memory > 'maxmemory'" in text for text in refusals(producer)))
    ground.command("CONFIG", "SET", "maxmemory", "0")
    producer.wait_for_more("acknowledged", 200)
    producer.finish()
    judge("Redis at its memory limit", producer.bodies("sent"), producer.bodies("acknowledged"), consumer)
