"""Names on the wire: those of a group's topics, of namespaces, and of RocketMQ itself."""

from __future__ import annotations

import pytest

from brokercore import names
from brokercore.names import unwrap, wrap

INSTANCE = "MQ_INST_1_a"


@pytest.mark.parametrize(
    ("name", "physical"),
    [
        ("t", "MQ_INST_1_a%t"),
        ("%RETRY%GID_a", "%RETRY%MQ_INST_1_a%GID_a"),
        ("%DLQ%GID_a", "%DLQ%MQ_INST_1_a%GID_a"),
    ],
)
def test_a_name_is_wrapped_once_and_comes_back(name: str, physical: str) -> None:
    assert wrap(INSTANCE, name) == physical
    assert wrap(INSTANCE, physical) == physical
    assert unwrap(INSTANCE, physical) == name


@pytest.mark.parametrize("name", ["TBW102", "rmq_sys_TRACE_DATA_x", "TOOLS_CONSUMER"])
def test_system_names_are_never_wrapped(name: str) -> None:
    assert wrap(INSTANCE, name) == name


@pytest.mark.parametrize("name", ["SCHEDULE_CONSUMER", "CID_ONSAPI_PULL", "SELF_TEST_C_GROUP", "RMQ_SYS_x"])
def test_names_that_an_account_may_have_are_wrapped(name: str) -> None:
    assert wrap(INSTANCE, name) == f"{INSTANCE}%{name}"


def test_without_a_namespace_names_stay() -> None:
    assert wrap("", "t") == unwrap("", "t") == "t"


def test_the_topics_of_a_group_are_called_after_it() -> None:
    assert names.topics_of("GID_a") == ("%RETRY%GID_a", "%DLQ%GID_a")
    assert [names.group_of(topic) for topic in names.topics_of("GID_a")] == ["GID_a", "GID_a"]
    assert [names.is_retry_topic(topic) for topic in names.topics_of("GID_a")] == [True, False]
    assert names.group_of("flights") == ""
