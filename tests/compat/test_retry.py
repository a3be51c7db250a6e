"""A message that a consumer fails on comes again by the retry levels, and is a dead letter after the last retry."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.compat.long_runs import LONG_SECONDS, Retry
from tests.compat.world import World

#: Delay of the first and of the second retry, in ms.
LEVELS_MS = (10_000, 30_000)
#: What timers and a busy machine may add.
LATE_MS = 8_000
CLIENTS = pytest.mark.parametrize("client", ["Ons", "Apache"])


@pytest.fixture
def retry(retry_runs: dict[str, Retry], client: str) -> Retry:
    return retry_runs[client]


@CLIENTS
def test_a_failed_message_comes_again_by_the_retry_levels(retry: Retry) -> None:
    def deliveries(name: str) -> list[dict[str, object]]:
        return [e for e in retry.consumer.named("received") if e["body"] == f"{name}-sync-0"]

    retry.consumer.wait_until(
        lambda: len(deliveries("once")) == 2 and len(deliveries("always")) == 1 + retry.retries,
        "the retries",
        LONG_SECONDS,
    )
    for name, count in (("once", 2), ("always", 1 + retry.retries)):
        events = retry.consumer.named("received")
        times = [e["at"] for e in events if e["body"] == f"{name}-sync-0"]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        for gap, level in zip(gaps, LEVELS_MS, strict=False):
            assert level - 500 <= gap <= level + LATE_MS
        assert [e["reconsumeTimes"] for e in deliveries(name)] == list(range(count))
        assert {e["id"] for e in deliveries(name)} == {retry.sent[name]["id"]}
        assert {e["topic"] for e in deliveries(name)} == {retry.topic}


@CLIENTS
def test_a_message_is_a_dead_letter_after_its_last_retry(world: World, retry: Retry) -> None:
    reader = world.start("ApacheLitePull", f"%DLQ%{retry.group}", world.group("dlq_reader"))
    (letter,) = reader.wait_received(["always-sync-0"], LONG_SECONDS)
    assert letter["id"] == retry.sent["always"]["id"]
    assert letter["key"] == "k-always"
    assert letter["properties"]["RETRY_TOPIC"].endswith(retry.topic)
    deliveries = [e for e in retry.consumer.bodies() if e == "always-sync-0"]
    assert len(deliveries) == 1 + retry.retries
