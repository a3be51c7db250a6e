"""Names with and without namespace."""

from __future__ import annotations

import pytest

from brokercore.client.namespace import unwrap, wrap

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


def test_without_a_namespace_names_stay() -> None:
    assert wrap("", "t") == unwrap("", "t") == "t"
