"""END_TRANSACTION (37): a producer commits or rolls back a half message."""

from __future__ import annotations

from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
    StoredMessage,
    decode_stored,
)
from brokercore.server import permissions
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.headers import integer, text
from brokercore.server.security import Caller
from brokercore.server.storage.topics import HALF_TOPIC
from brokercore.server.transactions import is_of_sender

_ERROR = ResponseCode.SYSTEM_ERROR


async def end(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """Commit (8), roll back (12), or leave the message to be checked (0). Clients send this one-way."""
    try:
        return await _end(broker, connection, command, caller)
    except Refusal as refusal:
        refusal.kind = refusal.kind or "transaction"  # clients send it one-way: the log is who hears of it
        raise


async def _end(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    ext = command.ext
    decision = integer(ext, "commitOrRollback")
    if decision not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        return command.response(ResponseCode.SUCCESS)
    async with connection.reads:
        return await _end_half(broker, connection, command, caller, decision)


async def _end_half(broker: Broker, connection: Connection, command: Command, caller: Caller, decision: int) -> Command:
    ext = command.ext
    frame = await broker.store.message_at(integer(ext, "commitLogOffset"))
    half = decode_stored(frame)[0] if frame else None
    if half is None or half.topic != HALF_TOPIC or not _may_end(caller, connection, half):
        raise Refusal(_ERROR, "Find prepared transaction message failed")
    if half.properties.get(names.PRODUCER_GROUP) != text(ext, "producerGroup"):
        raise Refusal(_ERROR, "The producer group wrong")
    if half.queue_offset != integer(ext, "tranStateTableOffset"):
        raise Refusal(_ERROR, "The transaction state table offset wrong")
    if decision == TRANSACTION_COMMIT:
        await broker.transactions.commit(half)
    else:
        await broker.transactions.rollback(half)
    return command.response(ResponseCode.SUCCESS)


def _may_end(caller: Caller, connection: Connection, half: StoredMessage) -> bool:
    topic = half.properties.get(names.REAL_TOPIC, "")
    return is_of_sender(half, caller) and permissions.may(caller, connection, permissions.PUBLISH, topic)


HANDLERS = {RequestCode.END_TRANSACTION: end}
