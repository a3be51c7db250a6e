"""The delay levels, as Apache RocketMQ has them by default."""

from __future__ import annotations

from brokercore.protocol.properties import LEVELS, levels_text


def test_the_levels_are_those_of_a_brokers_configuration() -> None:
    assert levels_text() == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert LEVELS == 18
