"""What a request names: the topics and groups that its permission hangs on (permissions.NEEDS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokercore.names import SYSTEM_GROUPS, TRACE_TOPIC, group_of
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import objects, read_object, text
from brokercore.server.errors import Refusal

SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})

MAX_LISTED = 10_000
"""Topics, groups or queues that one request may list: a consumer locks the queues of all its topics at once."""


def resource(topic: str) -> str:
    """Retry and dead-letter topics belong to their group."""
    return group_of(topic) or topic


def _given(command: Command, *fields: str) -> tuple[str, ...]:
    """Every name that stands in one of `fields`: which of them the handler reads must not matter here."""
    ext = command.ext
    return tuple({name for field in fields if (name := ext.get(field))}) or ("",)


def is_trace(command: Command) -> bool:
    """Whether message traces are sent."""
    return TRACE_TOPIC in (command.ext.get("b"), command.ext.get("topic"))


def sent_topic(command: Command) -> tuple[str, ...]:
    """Topics to publish to; whoever may publish to one may write traces of what its client did."""
    return tuple(topic for topic in _given(command, "b", "topic") if not group_of(topic) and topic != TRACE_TOPIC)


def sent_retry(command: Command) -> tuple[str, ...]:
    return tuple(group for topic in _given(command, "b", "topic") if (group := group_of(topic)))


def topic(command: Command) -> tuple[str, ...]:
    return (resource(command.ext.get("topic") or ""),)


def acknowledged_topic(ext: Mapping[str, str]) -> str:
    """The physical topic that an acknowledgement names.

    rocketmq-client takes the namespace off a popped message's topic and acknowledges without it, but not off the group:
    then the topic is of the group's instance.
    """
    topic, (instance, separator, _) = ext.get("topic") or "", (ext.get("consumerGroup") or "").partition("%")
    return f"{instance}%{topic}" if separator and topic and "%" not in topic else topic


def named_in(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Group and physical topic of one entry of a batch of acknowledgements."""
    group = text(entry, "c")
    return group, acknowledged_topic({"consumerGroup": group, "topic": text(entry, "t")})


def acknowledged(command: Command) -> tuple[str, ...]:
    return (resource(acknowledged_topic(command.ext)),)


def batch(command: Command) -> tuple[str, ...]:
    names = {name for entry in _few(command, "acks") for name in named_in(entry)}
    return tuple({resource(name) for name in names}) or ("",)


def optional_topic(command: Command) -> tuple[str, ...]:
    return topic(command) if command.ext.get("topic") else ()


def group(command: Command) -> tuple[str, ...]:
    groups = _given(command, "consumerGroup", "group", "groupName")
    return tuple(group for group in groups if group not in SYSTEM_GROUPS)


def named_topics(command: Command) -> tuple[str, ...]:
    """Topics that a request about a group names, if it names any."""
    ext = command.ext
    listed = (ext.get("topicList") or "").split(";")
    if len(listed) > MAX_LISTED:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"topicList has {len(listed)} topics; allowed are {MAX_LISTED}")
    return tuple({resource(name) for name in (ext.get("topic"), *listed) if name})


def consumed_topic(command: Command) -> tuple[str, ...]:
    name = text(_body(command), "topic")
    return (resource(name),) if name else ()


def producer_group(command: Command) -> tuple[str, ...]:
    return (command.ext.get("producerGroup") or "",)


def cloned_groups(command: Command) -> tuple[str, ...]:
    return command.ext.get("srcGroup") or "", command.ext.get("destGroup") or ""


def locked(command: Command) -> tuple[str, ...]:
    return text(_body(command), "consumerGroup"), *{resource(text(queue, "topic")) for queue in _few(command, "mqSet")}


def made_topic(command: Command) -> tuple[str, ...]:
    """The topic that is made, if its name tells whose it is; the handler asks about one without a namespace."""
    return _telling(command.ext.get("topic") or "")


def _telling(*names: str) -> tuple[str, ...]:
    return tuple(resource(name) for name in names if "%" in name or not name)


def listed_topics(command: Command) -> tuple[str, ...]:
    names = [text(item, "topicName") for item in _few(command, "topicConfigList")] or [""]
    return _telling(*names)


def group_in_body(command: Command) -> tuple[str, ...]:
    return _telling(text(_body(command), "groupName"))


def consuming_group(command: Command) -> tuple[str, ...]:
    return (text(_body(command), "consumerGroup"),)


def listed_groups(command: Command) -> tuple[str, ...]:
    names = [text(item, "groupName") for item in _few(command, "groupConfigList")] or [""]
    return _telling(*names)


def counted(command: Command) -> tuple[str, ...]:
    """Statistics keys are `topic`, `topic@group`, `queueId@topic@group` or the cluster's name."""
    name, parts = command.ext.get("statsName", ""), command.ext.get("statsKey", "").split("@")
    if name == "GROUP_GET_LATENCY":
        parts = parts[1:]
    if name.startswith("QUEUE_"):
        parts = parts[:1]
    return tuple(resource(part) for part in parts) or ("",)


def ordered_topic(command: Command) -> tuple[str, ...]:
    return (command.ext.get("key", ""),) if command.ext.get("namespace") == "ORDER_TOPIC_CONFIG" else ()


def other_namespace(command: Command) -> tuple[str, ...]:
    return () if command.ext.get("namespace") == "ORDER_TOPIC_CONFIG" else ("",)


def everything(_command: Command) -> tuple[str, ...]:
    return ("*",)


def _few(command: Command, member: str) -> list[dict[str, Any]]:
    """The objects of a list in the body; each is looked at by itself, so there may not be many."""
    found = list(objects(_body(command), member))
    if len(found) > MAX_LISTED:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"{member} has {len(found)} entries; allowed are {MAX_LISTED}")
    return found


def _body(command: Command) -> dict[str, object]:
    try:
        return read_object(command.body)
    except LenientJsonError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
