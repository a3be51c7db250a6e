"""Consumer groups: configuration, creation, deletion, progress, and their offsets."""

from __future__ import annotations

from brokercore.client.admin.base import Base, read, read_names
from brokercore.client.admin.topics import Topics
from brokercore.client.errors import GroupNotExist, TopicNotExist
from brokercore.client.offsets import QueueOffsets
from brokercore.client.session import Call, integer
from brokercore.names import topics_of
from brokercore.protocol.bodies.config import GroupConfig, group_table_from_json
from brokercore.protocol.bodies.stats import (
    ConsumeStats,
    TimeSpan,
    group_offsets_from_json,
    offsets_from_json,
    time_spans_from_json,
)
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message_queue import MessageQueue


class Groups:
    """Groups of the cluster. A change goes to every master."""

    def __init__(self, base: Base, topics: Topics) -> None:
        self._base = base
        self._topics = topics

    def configs(self) -> dict[str, GroupConfig]:
        """The configuration of every group by name."""
        merged: dict[str, GroupConfig] = {}
        for configs in self.configs_by_broker().values():
            merged = configs | merged
        return merged

    def configs_by_broker(self) -> dict[str, dict[str, GroupConfig]]:
        """As `configs`, for each master by its broker name (GET_ALL_SUBSCRIPTIONGROUP_CONFIG)."""
        masters = self._base.masters()
        answers = self._base.ask(masters.values(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return {name: read(group_table_from_json, answers[address].body, address) for name, address in masters.items()}

    def config(self, group: str) -> GroupConfig:
        """The configuration of a group (GET_SUBSCRIPTIONGROUP_CONFIG). Raises GroupNotExist."""
        answers = self._base.ask_where_known(
            self._base.masters().values(), RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}, GroupNotExist
        )
        address, response = next(iter(answers.items()))
        return read(GroupConfig.from_json, response.body, address)

    def create(self, group: str, *, retry_max_times: int = 16, consume_enable: bool = True) -> None:
        """Create or change a group on every master (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)."""
        self.update(GroupConfig(group, retry_max_times=retry_max_times, consume_enable=consume_enable))

    def update(self, config: GroupConfig) -> None:
        """Create or change a group on every master with all its settings; see `config` for the present ones."""
        self._base.ask(
            self._base.masters().values(), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.to_json()
        )

    def delete(self, group: str) -> None:
        """Delete a group, its offsets, its retry topic and its dead letters, as `mqadmin deleteSubGroup` does."""
        ext = {"groupName": group, "cleanOffset": "true"}
        self._base.ask(self._base.masters().values(), RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
        for topic in topics_of(group):
            self._topics.delete(topic)

    def topics(self, group: str) -> list[str]:
        """Topics a group subscribes to or has offsets in (QUERY_TOPICS_BY_CONSUMER)."""
        topics: set[str] = set()
        answers = self._base.ask(self._base.masters().values(), RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": group})
        for address, response in answers.items():
            topics.update(read_names(response.body, "topicList", address))
        return sorted(topics)

    def stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Progress of a group in all its topics or in one, rate in messages a second (GET_CONSUME_STATS)."""
        ext = {"consumerGroup": group} | ({"topic": topic} if topic else {})
        merged = ConsumeStats()
        answers = self._base.ask_where_known(
            self._base.masters().values(), RequestCode.GET_CONSUME_STATS, ext, TopicNotExist
        )
        for address, response in answers.items():
            stats = read(ConsumeStats.from_json, response.body, address)
            merged.tps += stats.tps
            merged.queues |= stats.queues
        return merged


class Offsets(QueueOffsets):
    """Offsets of single queues (see QueueOffsets), and the positions of whole groups."""

    def __init__(self, base: Base, groups: Groups) -> None:
        super().__init__(base.session, base.routes)
        self._base = base
        self._groups = groups

    def all_committed(self) -> dict[tuple[str, str], dict[MessageQueue, int]]:
        """Every committed offset: (topic, group) → queue → offset (GET_ALL_CONSUMER_OFFSET, one request a broker)."""
        masters = self._base.masters()
        answers = self._base.ask(masters.values(), RequestCode.GET_ALL_CONSUMER_OFFSET)
        merged: dict[tuple[str, str], dict[MessageQueue, int]] = {}
        for name, address in masters.items():
            for (topic, group), queues in read(group_offsets_from_json, answers[address].body, address).items():
                offsets = merged.setdefault((topic, group), {})
                offsets |= {MessageQueue(topic, name, queue): offset for queue, offset in queues.items()}
        return merged

    def reset(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
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
        masters = self._base.routes.masters(topic)
        answers = self._base.ask(masters.values(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
        offsets: dict[MessageQueue, int] = {}
        for address, response in answers.items():
            offsets |= read(offsets_from_json, response.body, address) if response.body else {}
        return offsets

    def time_span(self, topic: str, group: str) -> dict[MessageQueue, TimeSpan]:
        """From when to when the stored messages reach, and where the group stands, in epoch ms."""
        spans: dict[MessageQueue, TimeSpan] = {}
        ext = {"topic": topic, "group": group}
        answers = self._base.ask(self._base.routes.masters(topic).values(), RequestCode.QUERY_CONSUME_TIME_SPAN, ext)
        for address, response in answers.items():
            spans |= read(time_spans_from_json, response.body, address)
        return spans

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the first message still stored was stored, in epoch ms; -1 when there is none."""
        address = self._base.routes.address(queue.broker_name)
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
        response = self._base.session.call(Call(address, RequestCode.GET_EARLIEST_MSG_STORETIME, ext))
        return integer(response, "timestamp", address)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let a group stand in a topic where another one stands, as `mqadmin cloneGroupOffset` does.

        Both groups must exist; online consumers of the target overwrite it. Raises GroupNotExist.
        """
        stats = self._groups.stats(source, topic)
        self.commit(
            target,
            {queue: progress.consumer_offset for queue, progress in stats.queues.items() if queue.topic == topic},
        )
