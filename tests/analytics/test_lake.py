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


def write(location: str, text: str) -> str:
    path = Path(lake.lake_path(location))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return location


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


def test_a_preview_tells_null_from_an_empty_text() -> None:
    location = write("oss://alice-lake/r.csv", 'a,"b ""x""",c\n1,,""\n"x,y","two\nlines","say ""hi"""\n,"a,"",b",z\n')
    columns, rows = lake.preview_result(location, 10)
    assert columns == ["a", 'b "x"', "c"]
    assert rows == [["1", None, ""], ["x,y", "two\nlines", 'say "hi"'], [None, 'a,",b', "z"]]


def test_a_preview_reads_no_more_than_it_shows() -> None:
    location = write("oss://alice-lake/r.csv", "a\n1\n2\n" + '"broken')
    assert lake.preview_result(location, 2) == (["a"], [["1"], ["2"]])


def test_a_preview_cuts_a_huge_cell() -> None:
    location = write("oss://alice-lake/r.csv", "a\n" + "x" * 50_000 + "\n")
    ((cell,),) = lake.preview_result(location, 1)[1]
    assert cell == "x" * lake.PREVIEW_CELL_CHARACTERS + "…"


def test_a_missing_result_is_an_error_that_names_it() -> None:
    with pytest.raises(LakeError, match=r"there is no file oss://alice-lake/gone\.csv"):
        lake.open_result("oss://alice-lake/gone.csv")
