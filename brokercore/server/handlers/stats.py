"""Positions and progress: topics (202, 810001), groups (208, 317, 303), who consumes what (300, 343, 345), 315."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import Any

import orjson

from brokercore.names import is_system_topic
from brokercore.protocol.bodies.stats import (
    ConsumeStats,
    QueuePositions,
    QueueProgress,
    QueueStats,
    TimeSpan,
    TopicStats,
    time_spans_to_json,
    topic_positions_to_json,
)
from brokercore.protocol.codes import OwnRequestCode, RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.fastjson import dumps_with
from brokercore.protocol.message_queue import MessageQueue
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import boolean, text
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_group, existing_topic, first_and_last_ms
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.statistics import DAY, GET, HOUR, MINUTE, PUT, Rate
from brokercore.server.storage import recovery
from brokercore.server.storage.queue import Queue

_OK = ResponseCode.SUCCESS


def topic_stats(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_TOPIC_STATS_INFO."""
    name = text(command.ext, "topic")
    queues = {
        MessageQueue(name, broker.name, queue.queue_id): QueueStats(
            queue.min_offset, queue.max_offset, queue.last_ms if queue.max_offset else 0
        )
        for queue in existing_topic(broker, name).visible_queues
    }
    return command.response(_OK, body=TopicStats(queues, broker.statistics.rate(PUT, name)).to_json())


