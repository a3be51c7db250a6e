"""Scenarios that mostly wait: they are started before the first test and judged by the last ones.

A first retry comes after 10 s, a second after 30 s more; an unknown transaction is checked in rounds of 30 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.compat.programs import Event, Program
from tests.compat.world import World, failures, sent

#: The longest of the waits, and room for a busy machine.
LONG_SECONDS = 110.0


@dataclass(frozen=True)
class Retry:
    """A consumer that fails: `once` on the first delivery of a message, `always` on all of another's."""

    topic: str
    group: str
    retries: int
    consumer: Program
    sent: dict[str, Event]


@dataclass(frozen=True)
class Transaction:
    """A producer that commits, rolls back and leaves open, and a consumer of the topic."""

    topic: str
    producer: Program
    consumer: Program


def start_retry(world: World, client: str, retries: int) -> Retry:
    """Send a message that fails once and one that fails always; the latter is dead after `retries`."""
    topic, group = world.topic("retry"), world.group(f"retry_{client}")
    sending = world.group("retry_sender")
    once = world.run(f"{client}Producer", topic, sending, body="once", key="k-once", properties="fails=1")
    always = world.run(f"{client}Producer", topic, sending, body="always", key="k-always", properties="fails=99")
    assert failures(once + always) == []
    consumer = world.start(f"{client}Consumer", topic, group, max_reconsume_times=retries)
    by_body = {e["body"].removesuffix("-sync-0"): e for e in sent(once + always)}
    return Retry(topic, group, retries, consumer, by_body)


def start_transaction(world: World, client: str, **options: Any) -> Transaction:
    """Send one transactional message of each outcome."""
    topic, group = world.topic("tx", message_type="TRANSACTION"), world.group(f"tx_{client}")
    other = "Apache" if client == "Ons" else "Ons"
    # On a busy machine it takes seconds until the broker is told; asked earlier, it delivers twice.
    options |= {"outcomes": "commit,rollback,unknown", "check_immunity_seconds": 8}
    producer = world.start(f"{client}TransactionProducer", topic, group, **options)
    # ons-client starts at the end of an empty queue: the consumer comes when the committed message is there.
    producer.wait_ready()
    consumer = world.start(f"{other}Consumer", topic, world.group("tx_reader"))
    return Transaction(topic, producer, consumer)
