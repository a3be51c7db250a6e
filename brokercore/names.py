"""Names on the wire: topics that belong to a group, what RocketMQ keeps for itself, and namespaces.

An instance's topics and groups carry `<instance>%` on the wire, its namespace. The topics of a group, for what it
failed on and for what was given up, are called after the group.
"""

from __future__ import annotations

import re

TOPIC_MAX, GROUP_MAX = 127, 255
"""Characters of a name on the wire that clients and brokers of RocketMQ take (TopicValidator, Validators)."""

_ON_THE_WIRE = re.compile(r"[%|A-Za-z0-9_-]+")

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
REPLY_SUFFIX = "_REPLY_TOPIC"
"""Replies are sent to `<cluster>_REPLY_TOPIC`, which holds no messages: they go on to the requester at once."""

AUTO_CREATE_TOPIC = "TBW102"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
"""The topic whose settings a broker takes over for one that is made by sending."""

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""Topic of the clients' message traces: every AccessKey may write them, reading them takes a permission."""

DEFAULT_CLUSTER = "DefaultCluster"
"""What RocketMQ and Gantry call a cluster that was given no other name."""

BROKER_NAME = "broker-[a-z]"
"""Names of the brokers that the launcher starts, now or later: a regular expression."""

TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group admin tools read under; every broker knows it."""

TOOLS_PREFIXES = ("CID_ONSAPI_", "SELF_TEST_")
"""How the names of the vendor's proxies and of RocketMQ's own tests begin."""

BENCHMARK_TOPIC = "BenchmarkTest"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        CHECKED_TOO_OFTEN_TOPIC,
        TRACE_TOPIC,
        SELF_TEST_TOPIC,
        "OFFSET_MOVED_EVENT",
    }
)
"""What RocketMQ calls its own (TopicValidator). Not CHECKPOINT_TOPIC, which 5.3 adds: there may be such a topic."""

PARKING_TOPICS = frozenset({SCHEDULE_TOPIC, "rmq_sys_wheel_timer"})
"""Where brokers keep delayed messages until they are due; REAL_TOPIC then names the topic."""

SYSTEM_GROUPS = frozenset(
    {
        "CLIENT_INNER_PRODUCER",
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "FILTERSRV_CONSUMER",
        "SCHEDULE_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        TOOLS_GROUP,
        "__MONITOR_CONSUMER",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
    }
)
"""Groups that exist without being created (MixAll.isPredefinedGroup)."""

_NEVER_WRAPPED = frozenset({"CLIENT_INNER_PRODUCER", "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", TOOLS_GROUP})
"""Groups of clients and tools. Others of SYSTEM_GROUPS get a namespace: without one, a group of that name that an
account has would be one that all accounts share."""

_SYSTEM_TOPIC_PREFIX = "rmq_sys_"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


def is_wire_name(name: str, most: int) -> bool:
    """True for what RocketMQ takes as the name of a topic or group: `%`, `|`, letters, digits, `_`, `-`."""
    return len(name) <= most and _ON_THE_WIRE.fullmatch(name) is not None


def retry_topic(group: str) -> str:
    """The topic that only `group` consumes: what it failed on comes back through it."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of what `group` failed on too often."""
    return DEAD_LETTER_PREFIX + group


def topics_of(group: str) -> tuple[str, str]:
    """The topics that a group has of its own, for retries and for dead letters. They end with it."""
    return retry_topic(group), dead_letter_topic(group)


def is_retry_topic(topic: str) -> bool:
    """True for the retry topic of any group."""
    return topic.startswith(RETRY_PREFIX)


def group_of(topic: str) -> str:
    """The group whose retry or dead-letter topic this is, "" for every other topic."""
    if topic.startswith(RETRY_PREFIX):
        return topic[len(RETRY_PREFIX) :]
    if topic.startswith(DEAD_LETTER_PREFIX):
        return topic[len(DEAD_LETTER_PREFIX) :]
    return ""


def is_system_topic(topic: str) -> bool:
    """True for names that RocketMQ keeps for itself; those with its prefix in any case, as newer brokers write some."""
    return topic in SYSTEM_TOPICS or topic[: len(_SYSTEM_TOPIC_PREFIX)].lower() == _SYSTEM_TOPIC_PREFIX


def is_system_group(group: str) -> bool:
    """True for groups that RocketMQ keeps for itself: those that exist always, and those with its prefix."""
    return group in SYSTEM_GROUPS or group.startswith(_SYSTEM_GROUP_PREFIX)


def wrap(namespace: str, name: str) -> str:
    """The physical name; retry and dead-letter topics keep their prefix in front. Wrapping twice changes nothing."""
    if not namespace or name in SYSTEM_TOPICS or name in _NEVER_WRAPPED or name.startswith(_SYSTEM_TOPIC_PREFIX):
        return name
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix + wrap(namespace, name[len(prefix) :])
    return name if name.startswith(f"{namespace}%") else f"{namespace}%{name}"


def unwrap(namespace: str, name: str) -> str:
    """The name as the application knows it."""
    if not namespace:
        return name
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix + unwrap(namespace, name[len(prefix) :])
    return name.removeprefix(f"{namespace}%")
