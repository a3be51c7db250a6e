"""Consumer groups: configuration, creation, deletion, progress, and their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from brokercore.client.admin.base import LARGE_MS, Base, OneOfMany, latest_by_name, read, read_names
from brokercore.client.admin.topics import Topics
from brokercore.client.errors import ClientError, ConsumerNotOnline, GroupNotExist, SystemFault, TopicNotExist
from brokercore.client.offsets import QueueOffsets
from brokercore.client.session import Call, integer
from brokercore.names import topics_of
from brokercore.protocol.bodies.clients import ConsumerConnection
from brokercore.protocol.bodies.config import GroupConfig, group_table_from_json
from brokercore.protocol.bodies.stats import (
    ConsumeStats,
    TimeSpan,
    group_offsets_from_json,
    offsets_from_json,
    series_offsets_from_json,
    time_spans_from_json,
)
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command
from brokercore.protocol.message_queue import MessageQueue

_SETTINGS = OneOfMany(
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    "group",
    GroupConfig.from_json,
    GroupNotExist,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    group_table_from_json,
)


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
        answers = self._base.ask(masters.values(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, timeout_ms=LARGE_MS)
        return {name: read(group_table_from_json, answers[address].body, address) for name, address in masters.items()}

    def config(self, group: str) -> GroupConfig:
        """The configuration of a group (GET_SUBSCRIPTIONGROUP_CONFIG). Raises GroupNotExist."""
        return self._base.settings_of(self._base.masters().values(), group, _SETTINGS)

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
        """Topics a group subscribes to or has offsets in (QUERY_TOPICS_BY_CONSUMER).

        Brokers of 4.9 have no such request: theirs are read from all offsets and from the group's online clients.
        """
        topics: set[str] = set()
        masters = self._base.masters().values()
        answers = self._base.ask_or_lack(masters, RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": group})
        for address, response in answers.items():
            topics.update(
                self._topics_at(address, group) if response is None else read_names(response.body, "topicList", address)
            )
        return sorted(topics)

    def _topics_at(self, address: str, group: str) -> set[str]:
        session, ext = self._base.session, {"consumerGroup": group}
        answer = session.call(Call(address, RequestCode.GET_ALL_CONSUMER_OFFSET, {}), timeout_ms=LARGE_MS)
        found = {topic for topic, name in read(group_offsets_from_json, answer.body, address) if name == group}
        with suppress(ConsumerNotOnline):
            online = session.call(Call(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, ext))
            found |= set(read(ConsumerConnection.from_json, online.body, address).subscriptions)
        return found

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

    def last_consumed_ms(self, groups: Sequence[str]) -> dict[str, int]:
        """When the last message was stored that each of these groups consumed (epoch ms), 0 for none; all at once.

        Groups that do not exist are left out.
        """
        ext = {group: {"consumerGroup": group} for group in groups}
        return latest_by_name(self._base, RequestCode.GET_CONSUME_STATS, ext)


class Offsets(QueueOffsets):
    """Offsets of single queues (see QueueOffsets), and the positions of whole groups."""

    def __init__(self, base: Base, groups: Groups, topics: Topics) -> None:
        super().__init__(base.session, base.routes)
        self._base = base
        self._groups = groups
        self._topics = topics

    def all_committed(self) -> dict[tuple[str, str], dict[MessageQueue, int]]:
        """Every committed offset: (topic, group) → queue → offset (GET_ALL_CONSUMER_OFFSET, one request a broker)."""
        masters = self._base.masters()
        answers = self._base.ask(masters.values(), RequestCode.GET_ALL_CONSUMER_OFFSET, timeout_ms=LARGE_MS)
        merged: dict[tuple[str, str], dict[MessageQueue, int]] = {}
        for name, address in masters.items():
            for (topic, group), queues in read(group_offsets_from_json, answers[address].body, address).items():
                offsets = merged.setdefault((topic, group), {})
                offsets |= {MessageQueue(topic, name, queue): offset for queue, offset in queues.items()}
        return merged

    def all_committed_by_series(self) -> dict[str, dict[str, dict[str, int]]]:
        """As `all_committed`, for tables of many groups: `topic@group` → broker → queue id as text → offset."""
        masters = self._base.masters()
        answers = self._base.ask(masters.values(), RequestCode.GET_ALL_CONSUMER_OFFSET, timeout_ms=LARGE_MS)
        merged: dict[str, dict[str, dict[str, int]]] = {}
        for name, address in masters.items():
            for series, queues in read(series_offsets_from_json, answers[address].body, address).items():
                merged.setdefault(series, {})[name] = queues
        return merged

    def reset(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Move a group to the messages stored from `timestamp_ms` (epoch ms; -1: to the end) on, online or not.

        Returns the new offsets (INVOKE_BROKER_TO_RESET_OFFSET). Brokers before 5.2 move online groups only, by their
        clients; for one that is offline there, each offset is looked up by its time and committed. Raises
        TopicNotExist, GroupNotExist.
        """
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": str(timestamp_ms),
            "isForce": "true",
            "queueId": "-1",
            "offset": "-1",
        }
        masters = self._base.masters_of(topic)
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        results = self._base.session.call_all([Call(address, code, dict(ext)) for address in masters.values()])
        offsets: dict[MessageQueue, int] = {}
        offline: list[str] = []
        for (name, address), result in zip(masters.items(), results, strict=True):
            if isinstance(result, ConsumerNotOnline) or _never_came(result):
                offline.append(name)
            elif isinstance(result, ClientError):
                raise result
            elif result.body:
                offsets |= read(offsets_from_json, result.body, address)
        return offsets | (self._moved(group, topic, timestamp_ms, offline) if offline else {})

    def reset_queue(self, group: str, queue: MessageQueue, timestamp_ms: int) -> int:
        """As `reset` for one queue, on brokers that move queues themselves (`Capability.QUEUE_RESETS`); the new offset.

        Others move the whole topic of an online group, whatever queue is named: commit there instead.
        """
        ext = {
            "topic": queue.topic,
            "group": group,
            "timestamp": str(timestamp_ms),
            "isForce": "true",
            "queueId": str(queue.queue_id),
            "offset": "-1",
        }
        address = self._base.routes.address(queue.broker_name)
        answer = self._base.session.call(Call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext))
        return read(offsets_from_json, answer.body, address)[queue]

    def _moved(self, group: str, topic: str, timestamp_ms: int, brokers: Sequence[str]) -> dict[MessageQueue, int]:
        """Commit for an offline group on these brokers, as `mqadmin resetOffsetByTime` does with old ones."""
        self._groups.config(group)  # such a broker would keep offsets of a group that it does not have
        offsets = {
            # For a time after the last message such a broker names the last one, which would come again.
            queue: stats.max_offset
            if timestamp_ms < 0 or timestamp_ms > stats.last_update_ms
            else self.search(queue, timestamp_ms)
            for queue, stats in self._topics.stats(topic).items()
            if queue.broker_name in brokers
        }
        self.commit(group, offsets)
        return offsets

    def time_span(self, topic: str, group: str) -> dict[MessageQueue, TimeSpan]:
        """From when to when the stored messages reach, and where the group stands, in epoch ms."""
        spans: dict[MessageQueue, TimeSpan] = {}
        ext = {"topic": topic, "group": group}
        answers = self._base.ask(self._base.masters_of(topic).values(), RequestCode.QUERY_CONSUME_TIME_SPAN, ext)
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


def _never_came(result: Command | ClientError) -> bool:
    """Brokers before 5.2 say with the code of a fault that no client of the group has been there since their start."""
    return isinstance(result, SystemFault) and result.text.lower().startswith("the consumer group <")
