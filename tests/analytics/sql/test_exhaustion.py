"""When a JVM counts as exhausted; that it is ended then is shown with a real statement in tests/e2e/test_5_survival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from analytics.sql import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fed(samples: list[tuple[float, int]]) -> list[bool]:
    gauge = running.Gauge()
    return [gauge.is_exhausted(now, collection_ms) for now, collection_ms in samples]


def test_a_jvm_that_only_collects_garbage_is_exhausted() -> None:
    assert fed([(float(second), 900 * second) for second in range(8)]) == [False] * 6 + [True] * 2


def test_one_long_collection_is_not_the_end() -> None:
    assert not any(fed([(0, 0), (1, 0), (5, 3500), (6, 3500), (7, 3500), (8, 3600), (12, 3700)]))


def test_what_was_long_ago_does_not_count() -> None:
    idle = [(float(second), 0) for second in range(100)]
    assert fed([*idle, *((100.0 + second, 900 * second) for second in range(7))])[-1]


def test_the_real_jvm_tells_its_time(spark: SparkSession) -> None:
    before = running._collection_ms()
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    assert running._collection_ms() > before


def test_nothing_is_watched_when_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PERIOD_S", 0.0)
    running.watch_while(lambda: False)
