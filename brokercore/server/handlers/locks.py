"""Queue locks of ordered consumers: 41 and 42."""

from __future__ import annotations

import orjson

from brokercore.protocol.bodies.reading import objects, read_object
from brokercore.protocol.bodies.reading import text as member
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message_queue import MessageQueue
from brokercore.server.broker import Broker
from brokercore.server.connection import MOST_WATCHED, Connection
from brokercore.server.errors import Refusal
from brokercore.server.security import Caller


def lock(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """LOCK_BATCH_MQ: what this client may read now."""
    group, client_id, queues = _request(command)
    if len(connection.on_close) > MOST_WATCHED:
        raise Refusal(ResponseCode.SYSTEM_BUSY, "too much waits on this connection or is locked by it")
    queues = [queue for queue in queues if _exists(broker, queue)]
    locked = broker.locks.lock(group, client_id, queues, connection)
    body = orjson.dumps({"lockOKMQSet": [queue.to_dict() for queue in locked]})
    return command.response(ResponseCode.SUCCESS, body=body)


def unlock(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """UNLOCK_BATCH_MQ."""
    group, client_id, queues = _request(command)
    broker.locks.unlock(group, client_id, queues)
    return command.response(ResponseCode.SUCCESS)


def _exists(broker: Broker, queue: MessageQueue) -> bool:
    topic = broker.topics.get(queue.topic)
    return topic is not None and 0 <= queue.queue_id < len(topic.queues)


def _request(command: Command) -> tuple[str, str, list[MessageQueue]]:
    fields = read_object(command.body)
    queues = [MessageQueue.from_dict(item) for item in objects(fields, "mqSet")]
    return member(fields, "consumerGroup"), member(fields, "clientId"), queues


HANDLERS = {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
