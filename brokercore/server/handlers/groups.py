"""Consumer groups: create and change (200, 225), delete (207), show (201, 352), close topics to them (353)."""

from __future__ import annotations

import re

import orjson

from brokercore.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, SYSTEM_GROUPS, retry_topic, topics_of
from brokercore.protocol.bodies.config import MAX_CONFIG, GroupConfig, group_rows_to_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.fastjson import exact, objects, read_object
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import boolean, text
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_group, existing_topic
from brokercore.server.peers.catching_up import forget_progress, remove_topic
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.rights.bare_names import is_bare, let_make

_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
_INVALID = ResponseCode.INVALID_PARAMETER
_MAX_RETRY_QUEUES = 64


async def create(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP; its retry topic is made with it, so that the first retry is quick."""
    await _save(broker, connection, caller, GroupConfig.from_json(command.body))
    return command.response(ResponseCode.SUCCESS)


async def create_many(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""
    for item in objects(read_object(command.body), "groupConfigList"):
        await _save(broker, connection, caller, GroupConfig.from_dict(item))
    return command.response(ResponseCode.SUCCESS)


async def delete(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """DELETE_SUBSCRIPTIONGROUP: its retry and dead-letter topics go with it, its offsets when asked."""
    name = text(command.ext, "groupName")
    await broker.groups.delete(name)
    broker.waiting.review()
    if boolean(command.ext, "cleanOffset"):
        await forget_progress(broker, name)
    for topic in topics_of(name):
        await remove_topic(broker, topic)
    return command.response(ResponseCode.SUCCESS)


async def all_groups(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: the groups the caller may see."""
    rows = {}
    async for name, config in broker.pace.work(caller.account).over(broker.groups.items()):
        if permissions.may_see_group(caller, connection, name):
            rows[name] = exact(config.to_json())
    return command.response(ResponseCode.SUCCESS, body=group_rows_to_json(rows, broker.groups.version))


def one_group(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_SUBSCRIPTIONGROUP_CONFIG."""
    name = text(command.ext, "group")
    config = broker.groups.get(name)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {name}")
    return command.response(ResponseCode.SUCCESS, body=config.to_json())


async def forbid(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """UPDATE_AND_GET_GROUP_FORBIDDEN: closes a topic to a group, opens it, or tells."""
    group, topic = text(command.ext, "group"), text(command.ext, "topic")
    if "readable" in command.ext:
        existing_group(broker, group)  # what is closed is kept: names of nothing would be kept for nobody
        existing_topic(broker, topic)
        await broker.groups.set_readable(group, topic, boolean(command.ext, "readable"))
        broker.waiting.review()
    readable = not broker.groups.is_forbidden(group, topic)
    return command.response(
        ResponseCode.SUCCESS, body=orjson.dumps({"group": group, "readable": readable, "topic": topic})
    )


async def _save(broker: Broker, connection: Connection, caller: Caller, config: GroupConfig) -> None:
    name = config.group
    if not _NAME.fullmatch(name) or name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        raise Refusal(_INVALID, f"the group name {name[:64]!r} is not 1 to 255 of the characters %|a-zA-Z0-9_-")
    if not 1 <= config.retry_queues <= _MAX_RETRY_QUEUES:
        raise Refusal(_INVALID, f"retryQueueNums {config.retry_queues}: allowed are 1 to {_MAX_RETRY_QUEUES}")
    if (size := len(config.to_json())) > MAX_CONFIG:
        raise Refusal(_INVALID, f"the configuration of group {name} has {size} bytes; allowed are {MAX_CONFIG}")
    made = is_bare(name) and await let_make(
        broker, connection, caller, kind="group", name=name, config=config.to_dict()
    )
    if not caller.is_system and not made:
        action = "mq:UpdateGroup" if broker.groups.get(name) else "mq:CreateGroup"
        if not broker.security.current(caller).may(action, name, connection):
            raise permissions.denied(caller, (action,), name)
    if name in SYSTEM_GROUPS:
        return
    if made or caller.account is None or broker.groups.get(name) is not None:
        await _store(broker, caller, config)
        return
    async with caller.account.making:
        steps = broker.limits.check_count(caller.account, "groups", [group for group, _ in broker.groups.items()])
        await broker.pace.work(caller.account).through(steps)
        await _store(broker, caller, config)


async def _store(broker: Broker, caller: Caller, config: GroupConfig) -> None:
    name = config.group
    if broker.topics.get(retry_topic(name)) is None:
        broker.limits.add_queues(caller.account, retry_topic(name), config.retry_queues)
    await broker.groups.save(config)
    broker.waiting.review()
    await broker.topics.ensure(retry_topic(name), config.retry_queues)


HANDLERS = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: create,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: create_many,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: delete,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: one_group,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: forbid,
}
