"""SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: from a message to its request and queue, from the answer to the result."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType

from brokercore.client.errors import (
    BrokerError,
    BrokerUnreachable,
    ClientError,
    InvalidMessage,
    NoPermission,
    RequestTimeout,
)
from brokercore.client.messages import Message, SendResult, SendStatus
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session, check, integer
from brokercore.names import AUTO_CREATE_TOPIC, wrap
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.ids import java_string_hash, new_unique_id, new_unique_ids
from brokercore.protocol.message import (
    COMPRESS_FROM,
    COMPRESSED_ZLIB,
    TRANSACTION_PREPARED,
    BatchMessage,
    compress,
    encode_batch,
)
from brokercore.protocol.message_queue import MessageQueue
from brokercore.protocol.properties import LEVELS, encode_properties

log = logging.getLogger(__name__)

MAX_BODY = 4 * 1024 * 1024
"""Largest body in bytes that brokers take."""

MAX_TOPIC = 127

_STATUS = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
}
_STORED = frozenset(_STATUS)
_RESERVED = frozenset(
    {names.KEYS, names.TAGS, names.WAIT, names.UNIQUE_KEY, names.DELAY, names.RETRY_TOPIC, names.REAL_TOPIC,
     names.REAL_QUEUE_ID, names.ORIGIN_MESSAGE_ID, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP,
     names.TRANSACTION_ID}
)  # fmt: skip
_TRY_ANOTHER_QUEUE = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Java retries NO_PERMISSION as well; here a refusal is final."""

UNREACHABLE_S = 30.0
"""Without an answer: the time after which Java's latency fault tolerance trusts a broker again."""

#: Characters of key and tag with which properties are not too long, whatever the characters are.
_SHORT = 4096

REFUSED_S = 3.0
"""With an answer that says "not now": soon it may be able again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message ready for the wire; only its queue is open. `message_id` is its unique id."""

    topic: str
    message_id: str
    body: bytes
    properties: str
    sys_flag: int
    born_timestamp: int
    code: RequestCode = RequestCode.SEND_MESSAGE_V2


