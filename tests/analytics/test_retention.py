"""What is old leaves the lake, and nothing else does."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from analytics import lake, retention
from analytics.errors import LakeError
from analytics.lake.locations import DRAFT, SNAPSHOTS
from console.accounts.models import Organization, Tenant
from console.catalog.models import Bucket
from console.metrics import tasks as metrics_tasks
from console.sql import tasks as sql_tasks
from tests.support.object_storage import object_storage

LIMIT = date(2026, 2, 1)
BEFORE, AFTER = LIMIT - timedelta(days=1), LIMIT


@pytest.fixture(autouse=True)
def own_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path / "lake"))
    return tmp_path / "lake"


@pytest.fixture
def on_objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with object_storage(tmp_path / "s3") as server:
        for name, value in server.settings("s3://company-lake/gantry").items():
            monkeypatch.setenv(name, value)
        yield


def put(location: str) -> str:
    lake.write_file(location, io.BytesIO(b"x"))
    return location


def is_there(location: str) -> bool:
    try:
        lake.open_file(location).close()
    except LakeError:
        return False
    return True


def test_old_samples_go_and_younger_ones_stay() -> None:
    old, young = (put(f"oss://gantry-metrics/tps/day={day:%Y-%m-%d}/raw-1.parquet") for day in (BEFORE, AFTER))
    assert retention.drop_samples(LIMIT) == 1
    assert (is_there(old), is_there(young)) == (False, True)
    assert retention.drop_samples(LIMIT) == 0


def test_old_results_of_every_account_go_and_nothing_else() -> None:
    old = [put(lake.result_location(uid, "mq-private", "q1", BEFORE)) for uid in ("1000", "2000")]
    young = put(lake.result_location("1000", "mq-private", "q2", AFTER))
    odd = put("oss://aliyun-oa-query-results-1000-oss-mq-private/DLA_Result/2026/13/99/q3/result.csv")
    table = put("oss://acme-lake/DLA_Result/2020/01/01/table.csv")
    assert retention.drop_results(LIMIT) == 2
    assert not any(is_there(file) for file in old)
    assert all(is_there(file) for file in (young, odd, table))


def test_a_link_in_the_place_of_a_day_is_not_followed(own_lake: Path) -> None:
    table = put("oss://acme-lake/kept/table.csv")
    month = Path(lake.lake_path(lake.result_location("1000", "mq-private", "q", BEFORE))).parents[2]
    month.mkdir(parents=True)
    (month / "31").symlink_to(Path(lake.lake_path(table)).parent)
    assert retention.drop_results(LIMIT) == 0
    assert is_there(table)


@pytest.mark.usefixtures("on_objects")
def test_what_is_old_leaves_object_storage_too() -> None:
    test_old_samples_go_and_younger_ones_stay()
    test_old_results_of_every_account_go_and_nothing_else()


@pytest.mark.django_db
@pytest.mark.parametrize(("days", "kept"), [(30, False), (0, True)])
def test_the_sweeps_keep_what_the_settings_say(settings: Settings, days: int, kept: bool) -> None:
    settings.SAMPLES_DAYS = settings.RESULTS_DAYS = days
    samples = put(f"oss://gantry-metrics/tps/day={BEFORE:%Y-%m-%d}/raw-1.parquet")
    result = put(lake.result_location("1000", "mq-private", "q1", BEFORE))
    metrics_tasks.expire()
    sql_tasks.expire()
    assert (is_there(samples), is_there(result)) == (kept, kept)


@pytest.mark.django_db
def test_drafts_of_killed_writers_leave_results_and_the_buckets_of_tenants(own_lake: Path) -> None:
    organization = Organization.objects.create(name="Head office")
    tenant = Tenant.objects.create(name="acme", uid="1000001", organization=organization)
    Bucket.objects.create(tenant=tenant, name="acme-lake")
    draft = f"{DRAFT}{'0a' * 16}"
    locations = [f"oss://{name}/t/{draft}/part-0" for name in ("acme-lake", "aliyun-oa-query-results-1-oss-x", "other")]
    for location in locations:
        file = Path(lake.lake_path(put(location)))
        os.utime(file, (0, 0))
    young = put(f"oss://acme-lake/t/{DRAFT}{'0b' * 16}")
    sql_tasks.expire()
    assert [is_there(location) for location in [*locations, young]] == [False, False, True, True]


@pytest.mark.django_db
def test_snapshots_of_killed_statements_leave_and_those_of_running_ones_stay(own_lake: Path) -> None:
    old, young = (put(f"{SNAPSHOTS}/{name}/rows.parquet") for name in ("0a", "0b"))
    os.utime(Path(lake.lake_path(old)), (0, 0))
    sql_tasks.expire()
    assert lake.folders(SNAPSHOTS) == ["0b"]
    assert is_there(young)
