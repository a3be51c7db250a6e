"""Sends: 310, 10 and 320. The hot path of the broker: one message is decoded once and encoded once."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from random import randrange
from typing import Any

from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.properties import decode_properties
from brokercore.server.account import Account
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection, respond
from brokercore.server.delays import deliver_at, is_delayed
from brokercore.server.drafts import Draft
from brokercore.server.errors import Refusal
from brokercore.server.handlers.batch import send_batch
from brokercore.server.headers import SEND_FIELDS, integer, text
from brokercore.server.incoming import answer, check_body, check_kind, count_put, park, prepare, put, stored_properties
from brokercore.server.message_keys import message_keys
from brokercore.server.rounds import LARGE_BYTES
from brokercore.server.security import Caller
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, TRACE_TOPIC, Topic, group_of

MAX_TOPIC = 127
PREPARED = 0x4
_TRANSACTION_BITS = 0xC
_MAX_RECONSUME_TIMES = 16


def send(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Coroutine[Any, Any, None] | None:
    """SEND_MESSAGE_V2 (310), SEND_MESSAGE (10) and SEND_BATCH_MESSAGE (320)."""
    ext = command.ext if command.code != RequestCode.SEND_MESSAGE else _short(command.ext)
    try:
        name, given, sys_flag = ext["b"], ext.get("i") or "", int(ext["f"])
        topic = broker.topics.get(name) or _missing(name)
        queue = _queue(topic, int(ext["e"]))
        fields: dict[str, int | bytes] = {
            "flag": int(ext["h"]),
            "sys_flag": sys_flag & ~_TRANSACTION_BITS,
            "born_timestamp": int(ext["g"]),
            "born_host": connection.host_bytes,
            "reconsume_times": int(ext.get("j") or 0),
        }
    except (KeyError, ValueError):
        raise _malformed(ext) from None
    share = caller.account.share if len(command.body) >= LARGE_BYTES and caller.account is not None else None
    if name == TRACE_TOPIC:
        draft = Draft(connection, command, topic, queue, command.body, {}, b"", fields, share)
        return _send_traces(broker, draft, ext, caller)
    broker.limits.admit(caller.account, name, 1, len(command.body) + len(given))
    if ext.get("m") == "true" or command.code == RequestCode.SEND_BATCH_MESSAGE:
        draft = Draft(connection, command, topic, queue, command.body, {}, b"", fields, share)
        return send_batch(broker, draft, caller.account)
    check_body(command.body)
    properties = decode_properties(given)
    if names.CORRELATION_ID in properties:
        broker.replies.expect(properties, name, connection)
    encoded = stored_properties(broker, properties, given)
    draft = Draft(connection, command, topic, queue, command.body, properties, encoded, fields, share)
    if sys_flag & _TRANSACTION_BITS == PREPARED or properties.get(names.TRANSACTION_PREPARED) == "true":
        check_kind(broker, topic, "TRANSACTION")
        prepare(broker, draft)
        return None
    if name[0] == "%" and name.startswith(RETRY_PREFIX) and _spent(broker, draft, ext):
        broker.spawn(_send_dead_letter(broker, draft))
        return None
    if is_delayed(properties):
        _send_delayed(broker, draft)
        return None
    check_kind(broker, topic, "FIFO" if names.SHARDING_KEY in properties else "NORMAL")
    put(broker, draft)
    return None


def _send_traces(broker: Broker, draft: Draft, ext: dict[str, str], caller: Caller) -> Coroutine[Any, Any, None] | None:
    """Store message traces in the queue of the sender's account."""
    if ext.get("m") == "true" or draft.command.code == RequestCode.SEND_BATCH_MESSAGE:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "message traces are not sent in batches")
    given = ext.get("i") or ""
    check_body(draft.body)
    properties = decode_properties(given)
    draft = draft._replace(properties=properties, encoded=stored_properties(broker, properties, given))
    queue = broker.traces.queue(caller.account)
    if queue is None and caller.account is not None:
        return _open_traces(broker, draft, caller.account)
    _put_traces(broker, draft, caller.account, queue or draft.queue)
    return None


async def _open_traces(broker: Broker, draft: Draft, account: Account) -> None:
    _put_traces(broker, draft, account, await broker.traces.open(account))


def _put_traces(broker: Broker, draft: Draft, account: Account | None, queue: Queue) -> None:
    def stored(reason: str | None) -> None:
        answer(broker, draft, queue.base, offset, reason)

    done = broker.traces.admit(account, queue, len(draft.body) + len(draft.encoded), stored)
    keys = message_keys(draft.properties)
    offset = broker.store.put(queue, draft.body, draft.encoded, done, keys=keys, **draft.fields)  # type: ignore[arg-type]
    draft.leaves()
    count_put(broker, draft.topic, 1, len(draft.body))


def _short(ext: dict[str, str]) -> dict[str, str]:
    return {short: ext[long] for short, long in SEND_FIELDS.items() if ext.get(long) is not None}


def _malformed(ext: dict[str, str]) -> Refusal:
    """Which required field is missing or no number."""
    text(ext, "b")
    for name in "efgh":
        integer(ext, name)
    return Refusal(ResponseCode.SYSTEM_ERROR, f"the header field j is not a whole number: {ext.get('j')!r}")


def _missing(name: str) -> Topic:
    if len(name) > MAX_TOPIC and not group_of(name):
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the topic has {len(name)} characters; allowed are {MAX_TOPIC}")
    raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"the topic {name} does not exist; topics are not made by sending")


def _queue(topic: Topic, queue_id: int) -> Queue:
    config = topic.config
    if not topic.writable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker's topic {config.topic} cannot be written to")
    if queue_id < 0:
        return topic.queues[randrange(config.write_queues)]
    if queue_id >= config.write_queues and queue_id >= config.read_queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queue {queue_id} does not exist: topic {config.topic} has {config.write_queues} queues",
        )
    return topic.queues[queue_id]


def _send_delayed(broker: Broker, draft: Draft) -> None:
    until_ms, level = deliver_at(draft.properties, int(time.time() * 1000))
    if not until_ms:
        put(broker, draft)
        return
    check_kind(broker, draft.topic, "DELAY")
    park(broker, draft, until_ms, level)


def _spent(broker: Broker, draft: Draft, ext: dict[str, str]) -> bool:
    """True when a client's own retry is beyond the group's limit."""
    group = broker.groups.get(group_of(draft.topic.config.topic))
    usual = group.retry_max_times if group else _MAX_RECONSUME_TIMES
    limit = integer(ext, "l", usual)
    return int(draft.fields["reconsume_times"]) > limit


async def _send_dead_letter(broker: Broker, draft: Draft) -> None:
    topic = await broker.topics.ensure(DEAD_LETTER_PREFIX + group_of(draft.topic.config.topic), 1)
    try:
        put(broker, draft._replace(topic=topic, queue=topic.queues[0]))
    except Refusal as refusal:
        respond(draft.connection, draft.command, refusal.code, refusal.remark)


HANDLERS = {
    RequestCode.SEND_MESSAGE: send,
    RequestCode.SEND_MESSAGE_V2: send,
    RequestCode.SEND_BATCH_MESSAGE: send,
}