async def all_topic_offsets(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_ALL_TOPIC_OFFSETS: of all topics but the system's, in one answer."""
    topics: dict[str, QueuePositions] = {}
    async for name, topic in broker.pace.work(caller.account).over(broker.topics.items()):
        if not is_system_topic(name):
            topics[name] = [offset for q in topic.visible_queues for offset in (q.min_offset, q.max_offset)]
    return command.response(_OK, body=topic_positions_to_json(topics))


async def consume_stats(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_CONSUME_STATS."""
    group = text(command.ext, "consumerGroup")
    existing_group(broker, group)
    listed = list(dict.fromkeys(filter(None, (command.ext.get("topicList") or "").split(";"))))
    only = command.ext.get("topic")
    topics = [only] if only else listed or _topics_of(broker, group)
    return command.response(_OK, body=(await _progress(broker, connection, group, topics, caller)).to_json())


async def broker_consume_stats(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_BROKER_CONSUME_STATS: all groups, or (isOrder) those that consume in order."""
    ordered = boolean(command.ext, "isOrder")
    entries, total, in_flight = [], 0, 0
    for group, config in broker.groups.items():
        if config.consume_message_orderly != ordered and ordered:
            continue
        progress = [await _progress(broker, connection, group, [topic], caller) for topic in _topics_of(broker, group)]
        progress = [item for item in progress if item.queues]
        total += sum(item.backlog for item in progress)
        in_flight += sum(max(0, q.pull_offset - q.consumer_offset) for item in progress for q in item.queues.values())
        if progress:
            entries.append(b"{" + orjson.dumps(group) + b":[" + b",".join(p.to_json() for p in progress) + b"]}")
    plain = {"brokerAddr": broker.address, "totalDiff": total, "totalInflightDiff": in_flight}
    return command.response(_OK, body=dumps_with(plain, {"consumeStatsList": b"[" + b",".join(entries) + b"]"}))


def groups_of_topic(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """QUERY_TOPIC_CONSUME_BY_WHO: groups that are online with a subscription, or have committed an offset.

    Whoever is let in to another's topic hears of the groups that it may see, and of no other.
    """
    name = text(command.ext, "topic")
    is_own = caller.is_system or broker.limits.owner_uid(name) == caller.tenant
    groups = set(broker.offsets.groups_of(name))
    groups |= {group for group, online in broker.clients.consumers.items() if name in online.subscriptions}
    seen = [group for group in sorted(groups) if is_own or permissions.may_see_group(caller, connection, group)]
    return command.response(_OK, body=orjson.dumps({"groupList": seen}))


def topics_of_group(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """QUERY_TOPICS_BY_CONSUMER."""
    topics = sorted(broker.offsets.topics_of(text(command.ext, "group")))
    return command.response(_OK, body=orjson.dumps({"brokerAddr": broker.address, "topicList": topics}))


def subscription(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""
    group, topic = text(command.ext, "group"), command.ext.get("topic") or ""
    online = broker.clients.online(group)
    found = online.subscriptions.get(topic) if online else None
    answer = {"group": group, "topic": topic, "subscriptionData": found.to_dict() if found else None}
    return command.response(
        _OK, body=orjson.dumps({name: value for name, value in answer.items() if value is not None})
    )


async def time_span(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """QUERY_CONSUME_TIME_SPAN: store times of each queue's first, last and next message of the group."""
    name, group = text(command.ext, "topic"), text(command.ext, "group")
    spans: dict[MessageQueue, TimeSpan] = {}
    for queue in existing_topic(broker, name).visible_queues:
        async with connection.reads:
            first_ms, last_ms = await first_and_last_ms(broker, queue)
            if not last_ms:
                continue
            committed = broker.offsets.get(group, name, queue.queue_id) or 0
            consumed_ms = await _stored_ms(broker, queue, max(committed - 1, queue.min_offset))
            behind = 0
            if committed < queue.max_offset:
                next_ms = await _stored_ms(broker, queue, max(committed, queue.min_offset))
                behind = max(0, int(time.time() * 1000) - next_ms)
        spans[MessageQueue(name, broker.name, queue.queue_id)] = TimeSpan(first_ms, last_ms, consumed_ms, behind)
    return command.response(_OK, body=time_spans_to_json(spans))


def rates(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """VIEW_BROKER_STATS_DATA."""
    name, key = text(command.ext, "statsName"), text(command.ext, "statsKey")
    counter = broker.statistics.find(name, key)
    if counter is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    body = {
        f"stats{period}": _rate(counter.over(seconds))
        for period, seconds in (("Minute", MINUTE), ("Hour", HOUR), ("Day", DAY))
    }
    return command.response(_OK, body=orjson.dumps(body))


def _rate(rate: Rate) -> dict[str, float]:
    return {"avgpt": rate.average, "sum": rate.total, "tps": rate.per_second}


def _topics_of(broker: Broker, group: str) -> list[str]:
    """Topics in which the group committed; when it is online, only those it still subscribes to."""
    topics = broker.offsets.topics_of(group)
    online = broker.clients.online(group)
    return [topic for topic in topics if online is None or topic in online.subscriptions]


async def _progress(
    broker: Broker, connection: Connection, group: str, topics: list[str], caller: Caller
) -> ConsumeStats:
    stats, consumed = ConsumeStats(), []
    work = broker.pace.work(caller.account)
    async for name in work.over(topics):
        topic = broker.topics.get(name)
        for queue in topic.visible_queues if topic else ():
            committed = broker.offsets.get(group, name, queue.queue_id) or 0
            consumed.append((queue, committed))
        stats.tps += broker.statistics.rate(GET, f"{name}@{group}")
    places = [q.base + committed - 1 for q, committed in consumed if q.min_offset < committed <= q.max_offset]
    times: dict[int, int] = {}
    async with connection.reads, aclosing(broker.store.in_pieces(places)) as pieces:
        async for frames in pieces:
            async for frame in work.over(frames):
                times[int.from_bytes(frame[28:36], "big")] = recovery.store_timestamp(frame)
    async for queue, committed in work.over(consumed):
        pulled = max(committed, broker.offsets.pull_offset(group, queue.topic, queue.queue_id))
        last_ms = times.get(queue.base + committed - 1, 0)
        stats.queues[MessageQueue(queue.topic, broker.name, queue.queue_id)] = QueueProgress(
            queue.max_offset, committed, pulled, last_ms
        )
    return stats


async def _stored_ms(broker: Broker, queue: Queue, offset: int) -> int:
    found = await broker.store.read(queue, offset, 1)
    return recovery.store_timestamp(found[0][1]) if found else 0


HANDLERS: dict[int, Any] = {
    RequestCode.GET_TOPIC_STATS_INFO: topic_stats,
    OwnRequestCode.GET_ALL_TOPIC_OFFSETS: all_topic_offsets,
    RequestCode.GET_CONSUME_STATS: consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: broker_consume_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups_of_topic,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: subscription,
    RequestCode.QUERY_CONSUME_TIME_SPAN: time_span,
    RequestCode.VIEW_BROKER_STATS_DATA: rates,
}
