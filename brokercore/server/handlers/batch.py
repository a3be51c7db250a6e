"""Batches: many messages of one topic and queue in one request."""

from __future__ import annotations

from brokercore.protocol import properties as names
from brokercore.protocol.batch import decode_batch
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.properties import decode_properties
from brokercore.server import answers
from brokercore.server.broker import Broker
from brokercore.server.connection import respond
from brokercore.server.delays import is_delayed
from brokercore.server.errors import Refusal
from brokercore.server.incoming import Draft, check_body, check_kind, count_put, message_keys, stored_properties
from brokercore.server.limits import Account
from brokercore.server.storage.topics import group_of


def send_batch(broker: Broker, draft: Draft, account: Account | None) -> None:
    """Store the messages in the draft's body; each keeps its own unique id.

    The batch is answered once, when its last message is safe. Raises Refusal before anything is stored.
    """
    drafts = _messages(broker, draft)
    broker.limits.more_messages(account, draft.queue.topic, len(drafts) - 1)
    answered: list[str | None] = []
    offsets: list[int] = []

    def done(reason: str | None) -> None:
        answered.append(reason)
        if len(answered) == len(drafts):
            _answer(broker, draft, drafts, offsets, next(filter(None, answered), None))

    for message in drafts:
        keys = message_keys(message.properties)
        offsets.append(
            broker.store.put(draft.queue, message.body, message.encoded, done, keys=keys, **message.fields)  # type: ignore[arg-type]
        )
    count_put(broker, draft.topic, len(drafts), len(draft.body))


def _messages(broker: Broker, draft: Draft) -> list[Draft]:
    check_body(draft.body)
    drafts = []
    for flag, body, given in decode_batch(draft.body):
        check_body(body)
        properties = decode_properties(given)
        encoded = stored_properties(broker, properties, given.decode())
        if is_delayed(properties) or names.TRANSACTION_PREPARED in properties or group_of(draft.queue.topic):
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch takes no delayed, transactional or retry messages")
        check_kind(broker, draft.topic, "FIFO" if names.SHARDING_KEY in properties else "NORMAL")
        fields = draft.fields | {"flag": flag}
        drafts.append(draft._replace(body=body, properties=properties, encoded=encoded, fields=fields))
    return drafts


def _answer(broker: Broker, draft: Draft, drafts: list[Draft], offsets: list[int], reason: str | None) -> None:
    command = draft.command
    if reason is not None:
        respond(draft.connection, command, ResponseCode.SYSTEM_BUSY, reason)
    elif not command.flag & 2:
        queue, prefix = draft.queue, broker.message_id_prefix
        ids = b",".join(prefix + b"%016X" % (queue.base + offset) for offset in offsets)
        unique_ids = ",".join(message.properties[names.UNIQUE_KEY] for message in drafts)
        draft.connection.write(
            answers.send_answer(command.opaque, broker.region, ids, queue.queue_id, offsets[0], unique_ids)
        )
