"""Reading messages: by queue and offset, by key, by id. Nothing here commits an offset."""

from __future__ import annotations

import socket

from brokercore.client.admin.base import AdminBase, read
from brokercore.client.connection import split_address
from brokercore.client.errors import ClientError, QueryNotFound, SystemFault
from brokercore.client.pulling import PULL_CODES, PullResult, pull_call, read_pull
from brokercore.client.queue_offsets import QueueOffsets
from brokercore.client.session import Call
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.ids import parse_offset_message_id
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.message_queue import MessageQueue

TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group admin tools read under; every broker knows it."""

MAX_TIME_MS = 2**63 - 1
_QUERY_TIMEOUT_MS = 10_000


class MessagesAdmin(AdminBase):
    """Finds and reads stored messages."""

    def pull(self, queue: MessageQueue, offset: int, max_messages: int = 32) -> PullResult:
        """Read up to `max_messages` (a broker gives at most 32) from an offset on; see PullResult."""
        address = self.routes.address(queue.broker_name)
        call = pull_call(address, queue, TOOLS_GROUP, offset, max_messages=max_messages)
        return read_pull(self.session.call(call, accept=PULL_CODES), address)

    def query_message(
        self,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = MAX_TIME_MS,
    ) -> list[StoredMessage]:
        """Messages of a topic by business key, or by unique id when `unique`, stored in the time span (epoch ms).

        Oldest first; [] when there is none (QUERY_MESSAGE). Raises TopicNotExist.
        """
        ext = {
            "topic": topic,
            "key": key,
            "maxNum": str(max_messages),
            "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms),
            "_UNIQUE_KEY_QUERY": "true" if unique else "false",
        }
        calls = [Call(address, RequestCode.QUERY_MESSAGE, ext) for address in self.routes.masters(topic).values()]
        found: list[StoredMessage] = []
        for call, result in zip(calls, self.session.call_all(calls, timeout_ms=_QUERY_TIMEOUT_MS), strict=True):
            if isinstance(result, QueryNotFound):
                continue
            if isinstance(result, ClientError):
                raise result
            found += read(decode_stored, result.body, call.address)
        matching = [message for message in found if message.topic == topic and _has_key(message, key, unique)]
        return sorted(matching, key=lambda message: (message.store_timestamp, message.physical_offset))[:max_messages]

    def messages_between(
        self, topic: str, begin_ms: int, end_ms: int, *, max_messages: int = 64
    ) -> list[StoredMessage]:
        """Messages of a topic stored from `begin_ms` to before `end_ms` (epoch ms), oldest first.

        At most `max_messages` of them, the oldest of each queue. Raises TopicNotExist.
        """
        found: list[StoredMessage] = []
        for queue in self.routes.read_queues(topic):
            offsets = QueueOffsets(self.session, self.routes)
            offset, last = offsets.search_offset(queue, begin_ms), offsets.max_offset(queue)
            of_queue: list[StoredMessage] = []
            while offset < last and len(of_queue) < max_messages:
                result = self.pull(queue, offset)
                of_queue += [message for message in result.messages if begin_ms <= message.store_timestamp]
                if result.next_offset <= offset or (of_queue and of_queue[-1].store_timestamp >= end_ms):
                    break
                offset = result.next_offset
            found += [message for message in of_queue if message.store_timestamp < end_ms]
        return sorted(found, key=lambda message: (message.store_timestamp, message.physical_offset))[:max_messages]

    def view_message(self, offset_message_id: str, topic: str) -> StoredMessage:
        """The message with an offset id (VIEW_MESSAGE_BY_ID).

        The id names an address: only one that is in the route of `topic` is connected to. Raises QueryNotFound
        when it is not, or when there is no message; MessageFormatError for a malformed id.
        """
        host, port, offset = parse_offset_message_id(offset_message_id)
        address = self._broker_at(topic, host, port)
        if address is None:
            text = f"no broker of topic {topic} is at {host}:{port}"
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, text, self.session.name_servers[0])
        ext = {"offset": str(offset), "topic": topic}
        try:
            response = self.session.call(Call(address, RequestCode.VIEW_MESSAGE_BY_ID, ext))
        except SystemFault as error:
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, error.text, address) from error
        messages = read(decode_stored, response.body, address)
        if not messages or messages[0].topic != topic:
            text = f"there is no message {offset_message_id} in topic {topic}"
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, text, address)
        return messages[0]

    def _broker_at(self, topic: str, host: str, port: int) -> str | None:
        for broker in self.routes.route(topic).brokers:
            for address in broker.addresses.values():
                if is_at(address, host, port):
                    return address
        return None


def _has_key(message: StoredMessage, key: str, unique: bool) -> bool:
    return message.unique_id == key if unique else key in message.keys.split(" ")


def is_at(address: str, host: str, port: int) -> bool:
    """Whether `address` (`name:port`) is the one that message ids tell as IP address and port."""
    name, broker_port = split_address(address)
    return broker_port == port and (name == host or host in _addresses_of(name))


def _addresses_of(host: str) -> set[str]:
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return set()
