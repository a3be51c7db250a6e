from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from analytics import lake
from analytics.errors import LakeError


@pytest.fixture(autouse=True)
def own_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path / "lake"))
    return tmp_path / "lake"


def test_a_location_is_a_file_under_the_lake(own_lake: Path) -> None:
    assert lake.lake_path("oss://alice-lake/demo/flights/") == str(own_lake / "alice-lake" / "demo" / "flights")


@pytest.mark.parametrize(
    "location",
    [
        "oss://alice-lake/../bob-lake/secret",
        "oss://alice-lake/a/../../bob-lake",
        "oss://alice-lake/./a",
        "oss://../etc/passwd",
        "oss:///etc/passwd",
        "oss://a/b",
        "oss://Alice/b",
        "oss://-alice/b",
        "oss://alice-lake/a\0b",
        "oss://alice-lake/a\nb",
        "oss://alice-lake/a\\b",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://alice-lake/a",
        "oss://alice-lake/" + "x" * 1024,
        "",
    ],
)
def test_it_refuses_what_is_no_location_in_the_lake(location: str) -> None:
    with pytest.raises(LakeError):
        lake.lake_path(location)


def test_it_refuses_a_link_that_leads_out_of_the_bucket(own_lake: Path) -> None:
    (own_lake / "alice-lake").mkdir(parents=True)
    (own_lake / "alice-lake2").mkdir()
    os.symlink("/etc", own_lake / "alice-lake" / "etc")
    os.symlink(own_lake / "alice-lake2", own_lake / "alice-lake" / "neighbour")
    for key in ("etc/passwd", "neighbour/a"):
        with pytest.raises(LakeError, match="out of the lake"):
            lake.lake_path(f"oss://alice-lake/{key}")


def test_a_result_lies_in_a_folder_of_its_task() -> None:
    location = lake.result_location("1000001", "mq-private", "q202601151030hz7f30b1c2d4e5a6b", date(2026, 1, 15))
    assert location == (
        "oss://aliyun-oa-query-results-1000001-oss-mq-private/DLA_Result/2026/01/15/q202601151030hz7f30b1c2d4e5a6b/result.csv"
    )
