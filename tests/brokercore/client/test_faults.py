"""A broker that failed is avoided for a while, unless there is no other."""

from __future__ import annotations

import pytest

from brokercore.client import MessageQueue
from brokercore.client.errors import RequestTimeout, SystemBusy
from brokercore.client.sending import REFUSED_S, UNREACHABLE_S, Faults

ONE, OTHER = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)


@pytest.mark.parametrize(
    ("error", "seconds"), [(RequestTimeout("h:1", 1), UNREACHABLE_S), (SystemBusy(2, "busy", "h:1"), REFUSED_S)]
)
def test_it_is_avoided_until_its_time_is_over(error: RequestTimeout | SystemBusy, seconds: float) -> None:
    now = 1000.0
    faults = Faults(clock=lambda: now)
    assert faults.usable([ONE, OTHER]) == [ONE, OTHER]
    faults.failed("broker-a", error)
    assert faults.usable([ONE, OTHER]) == [OTHER]
    assert faults.usable([ONE]) == [ONE]
    now += seconds
    assert faults.usable([ONE, OTHER]) == [ONE, OTHER]


def test_success_ends_it() -> None:
    faults = Faults()
    faults.failed("broker-a", RequestTimeout("h:1", 1))
    faults.worked("broker-a")
    assert faults.usable([ONE, OTHER]) == [ONE, OTHER]
