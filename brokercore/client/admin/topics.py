"""Topics: names, configuration, creation, deletion, statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from brokercore.client.admin.base import LARGE_MS, Base, OneOfMany, latest_by_name, read, read_names
from brokercore.client.errors import (
    BrokerError,
    BrokerNotExist,
    BrokerUnreachable,
    ClientError,
    QueryNotFound,
    RequestNotSupported,
    RequestTimeout,
    TopicNotExist,
)
from brokercore.client.session import Call
from brokercore.names import AUTO_CREATE_TOPIC
from brokercore.protocol.bodies.config import MESSAGE_TYPE_ATTRIBUTE, TopicConfig, topic_table_from_json
from brokercore.protocol.bodies.route import TopicRoute
from brokercore.protocol.bodies.stats import (
    QueuePositions,
    QueueStats,
    TopicStats,
    queue_positions_from_json,
    topic_positions_from_json,
)
from brokercore.protocol.codes import OwnRequestCode, RequestCode, ResponseCode
from brokercore.protocol.message_queue import MessageQueue

_ORDER_CONFIG = "ORDER_TOPIC_CONFIG"
"""Name-server namespace with the fixed queues of ordered topics."""

_AT_A_TIME = 500

_SETTINGS = OneOfMany(
    RequestCode.GET_TOPIC_CONFIG,
    "topic",
    TopicConfig.from_json,
    TopicNotExist,
    RequestCode.GET_ALL_TOPIC_CONFIG,
    topic_table_from_json,
)


class Topics:
    """Topics of the cluster. A change goes to every master."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def names(self) -> list[str]:
        """All topics the name server knows, retry and system topics included."""
        response = self._base.session.call_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        return read_names(response.body, "topicList", self._base.session.name_servers[0])

    def configs(self) -> dict[str, TopicConfig]:
        """The configuration of every topic by name. Queue numbers are those of one broker."""
        merged: dict[str, TopicConfig] = {}
        for configs in self.configs_by_broker().values():
            merged = configs | merged
        return merged

    def configs_by_broker(self) -> dict[str, dict[str, TopicConfig]]:
        """As `configs`, for each master by its broker name (GET_ALL_TOPIC_CONFIG)."""
        masters = self._base.masters()
        answers = self._base.ask(masters.values(), RequestCode.GET_ALL_TOPIC_CONFIG, timeout_ms=LARGE_MS)
        return {name: read(topic_table_from_json, answers[address].body, address) for name, address in masters.items()}

    def config(self, topic: str) -> TopicConfig:
        """The configuration of a topic. Raises TopicNotExist."""
        return self._base.settings_of(self._base.masters_of(topic).values(), topic, _SETTINGS)

    def create(
        self,
        topic: str,
        *,
        queues: int = 8,
        perm: int = 6,
        message_type: str = "NORMAL",
        order: bool = False,
        one_broker: bool = False,
    ) -> None:
        """Create or change a topic on every master, `queues` on each (UPDATE_AND_CREATE_TOPIC).

        `perm`: 4 read, 2 write, 6 both; `message_type`: NORMAL, FIFO, DELAY, TRANSACTION; `order` fixes its queues.
        `one_broker` is for topics that are ordered overall: the master that has it, or one chosen by its name.
        Raises InvalidParameter for a bad name, BrokerNotExist when the one broker that has it is away.
        """
        masters = self._base.masters()
        if one_broker:
            masters = self._one_master(topic, masters)
        ext = {
            "topic": topic,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": str(perm),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "true" if order else "false",
            "attributes": f"+{MESSAGE_TYPE_ATTRIBUTE}={message_type}",
            "force": "false",
        }
        self._base.ask(masters.values(), RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
        if order:
            value = ";".join(f"{name}:{queues}" for name in sorted(masters))
            self._change_order_config(RequestCode.PUT_KV_CONFIG, topic, value)
        self._base.routes.forget(topic)

    def delete(self, topic: str) -> None:
        """Delete a topic on every master and from the name servers (DELETE_TOPIC_IN_BROKER, _IN_NAMESRV)."""
        cluster = self._base.routes.cluster()
        self._base.ask(self._base.masters().values(), RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        for name in cluster.clusters:
            self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic, "clusterName": name})
        self._change_order_config(RequestCode.DELETE_KV_CONFIG, topic)
        self._base.routes.forget(topic)

    def stats(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Offsets of every queue of a topic. Raises TopicNotExist."""
        masters = self._base.masters_of(topic)
        answers = self._base.ask_where_known(
            masters.values(), RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}, TopicNotExist
        )
        stats: dict[MessageQueue, QueueStats] = {}
        for address, response in answers.items():
            stats |= read(TopicStats.from_json, response.body, address).queues
        return stats

    def stats_of(self, topics: Iterable[str]) -> dict[str, dict[MessageQueue, QueueStats]]:
        """As `stats` for many topics, all requests in flight at once. Topics that do not exist are left out."""
        wanted = [(topic, address) for address in self._base.masters().values() for topic in topics]
        calls = [Call(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}) for topic, address in wanted]
        stats: dict[str, dict[MessageQueue, QueueStats]] = {}
        for (topic, address), result in zip(wanted, self._base.session.call_all(calls), strict=True):
            if isinstance(result, TopicNotExist):
                continue
            if isinstance(result, ClientError):
                raise result
            stats.setdefault(topic, {}).update(read(TopicStats.from_json, result.body, address).queues)
        return stats

    def all_positions(self) -> dict[str, dict[str, QueuePositions]]:
        """Of every topic but the system's: positions of its queues by broker (GET_ALL_TOPIC_OFFSETS).

        One request a broker. Raises RequestNotSupported for brokers of Apache, which have no such request.
        """
        masters = self._base.masters()
        answers = self._base.ask(masters.values(), OwnRequestCode.GET_ALL_TOPIC_OFFSETS, timeout_ms=LARGE_MS)
        found: dict[str, dict[str, QueuePositions]] = {}
        for name, address in masters.items():
            for topic, positions in read(topic_positions_from_json, answers[address].body, address).items():
                found.setdefault(topic, {})[name] = positions
        return found

    def positions_of(self, topics: Sequence[str]) -> dict[str, dict[str, QueuePositions]]:
        """As `all_positions` for these topics, a request for each and broker, some hundred in flight at a time.

        Topics that do not exist are left out.
        """
        found: dict[str, dict[str, QueuePositions]] = {}
        for name, address in self._base.masters().items():
            for at in range(0, len(topics), _AT_A_TIME):
                part = topics[at : at + _AT_A_TIME]
                calls = [Call(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}) for topic in part]
                for topic, result in zip(part, self._base.session.call_all(calls), strict=True):
                    if isinstance(result, TopicNotExist):
                        continue
                    if isinstance(result, ClientError):
                        raise result
                    found.setdefault(topic, {})[name] = read(queue_positions_from_json, result.body, address)
        return found

    def last_stored_ms(self, topics: Sequence[str]) -> dict[str, int]:
        """When each of these topics got its last message (epoch ms), 0 for never; all requests in flight at once.

        Topics that do not exist are left out.
        """
        ext = {topic: {"topic": topic} for topic in topics}
        return latest_by_name(self._base, RequestCode.GET_TOPIC_STATS_INFO, ext)

    def route(self, topic: str) -> TopicRoute:
        """The route of a topic, asked anew. Raises TopicNotExist."""
        return self._base.routes.route(topic, fresh=True)

    def groups(self, topic: str) -> list[str]:
        """Consumer groups that subscribe to a topic or have offsets in it (QUERY_TOPIC_CONSUME_BY_WHO)."""
        answers = self._base.ask(
            self._base.masters_of(topic).values(), RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
        )
        groups: set[str] = set()
        for address, response in answers.items():
            groups.update(read_names(response.body, "groupList", address))
        # Brokers of 5.3.3 list the topic itself as a group.
        return sorted(groups - {topic})

    def _one_master(self, topic: str, masters: dict[str, str]) -> dict[str, str]:
        name_server = self._base.session.name_servers[0]
        if not masters:
            raise BrokerNotExist(ResponseCode.BROKER_NOT_EXIST, "there is no broker", name_server)
        ext = {"namespace": _ORDER_CONFIG, "key": topic}
        try:
            ordered = self._base.session.call_name_server(RequestCode.GET_KV_CONFIG, ext).ext.get("value", "")
        except QueryNotFound:
            ordered = ""
        known = sorted(part.partition(":")[0] for part in ordered.split(";") if part)
        name = known[0] if known else sorted(masters)[crc32(topic.encode()) % len(masters)]
        if name not in masters:
            text = f"the broker {name}, which has topic {topic}, is not there"
            raise BrokerNotExist(ResponseCode.BROKER_NOT_EXIST, text, name_server)
        return {name: masters[name]}

    def _change_order_config(self, code: RequestCode, topic: str, value: str | None = None) -> None:
        """With a value it is set; without one it is deleted, and one that is not there is no failure."""
        ext = {"namespace": _ORDER_CONFIG, "key": topic} | ({} if value is None else {"value": value})
        try:
            self._tell_name_servers(code, ext)
        except (QueryNotFound, RequestNotSupported):
            if value is not None:
                raise
        except BrokerError as error:
            if value is not None or error.code != 1:
                raise

    def _tell_name_servers(self, code: RequestCode, ext: dict[str, str]) -> None:
        """The same to every name server that answers, since each knows for itself. Raises if none does or one refuses.

        One that is away is told nothing: it knows no topics when it is back, and what it has kept of fixed queues is
        what clients would work out themselves.
        """
        calls = [Call(address, code, dict(ext)) for address in self._base.session.name_servers]
        errors = [result for result in self._base.session.call_all(calls) if isinstance(result, ClientError)]
        away = [error for error in errors if isinstance(error, BrokerUnreachable | RequestTimeout)]
        for error in errors:
            if error not in away or len(away) == len(calls):
                raise error
