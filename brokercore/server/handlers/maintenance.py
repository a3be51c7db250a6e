"""Upkeep that tools ask for: what there is to do is done, what another kind of store would do is refused by name.

A store in Redis has no commit log, no consume-queue files, no RocksDB and no replicas. Requests about those get
REQUEST_CODE_NOT_SUPPORTED with a sentence that says what is there instead (docs/mqadmin.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.retention import expire_messages
from brokercore.server.security import Caller
from brokercore.server.unsupported import REFUSED

_OK = ResponseCode.SUCCESS


def nothing_to_clean(_broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """CLEAN_EXPIRED_CONSUMEQUEUE and CLEAN_UNUSED_TOPIC: a topic's queues come and go with it, nothing is left over."""
    return command.response(_OK)


async def expire_now(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """DELETE_EXPIRED_COMMITLOG: what is older than the retention time leaves now instead of within a minute."""
    await expire_messages(broker)
    return command.response(_OK)


def replication(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_BROKER_HA_STATUS: a master without replicas."""
    body = {
        "haClientRuntimeInfo": {},
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": True,
        "masterCommitLogMaxOffset": sum(queue.max_offset for queue in broker.store.by_number.values()),
    }
    return command.response(_OK, body=orjson.dumps(body))


def no_unit_topics(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_UNIT_TOPIC_LIST and its two relatives: there are no units."""
    return command.response(_OK, body=orjson.dumps({"brokerAddr": broker.address, "topicList": []}))


def _refused(sentence: str) -> Callable[..., Command]:
    def refuse(_broker: Broker, _connection: Connection, _command: Command, _caller: Caller) -> Command:
        raise Refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, sentence)

    return refuse


HANDLERS: dict[int, Any] = {
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: nothing_to_clean,
    Code.CLEAN_UNUSED_TOPIC: nothing_to_clean,
    Code.DELETE_EXPIRED_COMMITLOG: expire_now,
    Code.GET_BROKER_HA_STATUS: replication,
    Code.GET_UNIT_TOPIC_LIST: no_unit_topics,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: no_unit_topics,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: no_unit_topics,
    **{code: _refused(sentence) for code, sentence in REFUSED.items()},
}
