"""What a consumer fails on comes again, and is a dead letter in the end."""

from __future__ import annotations

from itertools import pairwise

from brokercore.client import ConsumeResult, Message, MessageView
from tests.brokercore.contract.cluster import Cluster
from tests.brokercore.contract.slow import SLOW_SECONDS, SlowRuns
from tests.support.broker import eventually

FIRST_RETRY_MS = 10_000
#: What timers and a busy machine may add.
LATE_MS = 8_000


def test_a_failed_message_comes_again_after_the_first_retry_level(slow: SlowRuns) -> None:
    run = slow.retries
    eventually(lambda: len(run.received.of("once")) == 2 and len(run.received.of("always")) == 2, SLOW_SECONDS)
    for body in ("once", "always"):
        deliveries, times = run.received.of(body), run.received.times_of(body)
        assert [message.reconsume_times for message in deliveries] == [0, 1]
        assert {message.message_id for message in deliveries} == {run.sent[body].message_id}
        assert {message.topic for message in deliveries} == {run.topic}
        assert {(message.tags, message.keys) for message in deliveries} == {("TagA", f"key-{body}")}
        assert all(FIRST_RETRY_MS - 500 <= b - a <= FIRST_RETRY_MS + LATE_MS for a, b in pairwise(times))


def test_a_message_is_a_dead_letter_after_its_last_retry_and_can_be_sent_again(
    cluster: Cluster, slow: SlowRuns
) -> None:
    run = slow.retries
    group = cluster.physical(run.group)
    (letter,) = cluster.wait_stored(f"%DLQ%{group}", 1, SLOW_SECONDS)
    assert (letter.unique_id, letter.keys, letter.tags) == (run.sent["always"].message_id, "key-always", "TagA")
    assert (letter.body, letter.properties["colour"]) == (b"always", "blue")
    assert letter.properties["RETRY_TOPIC"] == cluster.physical(run.topic)
    assert letter.properties["ORIGIN_MESSAGE_ID"] == run.sent["always"].offset_message_id
    cluster.admin.messages.resend_dead_letter(group, letter)
    eventually(lambda: len(run.received.of("always")) == 3)
    again = run.received.of("always")[-1]
    assert (again.topic, again.message_id, again.reconsume_times) == (run.topic, letter.unique_id, 0)


def test_a_message_that_takes_too_long_comes_again(slow: SlowRuns) -> None:
    run = slow.retries
    eventually(lambda: len(run.received.of("late")) == 2, SLOW_SECONDS)
    assert [message.reconsume_times for message in run.received.of("late")] == [0, 1]


def test_without_retries_a_failed_message_is_a_dead_letter_at_once(cluster: Cluster) -> None:
    topic, group = cluster.topic("no-retry"), cluster.group("no_retry")

    def fail(_message: MessageView) -> ConsumeResult:
        raise ValueError("the handler does not like it")

    with (
        cluster.consuming(topic, group, decide=fail, max_reconsume_times=0) as received,
        cluster.producer() as producer,
    ):
        producer.send(Message(topic, b"poison"))
        received.wait_for("poison")
        (letter,) = cluster.wait_stored(f"%DLQ%{cluster.physical(group)}", 1)
    assert letter.body == b"poison"
