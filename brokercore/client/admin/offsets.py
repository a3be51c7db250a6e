"""Positions of groups: progress, reset, offsets of queues."""

from __future__ import annotations

from brokercore.client.admin.base import AdminBase, read
from brokercore.client.errors import TopicNotExist
from brokercore.client.queue_offsets import QueueOffsets
from brokercore.client.session import Call, integer
from brokercore.protocol.bodies.stats import (
    ConsumeStats,
    TimeSpan,
    group_offsets_from_json,
    offsets_from_json,
    time_spans_from_json,
)
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message_queue import MessageQueue


class OffsetsAdmin(AdminBase):
    """Reads and moves consumption positions."""

    def consumer_offsets(self) -> dict[tuple[str, str], dict[MessageQueue, int]]:
        """Every committed offset: (topic, group) → queue → offset (GET_ALL_CONSUMER_OFFSET, one request a broker)."""
        masters = self.masters()
        answers = self.ask(masters.values(), RequestCode.GET_ALL_CONSUMER_OFFSET)
        merged: dict[tuple[str, str], dict[MessageQueue, int]] = {}
        for name, address in masters.items():
            for (topic, group), queues in read(group_offsets_from_json, answers[address].body, address).items():
                offsets = merged.setdefault((topic, group), {})
                offsets |= {MessageQueue(topic, name, queue): offset for queue, offset in queues.items()}
        return merged

    def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Progress of a group in all its topics or in one, rate in messages a second (GET_CONSUME_STATS)."""
        ext = {"consumerGroup": group} | ({"topic": topic} if topic else {})
        merged = ConsumeStats()
        answers = self.ask_where_known(self.masters().values(), RequestCode.GET_CONSUME_STATS, ext, TopicNotExist)
        for address, response in answers.items():
            stats = read(ConsumeStats.from_json, response.body, address)
            merged.tps += stats.tps
            merged.queues |= stats.queues
        return merged

    def reset_offset(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Move a group to the messages stored from `timestamp_ms` (epoch ms; -1: to the end) on, online or not.

        Returns the new offsets (INVOKE_BROKER_TO_RESET_OFFSET). Raises TopicNotExist, GroupNotExist.
        """
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": str(timestamp_ms),
            "isForce": "true",
            "queueId": "-1",
            "offset": "-1",
        }
        masters = self.routes.masters(topic)
        offsets: dict[MessageQueue, int] = {}
        for address, response in self.ask(masters.values(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext).items():
            offsets |= read(offsets_from_json, response.body, address) if response.body else {}
        return offsets

    def consume_time_span(self, topic: str, group: str) -> dict[MessageQueue, TimeSpan]:
        """From when to when the stored messages reach, and where the group stands, in epoch ms."""
        spans: dict[MessageQueue, TimeSpan] = {}
        ext = {"topic": topic, "group": group}
        answers = self.ask(self.routes.masters(topic).values(), RequestCode.QUERY_CONSUME_TIME_SPAN, ext)
        for address, response in answers.items():
            spans |= read(time_spans_from_json, response.body, address)
        return spans

    def min_offset(self, queue: MessageQueue) -> int:
        """Offset of the first message still stored."""
        return self._queue_offsets.min_offset(queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """Offset of the next message to be written."""
        return self._queue_offsets.max_offset(queue)

    def search_offset(self, queue: MessageQueue, timestamp_ms: int, boundary: str = "LOWER") -> int:
        """Offset of the first message stored at or after a time (epoch ms); `UPPER`: of the last one at it."""
        return self._queue_offsets.search_offset(queue, timestamp_ms, boundary)

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the first message still stored was stored, in epoch ms; -1 when there is none."""
        address = self.routes.address(queue.broker_name)
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
        response = self.session.call(Call(address, RequestCode.GET_EARLIEST_MSG_STORETIME, ext))
        return integer(response, "timestamp", address)

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group has committed, None when it has not."""
        return self._queue_offsets.committed(group, queue)

    def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset for a group (UPDATE_CONSUMER_OFFSET); online consumers of the group overwrite it."""
        self._queue_offsets.commit(group, {queue: offset})

    def clone_group_offset(self, source: str, target: str, topic: str) -> None:
        """Let a group stand in a topic where another one stands, as `mqadmin cloneGroupOffset` does.

        Both groups must exist; online consumers of the target overwrite it. Raises GroupNotExist.
        """
        stats = self.consume_stats(source, topic)
        self._queue_offsets.commit(
            target,
            {queue: progress.consumer_offset for queue, progress in stats.queues.items() if queue.topic == topic},
        )

    @property
    def _queue_offsets(self) -> QueueOffsets:
        return QueueOffsets(self.session, self.routes)
