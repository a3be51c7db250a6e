"""Sending a dead letter to its group again."""

from __future__ import annotations

import random

from brokercore.client.admin.base import AdminBase
from brokercore.client.errors import InvalidMessage, TopicNotExist
from brokercore.client.messages import SendResult
from brokercore.client.namespace import RETRY_PREFIX
from brokercore.client.sending import Prepared, read_send, send_call
from brokercore.protocol import properties as names
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.message import COMPRESSED, COMPRESSION_MASK, COMPRESSION_SHIFT, StoredMessage
from brokercore.protocol.properties import encode_properties

_SENDER = "CLIENT_INNER_PRODUCER"
"""The producer group under which clients themselves write to retry topics."""

_FIRST_LIFE_ONLY = frozenset(
    {names.DELAY, names.TIMER_DELAY_SECONDS, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.START_DELIVER_TIME,
     names.REAL_TOPIC, names.REAL_QUEUE_ID, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES,
     names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.TRANSACTION_CHECK_TIMES,
     names.TRANSACTION_PREPARED_QUEUE_OFFSET}
)  # fmt: skip
"""Properties that would delay the letter again, or make it the half message of a transaction."""


class RedeliveryAdmin(AdminBase):
    """What brings a dead letter back to its consumers."""

    def resend_dead_letter(self, group: str, letter: StoredMessage) -> SendResult:
        """Write a letter to the retry topic of `group`, to be delivered at once and to this group only.

        Unique id, keys, tag, properties, birth and body stay; the retry counter starts at 0. The consumer sees it
        with its first topic. Works while the group is offline. Raises TopicNotExist when the group never consumed.
        """
        topic = RETRY_PREFIX + group
        properties = {name: value for name, value in letter.properties.items() if name not in _FIRST_LIFE_ONLY}
        properties.setdefault(names.RETRY_TOPIC, letter.topic)
        properties[names.WAIT] = "true"
        try:
            encoded = encode_properties(properties).decode()
        except MessageFormatError as error:
            raise InvalidMessage(f"The properties are not acceptable: {error}.") from error
        packed = letter.sys_flag & (COMPRESSED | COMPRESSION_MASK << COMPRESSION_SHIFT)
        prepared = Prepared(topic, letter.unique_id, letter.body, encoded, packed, letter.born_timestamp)
        queues = self.routes.write_queues(topic)
        if not queues:
            raise TopicNotExist(ResponseCode.TOPIC_NOT_EXIST, f"{topic} has no queue", self.session.name_servers[0])
        queue = random.choice(queues)
        address = self.routes.address(queue.broker_name)
        # Not sent again by itself when the connection breaks: the consumer would get the letter twice.
        answer = self.session.submit(send_call(prepared, _SENDER, queue, address))
        response = self.session.wait(answer, address, self.session.timeout_ms)
        return read_send(response, prepared, queue, address)
