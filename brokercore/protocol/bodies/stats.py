"""Positions of queues: TopicStatsTable (202), ConsumeStats (208), reset tables (220, 222), time spans (303)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import (
    by_queue,
    dumps_object_keyed,
    dumps_with,
    integer,
    mapping,
    number,
    objects,
    read_numbered,
    read_object,
)
from brokercore.protocol.message_queue import MessageQueue

QueuePositions = list[int]
"""Of a topic's queues 0, 1, … on one broker: first offset, next offset, first offset, next offset, …"""


class QueueStats(NamedTuple):
    """Offsets of a queue; `max_offset` is the next to be written; `last_update_ms` is epoch ms, 0 when empty."""

    min_offset: int
    max_offset: int
    last_update_ms: int


class QueueProgress(NamedTuple):
    """How far a group is in a queue: offsets, and the store time (epoch ms) of the last consumed message."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp_ms: int


class TimeSpan(NamedTuple):
    """Store times (epoch ms) of a queue's first and last message and of the group's next; delay in ms."""

    min_ms: int
    max_ms: int
    consume_ms: int
    delay_ms: int


@dataclass(slots=True)
class TopicStats:
    """Answer of GET_TOPIC_STATS_INFO."""

    queues: dict[MessageQueue, QueueStats] = field(default_factory=dict)
    put_tps: float = 0.0

    def to_json(self) -> bytes:
        table = dumps_object_keyed(
            (
                queue.to_dict(),
                {"lastUpdateTimestamp": s.last_update_ms, "maxOffset": s.max_offset, "minOffset": s.min_offset},
            )
            for queue, s in self.queues.items()
        )
        return dumps_with({"topicPutTps": self.put_tps}, {"offsetTable": table})

    @classmethod
    def from_json(cls, data: bytes) -> TopicStats:
        fields = read_object(data)
        queues = {
            queue: QueueStats(
                integer(item, "minOffset"), integer(item, "maxOffset"), integer(item, "lastUpdateTimestamp")
            )
            for queue, item in by_queue(fields, "offsetTable")
        }
        return cls(queues, number(fields, "topicPutTps"))


@dataclass(slots=True)
class ConsumeStats:
    """Answer of GET_CONSUME_STATS: `tps` in messages a second, progress per queue."""

    tps: float = 0.0
    queues: dict[MessageQueue, QueueProgress] = field(default_factory=dict)

    @property
    def backlog(self) -> int:
        """Messages not yet consumed, over all queues."""
        return sum(max(progress.broker_offset - progress.consumer_offset, 0) for progress in self.queues.values())

    def to_json(self) -> bytes:
        table = dumps_object_keyed((queue.to_dict(), _progress(item)) for queue, item in self.queues.items())
        return dumps_with({"consumeTps": self.tps}, {"offsetTable": table})

    @classmethod
    def from_json(cls, data: bytes) -> ConsumeStats:
        fields = read_object(data)
        queues = {
            queue: QueueProgress(
                integer(item, "brokerOffset"),
                integer(item, "consumerOffset"),
                integer(item, "pullOffset"),
                integer(item, "lastTimestamp"),
            )
            for queue, item in by_queue(fields, "offsetTable")
        }
        return cls(number(fields, "consumeTps"), queues)


def _progress(item: QueueProgress) -> dict[str, int]:
    return {
        "brokerOffset": item.broker_offset,
        "consumerOffset": item.consumer_offset,
        "lastTimestamp": item.last_timestamp_ms,
        "pullOffset": item.pull_offset,
    }


def offsets_to_json(offsets: Mapping[MessageQueue, int], name: str = "offsetTable") -> bytes:
    """A body with one map from queue to offset (220, 222; `messageQueueTable` in 221)."""
    table = dumps_object_keyed((queue.to_dict(), offset) for queue, offset in offsets.items())
    return dumps_with({}, {name: table})


def offsets_from_json(data: bytes, name: str = "offsetTable") -> dict[MessageQueue, int]:
    """Read such a body. Raises LenientJsonError."""
    try:
        return {queue: int(offset) for queue, offset in by_queue(read_object(data), name)}
    except (TypeError, ValueError):
        raise LenientJsonError(f"an offset in {name} is not a whole number") from None


def group_offsets_from_json(data: bytes) -> dict[tuple[str, str], dict[int, int]]:
    """Read GET_ALL_CONSUMER_OFFSET: (topic, group) → queue id → committed offset. Raises LenientJsonError."""
    table: dict[tuple[str, str], dict[int, int]] = {}
    for key, queues in series_offsets_from_json(data).items():
        topic, _, group = key.partition("@")
        try:
            table[topic, group] = {int(queue): offset for queue, offset in queues.items()}
        except ValueError:
            raise LenientJsonError(f"the queues of {key[:80]!r} are not whole numbers") from None
    return table


def series_offsets_from_json(data: bytes) -> dict[str, dict[str, int]]:
    """As `group_offsets_from_json`, but as it came: `topic@group` → queue id → offset. Raises LenientJsonError."""
    table = mapping(read_numbered(data), "offsetTable")
    found = {key: queues for key, queues in table.items() if "@" in key and isinstance(queues, dict)}
    for key, queues in found.items():
        if not {int}.issuperset(map(type, queues.values())):
            raise LenientJsonError(f"the offsets of {key[:80]!r} are not whole numbers")
    return found


def queue_positions_from_json(data: bytes) -> QueuePositions:
    """Read GET_TOPIC_STATS_INFO of one broker, as `QueuePositions`. Raises LenientJsonError.

    The answer is in fastjson's dialect, of which thousands are read at a time; one that is written as brokers write it
    is read a hundred times as fast.
    """
    found = sorted((int(queue), int(least), int(most)) for queue, most, least in _POSITIONS.findall(data))
    if len(found) != data.count(b'"maxOffset"'):
        queues = TopicStats.from_json(data).queues.items()
        found = sorted((queue.queue_id, stats.min_offset, stats.max_offset) for queue, stats in queues)
    if [queue for queue, *_ in found] != list(range(len(found))):
        raise LenientJsonError("the queues of the topic are not numbered one after the other")
    return [offset for _, *offsets in found for offset in offsets]


_POSITIONS = re.compile(
    rb'\{"brokerName":"[^"\\]*","queueId":(\d{1,9}),"topic":"[^"\\]*"\}'
    rb':\{"lastUpdateTimestamp":\d+,"maxOffset":(\d{1,18}),"minOffset":(\d{1,18})(?=[,}])'
)


def latest_ms(data: bytes) -> int:
    """The latest store time (epoch ms) in TopicStats or ConsumeStats, 0 when there is none.

    For lists, which want this one number of many topics and groups: reading the dialect takes a millisecond each.
    """
    return max(map(int, _TIMES.findall(data)), default=0)


_TIMES = re.compile(rb'"last(?:Update)?Timestamp"\s*:\s*(\d{1,18})')


def topic_positions_to_json(topics: Mapping[str, QueuePositions]) -> bytes:
    """Answer of GET_ALL_TOPIC_OFFSETS."""
    return orjson.dumps({"offsetTable": topics})


def topic_positions_from_json(data: bytes) -> dict[str, QueuePositions]:
    """Read GET_ALL_TOPIC_OFFSETS: the positions of each topic's queues. Raises LenientJsonError."""
    table = mapping(read_object(data), "offsetTable")
    for topic, positions in table.items():
        if not isinstance(positions, list) or len(positions) % 2 or not {int}.issuperset(map(type, positions)):
            raise LenientJsonError(f"the offsets of {topic[:80]!r} are not pairs of whole numbers")
    return table


def time_spans_to_json(spans: Mapping[MessageQueue, TimeSpan]) -> bytes:
    """Answer of QUERY_CONSUME_TIME_SPAN."""
    items: list[dict[str, Any]] = [
        {
            "consumeTimeStamp": span.consume_ms,
            "delayTime": span.delay_ms,
            "maxTimeStamp": span.max_ms,
            "messageQueue": queue.to_dict(),
            "minTimeStamp": span.min_ms,
        }
        for queue, span in spans.items()
    ]
    return dumps_with({"consumeTimeSpanSet": items}, {})


def time_spans_from_json(data: bytes) -> dict[MessageQueue, TimeSpan]:
    """Read the answer of QUERY_CONSUME_TIME_SPAN."""
    return {
        MessageQueue.from_dict(mapping(item, "messageQueue")): TimeSpan(
            integer(item, "minTimeStamp"),
            integer(item, "maxTimeStamp"),
            integer(item, "consumeTimeStamp"),
            integer(item, "delayTime"),
        )
        for item in objects(read_object(data), "consumeTimeSpanSet")
    }
