"""Namespaces: an instance's topics and groups carry `<instance>%` on the wire."""

from __future__ import annotations

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
_SYSTEM_TOPICS = frozenset(
    {"TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
     "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC"}
)  # fmt: skip
_SYSTEM_GROUPS = frozenset({"CLIENT_INNER_PRODUCER", "TOOLS_CONSUMER", "DEFAULT_CONSUMER", "DEFAULT_PRODUCER"})


def wrap(namespace: str, name: str) -> str:
    """The physical name; retry and dead-letter topics keep their prefix in front. Wrapping twice changes nothing."""
    if not namespace or name in _SYSTEM_TOPICS or name in _SYSTEM_GROUPS or name.startswith("rmq_sys_"):
        return name
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix + wrap(namespace, name[len(prefix) :])
    return name if name.startswith(f"{namespace}%") else f"{namespace}%{name}"


def unwrap(namespace: str, name: str) -> str:
    """The name as the application knows it."""
    if not namespace:
        return name
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix + unwrap(namespace, name[len(prefix) :])
    return name.removeprefix(f"{namespace}%")
