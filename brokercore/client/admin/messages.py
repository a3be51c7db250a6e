"""Reading messages: by queue and offset, by key, by id. Nothing here commits an offset."""

from __future__ import annotations

import random
import socket
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

from brokercore.client.admin.base import Base, read
from brokercore.client.connection import split_address
from brokercore.client.errors import (
    BrokerUnreachable,
    ClientError,
    NoPermission,
    QueryNotFound,
    SystemFault,
    TopicNotExist,
)
from brokercore.client.messages import SendResult
from brokercore.client.offsets import QueueOffsets
from brokercore.client.pulling import PULL_CODES, PullResult, PullStatus, pull_call, read_pull
from brokercore.client.sending import Prepared, encoded_properties, read_send, send_call
from brokercore.client.session import Call
from brokercore.names import TOOLS_GROUP, retry_topic
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.ids import parse_offset_message_id
from brokercore.protocol.message import COMPRESSED, COMPRESSION_MASK, COMPRESSION_SHIFT, StoredMessage, decode_stored
from brokercore.protocol.message_queue import MessageQueue

MAX_TIME_MS = 2**63 - 1
_QUERY_TIMEOUT_MS = 10_000

IN_FLIGHT = 12
"""Pulls of a range under way at a time: enough to hide the way to a broker, few enough to be fair to its consumers."""

MAX_MESSAGES = 32
"""A broker gives no more at a time."""

_UNIQUE_FLAG = "_UNIQUE_KEY_QUERY"

_SENDER = "CLIENT_INNER_PRODUCER"
"""The producer group under which clients themselves write to retry topics."""

_FIRST_LIFE_ONLY = frozenset(
    {names.DELAY, names.TIMER_DELAY_SECONDS, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.START_DELIVER_TIME,
     names.REAL_TOPIC, names.REAL_QUEUE_ID, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES,
     names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.TRANSACTION_CHECK_TIMES,
     names.TRANSACTION_PREPARED_QUEUE_OFFSET}
)  # fmt: skip
"""Properties that would delay the letter again, or make it the half message of a transaction."""


