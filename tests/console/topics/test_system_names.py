"""What each part takes for RocketMQ's own: one list, and where a part says otherwise, it means to."""

from __future__ import annotations

import pytest

from brokercore.names import SYSTEM_GROUPS, is_system_group, is_system_topic
from brokercore.server.storage.topics import is_kept_topic
from console.adoption.unowned import is_kept
from console.topics.names import is_reserved

# Topic -> is it RocketMQ's, does the embedded broker refuse to make it, does the console, is it left out of what can be
# adopted.
TOPICS = {
    "TBW102": (True, True, True, True),
    "SELF_TEST_TOPIC": (True, True, True, True),
    "OFFSET_MOVED_EVENT": (True, True, True, True),
    "SCHEDULE_TOPIC_XXXX": (True, True, True, True),
    "TRANS_CHECK_MAX_TIME_TOPIC": (True, True, True, True),
    "RMQ_SYS_TRANS_HALF_TOPIC": (True, True, True, True),
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": (True, True, True, True),
    "RMQ_SYS_TRACE_TOPIC": (True, True, True, True),
    "rmq_sys_wheel_timer": (True, True, True, True),
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": (True, True, True, True),  # of brokers newer than the list
    "Rmq_Sys_x": (True, True, True, True),
    # The embedded broker begins without it: whoever runs the benchmarks creates it.
    "BenchmarkTest": (True, False, True, True),
    # What only reads like one of RocketMQ's is none, but nobody gets it from the console.
    "tbw102": (False, False, True, False),
    "benchmarktest": (False, False, True, False),
    # Names that a cluster, a broker, a proxy or an instance takes.
    "DefaultCluster": (False, False, True, True),
    "DefaultCluster_REPLY_TOPIC": (False, False, True, True),
    "DefaultCluster_REPLY_TOPIC_V2": (False, False, True, False),
    "broker-a": (False, False, True, True),
    "DefaultHeartBeatSyncerTopic": (False, False, True, True),
    "MQ_INST_42_a": (False, False, True, False),
    # A group's own topics, which come and go with it.
    "%RETRY%GID_a": (False, False, False, True),
    "%DLQ%GID_a": (False, False, False, True),
    # Everybody else's.
    "CHECKPOINT_TOPIC": (False, False, False, True),  # a connector's, on clusters that have one
    "SELF_TEST_x": (False, False, False, True),
    "orders": (False, False, False, False),
}


@pytest.mark.parametrize("topic", TOPICS)
def test_each_part_knows_whose_a_topic_is(topic: str) -> None:
    assert (is_system_topic(topic), is_kept_topic(topic), is_reserved(topic), _is_left_out(topic)) == (TOPICS[topic])


@pytest.mark.parametrize("group", [*SYSTEM_GROUPS, "CID_RMQ_SYS_x"])
def test_groups_of_rocketmq_are_nobodys_to_adopt(group: str) -> None:
    assert is_system_group(group) and _is_left_out(group)


def test_groups_of_the_vendors_proxies_are_nobodys_to_adopt() -> None:
    assert not is_system_group("CID_ONSAPI_x") and _is_left_out("CID_ONSAPI_x")


def test_the_embedded_broker_gives_nobody_a_group_for_its_prefix() -> None:
    """What SYSTEM_GROUPS lists may be used without rights."""
    assert "CID_RMQ_SYS_x" not in SYSTEM_GROUPS


@pytest.mark.parametrize("group", ["GID_a", "CID_SYS_RMQ_TRANS"])
def test_groups_that_only_read_like_one_of_rocketmqs_may_be_adopted(group: str) -> None:
    assert not is_system_group(group) and not _is_left_out(group)


def _is_left_out(name: str) -> bool:
    return is_kept(name, frozenset({"broker-a", "DefaultCluster"}))
