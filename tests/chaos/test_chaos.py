"""The short form of `make chaos`: each kind of harm once, in an order that is always the same."""

from __future__ import annotations

import pytest

from tests.chaos import campaign, harms
from tests.support.product import SLOWNESS

pytestmark = pytest.mark.timeout(1800)

SEED = 2013


def test_whatever_is_killed_nothing_acknowledged_is_lost_and_all_comes_back() -> None:
    report = campaign.run(lambda _: harms.short(), seed=SEED, rate=100, minutes=20 * SLOWNESS, say=print)
    print(report)
    assert report.verdict() == []
    assert report.harms.total() == len(list(harms.short())) - bool(report.left_out)