class Messages:
    """Finds and reads stored messages, and brings dead letters back."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._without_flag: set[str] = set()

    def pull(self, queue: MessageQueue, offset: int, max_messages: int = MAX_MESSAGES) -> PullResult:
        """Read up to `max_messages` (a broker gives at most 32) from an offset on; see PullResult."""
        address = self._base.routes.address(queue.broker_name)
        call = pull_call(address, queue, TOOLS_GROUP, offset, max_messages=max_messages)
        return read_pull(self._base.session.call(call, accept=PULL_CODES), address)

    def read_range(self, queue: MessageQueue, begin: int, end: int) -> Iterator[list[StoredMessage]]:
        """The messages with offsets from `begin` to before `end`, in order, a list for each pull that found some.

        Several pulls are in flight: for exports and scans, not for consumers. What the broker has dropped meanwhile is
        left out. Nothing is committed. An outage never looks like the end of the range.
        """
        return _Range(self._base, queue, begin, end).lists()

    def query(
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
        }
        addresses = list(self._base.masters_of(topic).values())
        flags = {_UNIQUE_FLAG: "true"} if unique else {}
        calls = [
            Call(address, RequestCode.QUERY_MESSAGE, ext | ({} if address in self._without_flag else flags))
            for address in addresses
        ]
        found: list[StoredMessage] = []
        for call, answer in zip(calls, self._base.session.call_all(calls, timeout_ms=_QUERY_TIMEOUT_MS), strict=True):
            result = self._without(call) if isinstance(answer, NoPermission) and _UNIQUE_FLAG in call.ext else answer
            if isinstance(result, QueryNotFound):
                continue
            if isinstance(result, ClientError):
                raise result
            found += read(decode_stored, result.body, call.address)
        matching = [message for message in found if message.topic == topic and _has_key(message, key, unique)]
        return sorted(matching, key=lambda message: (message.store_timestamp, message.physical_offset))[:max_messages]

    def _without(self, call: Call) -> Command | ClientError:
        """The same without the flag: ACL 1.0 leaves it out of what it holds a signature against, so none would fit.

        Brokers that have ACL 1.0 find unique ids without it as well.
        """
        ext = {name: value for name, value in call.ext.items() if name != _UNIQUE_FLAG}
        (result,) = self._base.session.call_all([call._replace(ext=ext)], timeout_ms=_QUERY_TIMEOUT_MS)
        if not isinstance(result, NoPermission):
            self._without_flag.add(call.address)
        return result

    def between(self, topic: str, begin_ms: int, end_ms: int, *, max_messages: int = 64) -> list[StoredMessage]:
        """Messages of a topic stored from `begin_ms` to before `end_ms` (epoch ms), oldest first.

        At most `max_messages` of them, the oldest of each queue. Raises TopicNotExist.
        """
        found: list[StoredMessage] = []
        for queue in self._base.routes.read_queues(topic):
            offsets = QueueOffsets(self._base.session, self._base.routes)
            offset, last = offsets.search(queue, begin_ms), offsets.max(queue)
            of_queue: list[StoredMessage] = []
            while offset < last and len(of_queue) < max_messages:
                result = self.pull(queue, offset)
                of_queue += [message for message in result.messages if begin_ms <= message.store_timestamp]
                if result.next_offset <= offset or (of_queue and of_queue[-1].store_timestamp >= end_ms):
                    break
                offset = result.next_offset
            found += [message for message in of_queue if message.store_timestamp < end_ms]
        return sorted(found, key=lambda message: (message.store_timestamp, message.physical_offset))[:max_messages]

    def view(self, offset_message_id: str, topic: str) -> StoredMessage:
        """The message with an offset id (VIEW_MESSAGE_BY_ID).

        The id names an address: only one that is in the route of `topic` is connected to. Raises QueryNotFound
        when it is not, or when there is no message; MessageFormatError for a malformed id.
        """
        host, port, offset = parse_offset_message_id(offset_message_id)
        address = self._broker_at(topic, host, port)
        if address is None:
            text = f"no broker of topic {topic} is at {host}:{port}"
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, text, self._base.session.name_servers[0])
        ext = {"offset": str(offset), "topic": topic}
        try:
            response = self._base.session.call(Call(address, RequestCode.VIEW_MESSAGE_BY_ID, ext))
        except SystemFault as error:
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, error.text, address) from error
        messages = read(decode_stored, response.body, address)
        if not messages or messages[0].topic != topic:
            text = f"there is no message {offset_message_id} in topic {topic}"
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, text, address)
        return messages[0]

    def resend_dead_letter(self, group: str, letter: StoredMessage) -> SendResult:
        """Write a letter to the retry topic of `group`, to be delivered at once and to this group only.

        Unique id, keys, tag, properties, birth and body stay; the retry counter starts at 0. The consumer sees it
        with its first topic. Works while the group is offline. Raises TopicNotExist when the group never consumed.
        """
        topic = retry_topic(group)
        properties = {name: value for name, value in letter.properties.items() if name not in _FIRST_LIFE_ONLY}
        properties.setdefault(names.RETRY_TOPIC, letter.topic)
        properties[names.WAIT] = "true"
        encoded = encoded_properties(properties)
        packed = letter.sys_flag & (COMPRESSED | COMPRESSION_MASK << COMPRESSION_SHIFT)
        prepared = Prepared(topic, letter.unique_id, letter.body, encoded, packed, letter.born_timestamp)
        queues = self._base.routes.write_queues(topic)
        if not queues:
            text = f"{topic} has no queue"
            raise TopicNotExist(ResponseCode.TOPIC_NOT_EXIST, text, self._base.session.name_servers[0])
        queue = random.choice(queues)
        address = self._base.routes.address(queue.broker_name)
        # Not sent again by itself when the connection breaks: the consumer would get the letter twice.
        answer = self._base.session.submit(send_call(prepared, _SENDER, queue, address))
        response = self._base.session.wait(answer, address, self._base.session.timeout_ms)
        return read_send(response, prepared, queue, address)

    def _broker_at(self, topic: str, host: str, port: int) -> str | None:
        for broker in self._base.routes.route(topic).brokers:
            for address in broker.addresses.values():
                if is_at(address, host, port):
                    return address
        return None


class _Range:
    """Blocks of offsets asked for in advance, `[start, stop)` each; a block that came in part is asked for again."""

    def __init__(self, base: Base, queue: MessageQueue, begin: int, end: int) -> None:
        self._base, self._queue = base, queue
        self._ahead, self._end = begin, end
        self._size = MAX_MESSAGES
        self._asked: deque[tuple[int, int, Future[Command]]] = deque()

    def lists(self) -> Iterator[list[StoredMessage]]:
        while self._asked or self._ahead < self._end:
            self._ask()
            start, stop, answer = self._asked.popleft()
            while start < stop:
                found, start_next = self._read_block(answer, start, stop)
                if found:
                    yield found
                start = start_next
                if start < stop:
                    answer = self._submit(start, stop)

    def _ask(self) -> None:
        while len(self._asked) < IN_FLIGHT and self._ahead < self._end:
            stop = min(self._ahead + self._size, self._end)
            self._asked.append((self._ahead, stop, self._submit(self._ahead, stop)))
            self._ahead = stop

    def _submit(self, start: int, stop: int) -> Future[Command]:
        session, queue = self._base.session, self._queue
        address = self._base.routes.address(queue.broker_name)
        return session.submit(pull_call(address, queue, TOOLS_GROUP, start, max_messages=stop - start))

    def _read_block(self, answer: Future[Command], start: int, stop: int) -> tuple[list[StoredMessage], int]:
        """Messages of the block, and the offset to go on from."""
        result = self._result(answer, start, stop)
        found = [message for message in result.messages if start <= message.queue_offset < stop]
        if found:
            after = found[-1].queue_offset + 1
            # An answer holds 256 KiB: of large messages fewer fit, so ask for as many as come.
            self._size = len(found) if after < stop else min(MAX_MESSAGES, 2 * self._size)
            return found, after
        if result.status is PullStatus.NO_NEW_MSG:
            return [], stop
        after = max(result.next_offset, result.min_offset)
        return [], after if after > start else stop

    def _result(self, answer: Future[Command], start: int, stop: int) -> PullResult:
        session = self._base.session
        address = self._base.routes.address(self._queue.broker_name)
        try:
            return read_pull(session.wait(answer, address, session.timeout_ms), address)
        except BrokerUnreachable:
            # The connection broke with many pulls under way; this one is asked for once more, on a new one.
            call = pull_call(address, self._queue, TOOLS_GROUP, start, max_messages=stop - start)
            return read_pull(session.call(call, accept=PULL_CODES), address)


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
