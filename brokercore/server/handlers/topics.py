"""Topics: create and change (17, 18), delete (215), show (21, 351)."""

from __future__ import annotations

import re

from brokercore.names import BROKER_NAME, TRACE_TOPIC, group_of
from brokercore.protocol.bodies.config import MAX_CONFIG, TopicConfig, topic_rows_to_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.fastjson import exact, objects, read_object
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import boolean, integer, text
from brokercore.server.delivery.replies import is_reply_topic, reply_cluster
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_topic
from brokercore.server.peers.catching_up import remove_topic
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.rights.bare_names import is_bare, let_make
from brokercore.server.rights.limits import INSTANCE_PREFIX
from brokercore.server.storage.topics import is_kept_topic

MAX_QUEUES = 1024
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_MESSAGE_TYPES = frozenset({"NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "UNSPECIFIED"})
_INVALID = ResponseCode.INVALID_PARAMETER


async def create(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_AND_CREATE_TOPIC; attributes come as `+name=value,-name`."""
    ext = command.ext
    name = text(ext, "topic")
    known = broker.topics.get(name)
    attributes = dict(known.config.attributes) if known else {}
    for change in filter(None, ext.get("attributes", "").split(",")):
        attribute, _, value = change[1:].partition("=")
        if change[0] == "+" and value:
            attributes[attribute] = value
        elif change[0] == "-":
            attributes.pop(attribute, None)
        else:
            raise Refusal(_INVALID, f"the attribute {change!r} is neither +name=value nor -name")
    config = TopicConfig(
        name,
        integer(ext, "readQueueNums"),
        integer(ext, "writeQueueNums"),
        integer(ext, "perm"),
        boolean(ext, "order"),
        attributes,
        integer(ext, "topicSysFlag", 0),
        ext.get("topicFilterType") or "SINGLE_TAG",
    )
    await _save(broker, connection, caller, config)
    return command.response(ResponseCode.SUCCESS)


async def create_many(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_AND_CREATE_TOPIC_LIST."""
    for item in objects(read_object(command.body), "topicConfigList"):
        config = TopicConfig.from_dict(item)
        config.attributes = {name.removeprefix("+"): value for name, value in config.attributes.items()}
        await _save(broker, connection, caller, config)
    return command.response(ResponseCode.SUCCESS)


async def delete(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """DELETE_TOPIC_IN_BROKER: its messages, its index and all offsets in it go with it."""
    name = text(command.ext, "topic")
    if is_kept_topic(name):
        raise Refusal(_INVALID, f"the topic {name} belongs to the broker and cannot be deleted")
    await remove_topic(broker, name)
    return command.response(ResponseCode.SUCCESS)


async def all_topics(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_ALL_TOPIC_CONFIG: the topics the caller may see."""
    rows = {}
    async for name, topic in broker.pace.work(caller.account).over(broker.topics.items()):
        if permissions.may_see_topic(caller, connection, name):
            rows[name] = exact(topic.config.to_json())
    return command.response(ResponseCode.SUCCESS, body=topic_rows_to_json(rows, broker.topics.version))


def one_topic(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_TOPIC_CONFIG."""
    topic = existing_topic(broker, text(command.ext, "topic"))
    return command.response(ResponseCode.SUCCESS, body=topic.config.to_json())


async def _save(broker: Broker, connection: Connection, caller: Caller, config: TopicConfig) -> None:
    if not is_bare(config.topic):
        action = "mq:UpdateTopic" if broker.topics.get(config.topic) else "mq:CreateTopic"
        permissions.require(caller, connection, (action,), config.topic)
    _check(broker, caller, config)
    made = is_bare(config.topic) and await let_make(
        broker, connection, caller, kind="topic", name=config.topic, config=config.to_dict()
    )
    if made or caller.account is None or broker.topics.get(config.topic) is not None:
        await _store(broker, caller, config)
        return
    async with caller.account.making:
        steps = broker.limits.check_count(caller.account, "topics", broker.topics.names())
        await broker.pace.work(caller.account).through(steps)
        await _store(broker, caller, config)


async def _store(broker: Broker, caller: Caller, config: TopicConfig) -> None:
    known = broker.topics.get(config.topic)
    more = max(config.read_queues, config.write_queues) - (len(known.queues) if known else 0)
    broker.limits.add_queues(caller.account, config.topic, more)
    await broker.topics.save(config)
    broker.waiting.review()


def is_reserved(broker: Broker, name: str) -> bool:
    """Whether a name stands for something else: the cluster, a broker, a topic of replies, an instance."""
    cluster = broker.settings.cluster_name
    brokers = {broker.name, *broker.registry.peers}
    instance, mark, inside = name.partition("%")
    if instance.startswith(INSTANCE_PREFIX):
        return not mark or not inside or "%" in inside
    replies = (cluster, *(reply_cluster(cluster, holder) for holder in brokers))
    return (
        name == cluster
        or name in brokers
        or re.fullmatch(BROKER_NAME, name) is not None
        or any(is_reply_topic(name, called) for called in replies)
    )


def _check(broker: Broker, caller: Caller, config: TopicConfig) -> None:
    name = config.topic
    if not name or not _NAME.fullmatch(name):
        raise Refusal(_INVALID, f"the topic name {name[:64]!r} is not made of the characters %|a-zA-Z0-9_-")
    if len(name) > 127 and not group_of(name):
        raise Refusal(_INVALID, f"the topic name has {len(name)} characters; allowed are 127")
    if is_kept_topic(name) and name != TRACE_TOPIC:
        raise Refusal(_INVALID, f"the topic {name} conflicts with a topic of the broker")
    # Whoever runs the brokers may: mqadmin sends to topics that are called as a broker or the cluster is.
    if broker.topics.get(name) is None and not caller.is_system and is_reserved(broker, name):
        raise Refusal(_INVALID, f"the name {name} means something else here; a topic cannot have it")
    if group_of(name) and broker.groups.get(group_of(name)) is None:
        raise Refusal(_INVALID, f"the topic {name} belongs to a group that does not exist")
    for queues in (config.read_queues, config.write_queues):
        if not 1 <= queues <= MAX_QUEUES:
            raise Refusal(_INVALID, f"{queues} queues: allowed are 1 to {MAX_QUEUES}")
    if not 0 <= config.perm <= 15:
        raise Refusal(_INVALID, f"perm {config.perm} is not made of the bits 4 (read), 2 (write), 1 (inherit)")
    if (size := len(config.to_json())) > MAX_CONFIG:
        raise Refusal(_INVALID, f"the configuration of topic {name} has {size} bytes; allowed are {MAX_CONFIG}")
    if config.message_type not in _MESSAGE_TYPES:
        raise Refusal(
            _INVALID, f"message.type {config.message_type!r}: allowed are {', '.join(sorted(_MESSAGE_TYPES))}"
        )


HANDLERS = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: create,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: create_many,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete,
    RequestCode.GET_ALL_TOPIC_CONFIG: all_topics,
    RequestCode.GET_TOPIC_CONFIG: one_topic,
}
