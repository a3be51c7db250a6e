"""Redis is there and does not answer (SIGSTOP for 10 s): refused at once after a moment, and nothing is lost."""

from __future__ import annotations

import signal
import time

from tests.brokercore.crash.field import Field
from tests.brokercore.crash.figures import judge
from tests.support.broker import eventually
from tests.support.processes import resident_bytes

FROZEN_SECONDS = 10.0


def test_a_frozen_redis_is_told_and_waited_for(ground: Field) -> None:
    topic, group = ground.topic(), ground.group()
    producer = ground.start("produce", topic, threads=8, timeout_ms=3000)
    consumer = ground.start("consume", topic, group=group)
    producer.wait_for("acknowledged", 200)
    before = resident_bytes([ground.broker.pid])
    ground.redis.signal(signal.SIGSTOP)
    frozen = time.time()
    thawed_by = time.monotonic() + FROZEN_SECONDS
    try:
        eventually(lambda: "has not answered" in ground.health()[1], 8)
        assert ground.health()[0] == 503
        eventually(lambda: any("does not answer" in record.more for record in producer.named("refused")), 8)
        eventually(lambda: time.monotonic() >= thawed_by, FROZEN_SECONDS + 1)
    finally:
        ground.redis.signal(signal.SIGCONT)
    thawed = time.time()
    producer.wait_for_more("acknowledged", 200)
    ground.wait_healthy()
    producer.finish()
    assert "connection lost" not in ground.broker.log  # it was waited for, not dropped
    assert resident_bytes([ground.broker.pid]) < before + (64 << 20)  # refused, not piled up
    refused = [record for record in producer.named("refused") if frozen < record.at < thawed]
    waited = [record for record in refused if record.more.startswith("- ")]
    # Each thread waits for one answer until its time is over; from then on it is refused at once.
    assert len(waited) <= 8 * 2, [record.more for record in waited][:5]
    judge(
        "Redis frozen for 10 s", producer.bodies("sent"), producer.bodies("acknowledged"), consumer,
        remark=f"{len(refused)} sends refused meanwhile",
    )  # fmt: skip
