"""Transactional messages of our client: committed ones come, rolled back ones never, open ones are asked for."""

from __future__ import annotations

import pytest

from brokercore.client import Message
from brokercore.client.errors import ClientError
from tests.brokercore.contract.cluster import Cluster
from tests.brokercore.contract.differences import Differs
from tests.brokercore.contract.slow import SLOW_SECONDS, SlowRuns
from tests.support.broker import eventually


def test_committed_and_checked_messages_come_and_no_others(cluster: Cluster, slow: SlowRuns, differs: Differs) -> None:
    run = slow.transactions
    eventually(lambda: {"open", "doubtful"} <= {view.body.decode() for view in run.checked}, SLOW_SECONDS)
    stored = cluster.wait_stored(run.topic, 2, SLOW_SECONDS)
    deliveries = differs("deliveries of transactions that were asked about")
    assert deliveries(message.body.decode() for message in stored) == ["commit", "open"]
    sent_ids = {body: result.message_id for body, result in run.sent.items()}
    assert {message.body.decode(): message.unique_id for message in stored} == {
        body: sent_ids[body] for body in ("commit", "open")
    }


def test_a_check_shows_the_half_message(slow: SlowRuns) -> None:
    run = slow.transactions
    eventually(lambda: b"open" in {view.body for view in run.checked}, SLOW_SECONDS)
    view = next(view for view in run.checked if view.body == b"open")
    assert (view.topic, view.message_id) == (run.topic, run.sent["open"].message_id)


def test_the_producer_group_is_seen_by_the_broker(cluster: Cluster, slow: SlowRuns) -> None:
    (client,) = cluster.admin.clients.producers(cluster.physical(slow.transactions.group))
    assert client.language == "PYTHON"


def test_a_producer_without_check_sends_no_half_message(cluster: Cluster) -> None:
    topic = cluster.topic("no-check", message_type="TRANSACTION")
    with cluster.producer() as producer, pytest.raises(ClientError, match="transaction_check"):
        producer.send_half(Message(topic, b"half"))
    assert cluster.stored(topic) == []
