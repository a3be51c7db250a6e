"""Which permission each request needs: one table, request code → actions on names taken from the request.

Handlers look further only where the request itself does not name what it touches (an offset of a message, a list
of everything): `may_see_topic`, `may_see_group` and the actions here serve them too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from brokercore.protocol.codes import OwnRequestCode, ResponseCode
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.command import Command
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.fairness import at_once
from brokercore.server.errors import Refusal
from brokercore.server.rights import named_resources
from brokercore.server.rights.authentication import PUBLISH as _PUBLISH
from brokercore.server.rights.authentication import Caller
from brokercore.server.unsupported import REFUSED

PUBLISH, SUBSCRIBE = _PUBLISH, "mq:SUB"
QUERY_TOPIC, QUERY_GROUP, QUERY_MESSAGE = "mq:QueryTopic", "mq:QueryGroup", "mq:QueryMessage"

READS_TOPIC = (QUERY_TOPIC, PUBLISH, SUBSCRIBE)
READS_GROUP = (QUERY_GROUP, SUBSCRIBE)
READS_MESSAGE = (QUERY_MESSAGE, SUBSCRIBE)
SYSTEM_ONLY = ("system key only",)
"""An action nobody can be given: just the system key passes."""

Names = Callable[[Command], Iterable[str]]

_BY_NAMES = frozenset(
    {Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE}
)
"""Requests whose permission hangs on topic and consumer group alone: an answer is remembered for each pair."""


class Need(NamedTuple):
    """One of `actions` on each of `names`; no names need nothing."""

    actions: tuple[str, ...]
    names: Names


_SEND = (Need((PUBLISH,), named_resources.sent_topic), Need((SUBSCRIBE,), named_resources.sent_retry))
_PULL = (Need((SUBSCRIBE,), named_resources.topic), Need((SUBSCRIBE,), named_resources.group))
_ACKNOWLEDGE = (Need((SUBSCRIBE,), named_resources.acknowledged), Need((SUBSCRIBE,), named_resources.group))
_SEEN = Need((*READS_TOPIC, "mq:ResetOffset"), named_resources.named_topics)
"""What a request asks of a group in a topic tells of the topic too."""

_OFFSET = (Need((SUBSCRIBE, "mq:ResetOffset"), named_resources.group), _SEEN)
_SYSTEM = (Need(SYSTEM_ONLY, named_resources.everything),)
_SIGNED: tuple[Need, ...] = ()
"""Every signed caller may ask; the handler answers with what the caller may see."""

NEEDS: dict[int, tuple[Need, ...]] = {
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SEND,
    Code.SEND_BATCH_MESSAGE: _SEND,
    # A reply names a request; the handler asks for mq:SUB on the request's topic.
    Code.RECALL_MESSAGE: (Need((PUBLISH,), named_resources.topic),),
    Code.SEND_REPLY_MESSAGE: _SIGNED,
    Code.SEND_REPLY_MESSAGE_V2: _SIGNED,
    Code.END_TRANSACTION: _SIGNED,  # the half message names the topic; the handler asks for mq:PUB on it
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.QUERY_CONSUMER_OFFSET: _OFFSET,
    Code.UPDATE_CONSUMER_OFFSET: _OFFSET,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: (Need(READS_TOPIC, named_resources.topic),),
    Code.GET_MAX_OFFSET: (Need(READS_TOPIC, named_resources.topic),),
    Code.GET_MIN_OFFSET: (Need(READS_TOPIC, named_resources.topic),),
    Code.GET_EARLIEST_MSG_STORETIME: (Need(READS_TOPIC, named_resources.topic),),
    Code.HEART_BEAT: _SIGNED,  # groups without mq:SUB are left out
    Code.UNREGISTER_CLIENT: _SIGNED,  # only ever touches the connection it came on
    Code.CHECK_CLIENT_CONFIG: _SIGNED,
    Code.GET_CONSUMER_LIST_BY_GROUP: (Need(READS_GROUP, named_resources.group),),
    Code.CONSUMER_SEND_MSG_BACK: (Need((SUBSCRIBE,), named_resources.group),),
    Code.LOCK_BATCH_MQ: (Need((SUBSCRIBE,), named_resources.locked),),
    Code.UNLOCK_BATCH_MQ: (Need((SUBSCRIBE,), named_resources.locked),),
    Code.POP_MESSAGE: _PULL,
    Code.ACK_MESSAGE: _ACKNOWLEDGE,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _ACKNOWLEDGE,
    Code.BATCH_ACK_MESSAGE: (Need((SUBSCRIBE,), named_resources.batch),),
    Code.NOTIFICATION: _PULL,
    Code.PEEK_MESSAGE: _PULL,
    Code.POLLING_INFO: _PULL,
    Code.SET_MESSAGE_REQUEST_MODE: (
        Need(("mq:UpdateGroup",), named_resources.consuming_group),
        Need(READS_TOPIC, named_resources.consumed_topic),
    ),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _SIGNED,
    Code.QUERY_ASSIGNMENT: (
        Need(READS_GROUP, named_resources.consuming_group),
        Need(READS_TOPIC, named_resources.consumed_topic),
    ),
    # Name server
    Code.GET_ROUTEINFO_BY_TOPIC: _SIGNED,
    Code.GET_BROKER_CLUSTER_INFO: _SIGNED,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _SIGNED,
    Code.GET_TOPICS_BY_CLUSTER: _SIGNED,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _SIGNED,
    Code.PUT_KV_CONFIG: (
        Need(("mq:UpdateTopic",), named_resources.ordered_topic),
        Need(SYSTEM_ONLY, named_resources.other_namespace),
    ),
    Code.DELETE_KV_CONFIG: (
        Need(("mq:UpdateTopic",), named_resources.ordered_topic),
        Need(SYSTEM_ONLY, named_resources.other_namespace),
    ),
    Code.GET_KV_CONFIG: (
        Need(READS_TOPIC, named_resources.ordered_topic),
        Need(SYSTEM_ONLY, named_resources.other_namespace),
    ),
    Code.GET_KVLIST_BY_NAMESPACE: _SYSTEM,
    Code.WIPE_WRITE_PERM_OF_BROKER: _SYSTEM,
    Code.ADD_WRITE_PERM_OF_BROKER: _SYSTEM,
    Code.GET_NAMESRV_CONFIG: _SYSTEM,
    Code.UPDATE_NAMESRV_CONFIG: _SYSTEM,
    Code.DELETE_TOPIC_IN_NAMESRV: (Need(("mq:DeleteTopic",), named_resources.topic),),
    # Topics
    # Of a name without a namespace the handlers ask for the right, since it may be another account's, or nobody's.
    Code.UPDATE_AND_CREATE_TOPIC: (Need(("mq:CreateTopic", "mq:UpdateTopic"), named_resources.made_topic),),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: (Need(("mq:CreateTopic", "mq:UpdateTopic"), named_resources.listed_topics),),
    Code.DELETE_TOPIC_IN_BROKER: (Need(("mq:DeleteTopic",), named_resources.topic),),
    Code.GET_ALL_TOPIC_CONFIG: _SIGNED,
    Code.GET_TOPIC_CONFIG: (Need(READS_TOPIC, named_resources.topic),),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _SIGNED,
    Code.GET_TOPIC_STATS_INFO: (Need(READS_TOPIC, named_resources.topic),),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: (Need((QUERY_TOPIC,), named_resources.topic),),
    # Groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
        Need(("mq:CreateGroup", "mq:UpdateGroup"), named_resources.group_in_body),
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        Need(("mq:CreateGroup", "mq:UpdateGroup"), named_resources.listed_groups),
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: (Need(("mq:DeleteGroup",), named_resources.group),),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _SIGNED,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: (Need(READS_GROUP, named_resources.group),),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: (Need(("mq:UpdateGroup",), named_resources.group), _SEEN),
    Code.GET_CONSUME_STATS: (Need(READS_GROUP, named_resources.group), _SEEN),
    Code.GET_BROKER_CONSUME_STATS: _SYSTEM,
    OwnRequestCode.GET_ALL_TOPIC_OFFSETS: _SYSTEM,
    Code.GET_CONSUMER_CONNECTION_LIST: (Need(READS_GROUP, named_resources.group),),
    Code.GET_PRODUCER_CONNECTION_LIST: (Need((QUERY_GROUP, PUBLISH), named_resources.producer_group),),
    Code.GET_ALL_PRODUCER_INFO: _SYSTEM,
    Code.GET_CONSUMER_RUNNING_INFO: (Need((QUERY_GROUP,), named_resources.group),),
    Code.CONSUME_MESSAGE_DIRECTLY: (Need((SUBSCRIBE, "mq:ResendDeadLetter"), named_resources.group), _SEEN),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: (Need((QUERY_GROUP,), named_resources.group),),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (Need((QUERY_GROUP,), named_resources.group), _SEEN),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: (Need(("mq:ResetOffset",), named_resources.group), _SEEN),
    Code.CLONE_GROUP_OFFSET: (Need(("mq:ResetOffset",), named_resources.cloned_groups), _SEEN),
    Code.QUERY_TOPICS_BY_CONSUMER: (Need(READS_GROUP, named_resources.group),),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: (Need(READS_GROUP, named_resources.group), _SEEN),
    Code.QUERY_CONSUME_TIME_SPAN: (Need(READS_GROUP, named_resources.group), _SEEN),
    Code.GET_ALL_CONSUMER_OFFSET: _SIGNED,
    Code.GET_ALL_DELAY_OFFSET: _SYSTEM,
    # Messages
    Code.QUERY_MESSAGE: (Need(READS_MESSAGE, named_resources.topic),),
    Code.VIEW_MESSAGE_BY_ID: (
        Need(READS_MESSAGE, named_resources.optional_topic),
    ),  # the handler asks for the message's own topic
    Code.QUERY_CONSUME_QUEUE: (Need(READS_MESSAGE, named_resources.topic),),
    # Broker
    Code.GET_BROKER_RUNTIME_INFO: _SYSTEM,
    Code.VIEW_BROKER_STATS_DATA: (Need(("mq:QueryTrend", QUERY_TOPIC), named_resources.counted),),
    Code.GET_BROKER_CONFIG: _SYSTEM,
    Code.UPDATE_BROKER_CONFIG: _SYSTEM,
    Code.GET_BROKER_HA_STATUS: _SYSTEM,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _SYSTEM,
    Code.CLEAN_UNUSED_TOPIC: _SYSTEM,
    Code.DELETE_EXPIRED_COMMITLOG: _SYSTEM,
    Code.GET_UNIT_TOPIC_LIST: _SIGNED,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _SIGNED,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _SIGNED,
    **dict.fromkeys(REFUSED, _SIGNED),  # a sentence that says what is there instead
}


def check(connection: Connection, command: Command, caller: Caller) -> None:
    """Raise Refusal (NO_PERMISSION) unless the caller may send this request."""
    if caller.is_system:
        return
    ext, known = command.ext, None
    if command.code in _BY_NAMES:
        known = command.code, ext.get("b"), ext.get("topic"), ext.get("consumerGroup"), ext.get("group")
        if known in caller.passed:
            return
    at_once(steps(connection, command, caller))
    if known is not None and not caller.conditional:
        caller.remember(known)


def steps(connection: Connection, command: Command, caller: Caller) -> Generator[None]:
    """The same, one step for each name: a request may have thousands, and a policy may be long."""
    if caller.is_system:
        return
    if (
        command.code in named_resources.SENDS
        and named_resources.is_trace(command)
        and not caller.publishes_somewhere(connection)
    ):
        raise denied(caller, (PUBLISH,), "")
    for actions, names in NEEDS[command.code]:
        for name in names(command):
            if actions is SYSTEM_ONLY:
                raise denied(caller, actions, name)
            for action in actions:
                if caller.may(action, name, connection):
                    break
            else:
                raise denied(caller, actions, name)
            yield


def denied(caller: Caller, actions: tuple[str, ...], name: str) -> Refusal:
    """What a caller is told who lacks a permission."""
    if actions is SYSTEM_ONLY:
        sentence = f"{caller.name} may not do this: it is kept for Gantry's own system key"
    else:
        sentence = f"{caller.name} has no permission {' or '.join(actions)} on {name or 'an unnamed resource'}"
    return Refusal(
        ResponseCode.NO_PERMISSION, sentence, kind="permission", resource=name or "*", action=" or ".join(actions)
    )


def may_see_topic(caller: Caller, connection: Connection, topic: str) -> bool:
    """True when a list of topics may show this one to the caller."""
    return caller.is_system or any(
        caller.may(action, named_resources.resource(topic), connection) for action in READS_TOPIC
    )


def may_see_group(caller: Caller, connection: Connection, group: str) -> bool:
    """True when a list of groups may show this one to the caller."""
    return caller.is_system or any(caller.may(action, group, connection) for action in READS_GROUP)


def may(caller: Caller, connection: Connection, action: str, topic: str) -> bool:
    """Whether the caller may do `action` on a topic (or the group a retry topic belongs to).

    For what the request does not name: a caller who may not has to be answered as if there were nothing.
    """
    return caller.is_system or caller.may(action, named_resources.resource(topic), connection)


def require(caller: Caller, connection: Connection, actions: tuple[str, ...], topic: str) -> None:
    """Raise Refusal unless the caller may do one of `actions` on a topic (or the group a retry topic belongs to)."""
    name = named_resources.resource(topic)
    if not caller.is_system and not any(caller.may(action, name, connection) for action in actions):
        raise denied(caller, actions, name)
