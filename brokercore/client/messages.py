"""Messages as an application sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum

from brokercore.names import is_retry_topic, unwrap
from brokercore.protocol import properties as names
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue


@dataclass(slots=True)
class Message:
    """A message to send. `keys` are separated by spaces; `properties` are the user's own.

    `deliver_at_ms` (epoch ms) or `delay_level` (1 to 18) put its delivery off.
    """

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    deliver_at_ms: int | None = None
    delay_level: int = 0


class SendStatus(StrEnum):
    """What the broker promises for a message it took (Java's SendStatus)."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a sent message lies: `message_id` is its unique id; a delayed one has the offset of its parking place.

    `recall_handle` is given for a message with a delivery time: Producer.recall() takes it back.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus = SendStatus.SEND_OK
    transaction_id: str = ""
    recall_handle: str = ""


class ConsumeResult(Enum):
    """What a handler decides: done, or again later."""

    SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class TransactionState(Enum):
    """How a local transaction ended; values are the sysFlag bits of END_TRANSACTION."""

    COMMIT = 8
    ROLLBACK = 12
    UNKNOWN = 0


@dataclass(frozen=True, slots=True)
class MessageView:
    """A received message: names without namespace, body unpacked, times in epoch ms."""

    topic: str
    body: bytes
    tags: str
    keys: str
    message_id: str
    offset_message_id: str
    properties: dict[str, str]
    queue: MessageQueue
    queue_offset: int
    reconsume_times: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    born_host: str
    store_host: str

    @property
    def sharding_key(self) -> str:
        """The key that chose the queue of an ordered message."""
        return self.properties.get(names.SHARDING_KEY, "")

    @classmethod
    def of(cls, stored: StoredMessage, broker_name: str = "", namespace: str = "") -> MessageView:
        """View a stored message; one of a retry topic shows its first topic. Raises DecompressionError."""
        topic = stored.topic
        if is_retry_topic(topic):
            topic = stored.properties.get(names.RETRY_TOPIC, topic)
        return cls(
            topic=unwrap(namespace, topic),
            body=stored.decoded_body(),
            tags=stored.tags,
            keys=stored.keys,
            message_id=stored.unique_id or stored.offset_message_id,
            offset_message_id=stored.offset_message_id,
            properties=stored.properties,
            queue=MessageQueue(stored.topic, broker_name, stored.queue_id),
            queue_offset=stored.queue_offset,
            reconsume_times=stored.reconsume_times,
            born_timestamp_ms=stored.born_timestamp,
            store_timestamp_ms=stored.store_timestamp,
            born_host=f"{stored.born_host[0]}:{stored.born_host[1]}",
            store_host=f"{stored.store_host[0]}:{stored.store_host[1]}",
        )
