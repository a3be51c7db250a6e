"""POP in order, asked for by hand: what comes again after a part of a batch was acknowledged."""

from __future__ import annotations

import time

from brokercore.client import Message
from brokercore.client.session import Call
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message import StoredMessage, decode_stored
from tests.brokercore.contract.cluster import Cluster
from tests.support.broker import eventually

ANSWERS = frozenset({ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND})


class Popping:
    """A group that pops one queue of a topic in order."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        self._session = cluster.admin.session
        self._broker, self._address = next(iter(cluster.admin.brokers.masters().items()))
        self._names = {"topic": cluster.physical(topic), "consumerGroup": cluster.physical(group)}

    def pop(self, invisible_ms: int) -> tuple[Command, list[StoredMessage]]:
        """At most three messages, and the answer that they came with."""
        ext = self._names | {
            "queueId": "0", "maxMsgNums": "3", "invisibleTime": str(invisible_ms), "pollTime": "500",
            "bornTime": str(int(time.time() * 1000)), "initMode": "0", "order": "true", "expType": "TAG", "exp": "*",
        }  # fmt: skip
        answer = self._session.call(Call(self._address, RequestCode.POP_MESSAGE, ext), accept=ANSWERS)
        return answer, decode_stored(answer.body) if answer.code == ResponseCode.SUCCESS else []

    def acknowledge(self, answer: Command, messages: list[StoredMessage]) -> None:
        """Acknowledge them as rocketmq-client does, one by one."""
        times = f"{answer.ext['popTime']} {answer.ext['invisibleTime']} {answer.ext['reviveQid']}"
        for message in messages:
            offset = message.queue_offset
            ext = {"queueId": "0", "offset": str(offset), "extraInfo": f"{offset} {times} 0 {self._broker} 0 {offset}"}
            self._session.call(Call(self._address, RequestCode.ACK_MESSAGE, self._names | ext))


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


def test_in_order_what_was_acknowledged_behind_a_failure_comes_again_with_it(cluster: Cluster) -> None:
    topic, group = cluster.topic("pop-order", queues=1, message_type="FIFO"), cluster.group("pop_order")
    with cluster.producer() as producer:
        for number in range(4):
            producer.send_ordered(Message(topic, b"m%d" % number), "key")
    popping = Popping(cluster, topic, group)
    answer, first = eventually(lambda: found if (found := popping.pop(2_000))[1] else None)
    assert bodies(first) == [b"m0", b"m1", b"m2"]
    popping.acknowledge(answer, first[1:])
    assert popping.pop(60_000)[1] == [], "m0 is in work"
    answer, again = eventually(lambda: found if (found := popping.pop(60_000))[1] else None)
    assert bodies(again) == [b"m0", b"m1", b"m2"]
    popping.acknowledge(answer, again)
    assert bodies(eventually(lambda: popping.pop(60_000)[1])) == [b"m3"]
