"""What is old leaves the lake, and nothing else does."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from analytics import lake, run
from console.metrics import tasks as metrics_tasks
from console.sql import tasks as sql_tasks

LIMIT = date(2026, 2, 1)
BEFORE, AFTER = LIMIT - timedelta(days=1), LIMIT


@pytest.fixture(autouse=True)
def own_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path / "lake"))
    return tmp_path / "lake"


def put(location: str) -> Path:
    file = Path(lake.lake_path(location))
    file.parent.mkdir(parents=True)
    file.write_text("x")
    return file


def test_old_samples_go_and_younger_ones_stay() -> None:
    old, young = (put(f"oss://gantry-metrics/tps/day={day:%Y-%m-%d}/raw-1.parquet") for day in (BEFORE, AFTER))
    assert run.drop_samples(LIMIT) == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert run.drop_samples(LIMIT) == 0


def test_old_results_of_every_account_go_and_nothing_else() -> None:
    old = [put(run.result_location(uid, "mq-private", "q1", BEFORE)) for uid in ("1000", "2000")]
    young = put(run.result_location("1000", "mq-private", "q2", AFTER))
    odd = put("oss://aliyun-oa-query-results-1000-oss-mq-private/DLA_Result/2026/13/99/q3/result.csv")
    table = put("oss://acme-lake/DLA_Result/2020/01/01/table.csv")
    assert run.drop_results(LIMIT) == 2
    assert not any(file.exists() for file in old)
    assert all(file.exists() for file in (young, odd, table))


def test_a_link_in_the_place_of_a_day_is_not_followed(own_lake: Path) -> None:
    table = put("oss://acme-lake/kept/table.csv")
    month = Path(lake.lake_path(run.result_location("1000", "mq-private", "q", BEFORE))).parents[2]
    month.mkdir(parents=True)
    (month / "31").symlink_to(table.parent)
    assert run.drop_results(LIMIT) == 0
    assert table.exists()


@pytest.mark.parametrize(("days", "kept"), [(30, False), (0, True)])
def test_the_sweeps_keep_what_the_settings_say(settings: Settings, days: int, kept: bool) -> None:
    settings.SAMPLES_DAYS = settings.RESULTS_DAYS = days
    samples = put(f"oss://gantry-metrics/tps/day={BEFORE:%Y-%m-%d}/raw-1.parquet")
    result = put(run.result_location("1000", "mq-private", "q1", BEFORE))
    metrics_tasks.expire()
    sql_tasks.expire()
    assert (samples.exists(), result.exists()) == (kept, kept)
