"""Asks the brokers of a topic, and reads ranges of its queues: for sources, which tell what becomes of the messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.receiver import PATIENCE_S, PAUSE_S
from analytics.sources import mq
from brokercore.client import Admin, MessageQueue, QueueStats, StoredMessage
from brokercore.client.errors import BrokerNotExist, ClientError, TopicNotExist
from brokercore.names import wrap

log = logging.getLogger(__name__)

T = TypeVar("T")
Offset = dict[str, int]
_ALL_TAGS = "*"


@dataclass(frozen=True)
class Reading:
    """What is read of which topic, by which group, and where a pipeline without a checkpoint begins."""

    topic: mq.Topic
    group: str = ""
    namespace: str = ""
    #: `a || b`; empty or `*` for all.
    tag: str = ""
    start_offset: int | None = None
    start_ms: int | None = None

    def has(self, message: StoredMessage) -> bool:
        """Whether its tag is one that is read."""
        return not self._tags or message.tags in self._tags

    @cached_property
    def _tags(self) -> frozenset[str]:
        """Those that are read; empty for all."""
        tags = {tag for part in self.tag.split("||") if (tag := part.strip())}
        return frozenset() if _ALL_TAGS in tags else frozenset(tags)

    def messages(self, admin: Admin, queue: MessageQueue, begin: int, end: int) -> Iterator[StoredMessage]:
        """Those of a range, each once, also while brokers are restarted. Raises ConnectorFailed."""
        silence = Silence(f"Messages of {self.topic.name} cannot be read")
        while True:
            try:
                for messages in admin.messages.read_range(queue, begin, end):
                    silence.end()
                    for message in messages:
                        begin = message.queue_offset + 1
                        yield message
                return
            except ClientError as error:
                silence.go_on(error)
                time.sleep(PAUSE_S)
            except ValueError as error:
                raise ConnectorFailed(f"Messages of {self.topic.name} cannot be read: {error}") from None


class Silence:
    """How long brokers have not answered: one that is restarted does so again, and a queue service has as much time."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._since: float | None = None

    def end(self) -> None:
        """There is an answer."""
        self._since = None

    def go_on(self, error: ClientError) -> None:
        """There is none. Raises ConnectorFailed for what does not pass, and after PATIENCE_S."""
        now = time.monotonic()
        self._since = self._since or now
        if not _may_pass(error) or now - self._since >= PATIENCE_S:
            raise ConnectorFailed(f"{self._sentence}: {error}") from error


def _may_pass(error: ClientError) -> bool:
    """A name server that has just begun knows no broker yet, and no topic."""
    return error.retriable or isinstance(error, TopicNotExist | BrokerNotExist)


class Brokers:
    """Asks the brokers of a topic from the reader's long-lived process."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._admin: Admin | None = None
        self.silence = Silence(f"The brokers of {reading.topic.name} cannot be asked")

    def reach(self) -> dict[str, QueueStats]:
        """How far each queue reaches, by `<broker>:<queue>`. Raises ClientError."""
        found = self._client().topics.stats(self._reading.topic.name)
        return {f"{queue.broker_name}:{queue.queue_id}": stats for queue, stats in sorted(found.items())}

    def first(self) -> Offset:
        """Where a pipeline without a checkpoint begins. Raises ClientError."""
        return {place: self._first(place, stats) for place, stats in self.reach().items()}

    def message(self, place: str, offset: int) -> StoredMessage | None:
        """The message at an offset of a queue, or the first one behind it. Raises ClientError."""
        return next(iter(self._client().messages.pull(self.queue(place), offset, max_messages=1).messages), None)

    def patiently(self, ask: Callable[[], T]) -> T:
        """What `ask` tells, which raises ClientError, before there is a first message. Raises ConnectorFailed."""
        while True:
            try:
                found = ask()
            except TopicNotExist:
                raise ConnectorFailed(f"There is no topic {self._reading.topic.name}.") from None
            except ClientError as error:
                self.silence.go_on(error)
                time.sleep(PAUSE_S)
            else:
                self.silence.end()
                return found

    def _first(self, place: str, stats: QueueStats) -> int:
        reading, queue, low, high = self._reading, self.queue(place), stats.min_offset, stats.max_offset
        found: int | None = None
        if reading.start_ms is not None:
            found = self._client().offsets.search(queue, reading.start_ms) if high > low else high
        elif reading.start_offset is not None:
            found = reading.start_offset
        elif reading.group:
            found = self._client().offsets.committed(wrap(reading.namespace, reading.group), queue)
        return max(low, min(high, low if found is None else found))

    def commit(self, end: Offset) -> None:
        """Tell the consumer group; what does not arrive is told with the next batch."""
        if self._reading.group:
            offsets = {self.queue(place): offset for place, offset in end.items()}
            try:
                self._client().offsets.commit(wrap(self._reading.namespace, self._reading.group), offsets)
            except ClientError as error:
                log.info("the group %s is not told how far it is: %s", self._reading.group, error)

    def queue(self, place: str) -> MessageQueue:
        """The queue that is called `<broker>:<queue>`."""
        broker, _, queue = place.rpartition(":")
        return MessageQueue(self._reading.topic.name, broker, int(queue))

    def _client(self) -> Admin:
        if self._admin is None:
            self._admin = self._reading.topic.admin()
        return self._admin


def ranges(start: Mapping[str, int], end: Mapping[str, int]) -> list[mq.Reach]:
    """What stands from one offset to before another; from its first offset in a queue that only the latter has."""
    found = []
    for place, until in end.items():
        broker, _, queue = place.rpartition(":")
        if until > start.get(place, 0):
            found.append(mq.Reach(broker, int(queue), start.get(place, 0), until))
    return found