def prepare(
    message: Message,
    namespace: str,
    group: str,
    *,
    sharding_key: str | None = None,
    half: bool = False,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> Prepared:
    """Check and encode a message. `half` marks the first phase of a transaction, `extra` are the client's properties.

    Raises InvalidMessage.
    """
    topic = _topic(message, namespace)
    _check_body(message)
    message_id = new_unique_id()
    properties = {**_properties(message, message_id, namespace, sharding_key), **extra}
    sys_flag = 0
    if half:
        properties |= {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: group}
        sys_flag |= TRANSACTION_PREPARED
    encoded = encoded_properties(properties)
    body = message.body
    if len(body) >= COMPRESS_FROM:
        smaller = compress(body)
        if len(smaller) < len(body):
            body, sys_flag = smaller, sys_flag | COMPRESSED_ZLIB
    return Prepared(topic, message_id, body, encoded, sys_flag, int(time.time() * 1000))


def prepare_batch(messages: Sequence[Message], namespace: str, group: str) -> tuple[Prepared, list[str]]:
    """Check and encode messages of one topic as one request; also the unique id of each. Raises InvalidMessage."""
    topics = {message.topic for message in messages}
    if len(topics) != 1:
        raise InvalidMessage(f"A batch has messages of one topic, not of {len(topics)}.")
    if any(message.delay_level or message.deliver_at_ms is not None for message in messages):
        raise InvalidMessage("A batch takes no delayed messages; send them one by one.")
    topic, ids, parts = _topic(messages[0], namespace), new_unique_ids(len(messages)), []
    own = {names.WAIT: "true"} | ({names.INSTANCE_ID: namespace} if namespace else {})
    end = encoded_properties(own)
    for message, message_id in zip(messages, ids, strict=True):
        _check_body(message)
        encoded = None if message.properties else _encoded_plain(message, message_id, end)
        if encoded is None:
            encoded = _encoded(_properties(message, message_id, namespace, None))
        parts.append(BatchMessage(0, message.body, encoded))
    body = encode_batch(parts)
    if len(body) > MAX_BODY:
        raise InvalidMessage(f"The batch has {len(body)} bytes; at most {MAX_BODY} are allowed.")
    # No unique id of the batch's own: Apache RocketMQ would give it to every message of the batch.
    batch = Prepared(
        topic, "", body, end, 0, int(time.time() * 1000),
        RequestCode.SEND_BATCH_MESSAGE,
    )  # fmt: skip
    return batch, ids


def batch_results(result: SendResult, ids: Sequence[str]) -> list[SendResult]:
    """The result of each message of a batch: they lie one behind the other."""
    offset_ids = result.offset_message_id.split(",")
    if len(offset_ids) != len(ids):
        offset_ids = [""] * len(ids)
    queue, first, status = result.queue, result.queue_offset, result.status
    transaction_id, recall_handle = result.transaction_id, result.recall_handle
    # Not by `replace`, which takes thrice as long.
    return [
        SendResult(message_id, offset_id, queue, first + number, status, transaction_id, recall_handle)
        for number, (message_id, offset_id) in enumerate(zip(ids, offset_ids, strict=True))
    ]


def send_call(prepared: Prepared, group: str, queue: MessageQueue, address: str) -> Call:
    """The request that sends it to a queue."""
    ext = {
        "a": group,
        "b": prepared.topic,
        "c": AUTO_CREATE_TOPIC,
        "d": "4",
        "e": str(queue.queue_id),
        "f": str(prepared.sys_flag),
        "g": str(prepared.born_timestamp),
        "h": "0",
        "i": prepared.properties,
        "j": "0",
        "k": "false",
        "m": "true" if prepared.code is RequestCode.SEND_BATCH_MESSAGE else "false",
        "n": queue.broker_name,
    }
    return Call(address, prepared.code, ext, prepared.body)


def read_send(response: Command, prepared: Prepared, queue: MessageQueue, address: str) -> SendResult:
    """The result. Raises BrokerError for codes that are not "stored", BadResponse."""
    check(response, address, _STORED)
    ext = response.ext
    return SendResult(
        message_id=prepared.message_id,
        offset_message_id=ext.get("msgId", ""),
        queue=queue._replace(queue_id=integer(response, "queueId", address)),
        queue_offset=integer(response, "queueOffset", address),
        status=_STATUS[response.code],
        transaction_id=ext.get("transactionId", ""),
        recall_handle=ext.get("recallHandle", ""),
    )


class Sender:
    """Sends prepared messages of a producer group. Methods raise ClientError."""

    def __init__(self, session: Session, routes: Routes, group: str, tries: int) -> None:
        self._session = session
        self._routes = routes
        self._group = group
        self._tries = tries
        self._turn = itertools.count()
        self._faults = Faults()

    def send(
        self,
        prepared: Prepared,
        timeout_ms: int,
        tries: int | None = None,
        before: Callable[[str], None] | None = None,
    ) -> SendResult:
        """Send within `timeout_ms`, with further tries on other queues; `before` gets the address of each first."""
        deadline = time.monotonic() + timeout_ms / 1000
        tried: list[MessageQueue] = []
        while True:
            queue = self.choose(prepared.topic, tried)
            left_ms = int((deadline - time.monotonic()) * 1000)
            try:
                if before is not None:
                    before(self._routes.address(queue.broker_name))
                return self.send_to(queue, prepared, max(left_ms, 1))
            except ClientError as error:
                tried.append(queue)
                late = time.monotonic() >= deadline
                if len(tried) >= (tries or self._tries) or late or not worth_another(error):
                    raise
                log.info("> %s queue %d: %s; trying another queue", queue.broker_name, queue.queue_id, error)
                self._routes.forget_all()

    def send_to(self, queue: MessageQueue, prepared: Prepared, timeout_ms: int) -> SendResult:
        """Send to this queue, once."""
        address = self._routes.address(queue.broker_name)
        answer = self.submit(queue, prepared, address, timeout_ms)
        try:
            return self.result(self._session.wait(answer, address, timeout_ms), prepared, queue, address)
        except ClientError as error:
            self._noted(queue, error)
            raise

    def submit(self, queue: MessageQueue, prepared: Prepared, address: str, timeout_ms: int) -> Future[Command]:
        """Send without waiting."""
        return self._session.submit(send_call(prepared, self._group, queue, address), timeout_ms)

    def finish(
        self, done: Future[Command], prepared: Prepared, queue: MessageQueue, address: str, timeout_ms: int
    ) -> SendResult:
        """The result of what was submitted; when it failed in a way that may pass, of further tries."""
        try:
            return self.result(done.result(), prepared, queue, address)
        except ClientError as error:
            self._noted(queue, error)
            if self._tries == 1 or not worth_another(error):
                raise
            return self.send(prepared, timeout_ms, self._tries - 1)

    def oneway(self, prepared: Prepared) -> None:
        """Send without an answer."""
        queue = self.choose(prepared.topic)
        self._session.oneway(send_call(prepared, self._group, queue, self._routes.address(queue.broker_name)))

    def result(self, response: Command, prepared: Prepared, queue: MessageQueue, address: str) -> SendResult:
        """Read an answer."""
        result = read_send(response, prepared, queue, address)
        self._faults.worked(queue.broker_name)
        return result

    def choose(self, topic: str, tried: Sequence[MessageQueue] = ()) -> MessageQueue:
        """The next queue in turn, on a broker that was not tried yet and has not failed lately, when there is one."""
        queues = self._routes.write_queues(topic)
        brokers = {queue.broker_name for queue in tried}
        fresh = (
            [queue for queue in queues if queue.broker_name not in brokers]
            or [queue for queue in queues if queue not in tried]
            or queues
        )
        usable = self._faults.usable(fresh)
        return usable[next(self._turn) % len(usable)] if usable else self._no_queue(topic)

    def queue_of_key(self, topic: str, sharding_key: str) -> MessageQueue:
        """The queue that a sharding key belongs to."""
        queues = self._routes.write_queues(topic)
        return queues[queue_of_key(sharding_key, len(queues))] if queues else self._no_queue(topic)

    def _noted(self, queue: MessageQueue, error: ClientError) -> None:
        if worth_another(error):
            self._faults.failed(queue.broker_name, error)

    def _no_queue(self, topic: str) -> MessageQueue:
        text = f"topic {topic} has no queue that may be written to"
        raise NoPermission(ResponseCode.NO_PERMISSION, text, ",".join(self._session.name_servers))


class Faults:
    """Until when each broker is avoided. Plain dictionary operations: safe in threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def failed(self, broker_name: str, error: ClientError) -> None:
        """A send to this broker failed, in a way that another broker may not."""
        silent = isinstance(error, BrokerUnreachable | RequestTimeout)
        self._until[broker_name] = self._clock() + (UNREACHABLE_S if silent else REFUSED_S)

    def worked(self, broker_name: str) -> None:
        """The broker took a message."""
        if self._until:
            self._until.pop(broker_name, None)

    def usable(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Queues of brokers that are not avoided; all when that leaves none."""
        if not self._until:
            return queues
        now = self._clock()
        good = [queue for queue in queues if self._until.get(queue.broker_name, 0.0) <= now]
        return good or queues


def queue_of_key(sharding_key: str, queues: int) -> int:
    """Number of the queue that a sharding key belongs to, among `queues`."""
    value = abs(java_string_hash(sharding_key))
    # Java's Math.abs leaves the smallest int negative; ons-client takes 0 then.
    return 0 if value == 2**31 else value % queues


def worth_another(error: ClientError) -> bool:
    """Whether the same message may be taken by another queue."""
    if isinstance(error, BrokerError):
        return error.code in _TRY_ANOTHER_QUEUE
    return isinstance(error, BrokerUnreachable | RequestTimeout)


def _topic(message: Message, namespace: str) -> str:
    topic = wrap(namespace, message.topic)
    if not topic or len(topic.encode()) > MAX_TOPIC:
        raise InvalidMessage(f"The topic name {topic[:80]!r} must have 1 to {MAX_TOPIC} bytes.")
    return topic


def _check_body(message: Message) -> None:
    if not message.body or len(message.body) > MAX_BODY:
        raise InvalidMessage(f"The body has {len(message.body)} bytes; 1 to {MAX_BODY} are allowed.")


def encoded_properties(properties: Mapping[str, str]) -> str:
    """The properties as they travel. Raises InvalidMessage."""
    return _encoded(properties).decode()


def _encoded_plain(message: Message, message_id: str, end: str) -> bytes | None:
    """What `_encoded` gives for a message of a batch without properties of its own, in a quarter of the time.

    None for what is to be looked at closely: a separator in a key or tag, or a long one.
    """
    words = message.keys + message.tags
    if "\x01" in words or "\x02" in words or len(words) > _SHORT:
        return None
    keys = f"{names.KEYS}\x01{message.keys}\x02" if message.keys else ""
    tags = f"{names.TAGS}\x01{message.tags}\x02" if message.tags else ""
    return f"{keys}{tags}{names.UNIQUE_KEY}\x01{message_id}\x02{end}".encode()


def _encoded(properties: Mapping[str, str]) -> bytes:
    try:
        return encode_properties(properties)
    except MessageFormatError as error:
        raise InvalidMessage(f"The properties are not acceptable: {error}.") from error


def _properties(message: Message, message_id: str, namespace: str, sharding_key: str | None) -> dict[str, str]:
    reserved = _RESERVED.intersection(message.properties)
    if reserved:
        raise InvalidMessage(f"The property {min(reserved)} is set by the client; use another name.")
    properties = dict(message.properties)
    properties |= {names.KEYS: message.keys, names.TAGS: message.tags, names.UNIQUE_KEY: message_id}
    properties[names.WAIT] = "true"
    if namespace:
        properties[names.INSTANCE_ID] = namespace
    if sharding_key is not None:
        properties[names.SHARDING_KEY] = sharding_key
    if message.delay_level and message.deliver_at_ms is not None:
        raise InvalidMessage("A message has a delay level or a delivery time, not both.")
    if not 0 <= message.delay_level <= LEVELS:
        raise InvalidMessage(f"The delay level is 1 to {LEVELS}, not {message.delay_level}.")
    if message.delay_level:
        properties[names.DELAY] = str(message.delay_level)
    if message.deliver_at_ms is not None:
        # The cloud's clients set the first, Apache brokers from 5.0 on know the second.
        properties[names.START_DELIVER_TIME] = str(message.deliver_at_ms)
        properties[names.TIMER_DELIVER_MS] = str(message.deliver_at_ms)
    return properties
