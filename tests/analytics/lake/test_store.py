"""What holds of every lake, whatever stands behind it."""

from __future__ import annotations

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from analytics import lake
from analytics.errors import LakeError
from analytics.lake.locations import DRAFT

pytestmark = pytest.mark.usefixtures("lake_of_each_kind")
HOUR_MS = 3_600_000


def put(location: str, content: bytes = b"x") -> str:
    assert lake.write_file(location, io.BytesIO(content)) == len(content)
    return location


def get(location: str) -> bytes:
    with lake.open_file(location) as file:
        return file.read()


def names(location: str, *, hidden: bool = False) -> list[str]:
    return [file.location.removeprefix(location) for file in lake.files(location, hidden=hidden)]


def test_a_file_is_read_as_it_was_written(bucket: str) -> None:
    for content in (b"", b"a,b\n1,2\n", os.urandom(20_000_000)):
        put(f"oss://{bucket}/a/file", content)
        assert get(f"oss://{bucket}/a/file") == content
    with lake.open_file(f"oss://{bucket}/a/file") as file:
        file.seek(-10, os.SEEK_END)
        assert file.read() == content[-10:]
        file.seek(5_000_000)
        assert file.read(3) == content[5_000_000:5_000_003]


def test_what_is_not_there_is_an_error_that_names_it(bucket: str) -> None:
    for location in (f"oss://{bucket}/gone.csv", "oss://no-such-bucket-at-all/gone.csv"):
        with pytest.raises(LakeError, match=f"there is no file {location}") as failure:
            lake.open_file(location)
        assert failure.value.is_missing
    assert lake.files("oss://no-such-bucket-at-all/t/") == []
    assert lake.fingerprint(f"oss://{bucket}/t/") is None


def test_one_file_is_told_as_the_list_tells_it_and_its_version_differs_when_it_is_written_anew(bucket: str) -> None:
    location = put(f"oss://{bucket}/a/one.csv", b"12")
    first = lake.file(location)
    assert first is not None
    assert [(file.location, file.size, file.version) for file in lake.files(f"oss://{bucket}/a")] == [
        (first.location, first.size, first.version)
    ]
    put(location, b"345")
    second = lake.file(location)
    assert second is not None
    assert (second.size, second.version == first.version) == (3, False)
    assert lake.file(f"oss://{bucket}/a/none.csv") is None
    assert lake.file(f"oss://{bucket}/a") is None
    assert lake.file("oss://no-such-bucket-at-all/one.csv") is None


def test_files_below_a_folder_are_listed_without_the_hidden_ones(bucket: str) -> None:
    table = f"oss://{bucket}/demo/t/"
    for name in ("b.csv", "day=1/a.csv", "_day=2/a.csv", "_SUCCESS", "_temporary/0/a.csv", ".draft", "day=1/.a.crc"):
        put(table + name)
    put(f"oss://{bucket}/demo/table2/c.csv")
    assert names(table) == ["_day=2/a.csv", "b.csv", "day=1/a.csv"]
    assert len(names(table, hidden=True)) == 7
    assert lake.folders(f"oss://{bucket}/demo/") == ["t", "table2"]
    there = {name: lake.is_there(f"oss://{bucket}/demo/{name}") for name in ("t/", "table2", "tab", "tt/")}
    assert there == {"t/": True, "table2": True, "tab": False, "tt/": False}
    assert lake.size_of(table) == 7


def test_a_folder_of_more_files_than_one_answer_holds_is_listed_and_removed_whole(bucket: str) -> None:
    table = f"oss://{bucket}/demo/many/"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, [f"{table}part-{number:05d}" for number in range(1100)]))
    put(f"oss://{bucket}/demo/many2")
    assert names(table) == [f"part-{number:05d}" for number in range(1100)]
    lake.remove(table)
    assert names(f"oss://{bucket}/") == ["demo/many2"]


def test_a_fingerprint_changes_with_the_files(bucket: str) -> None:
    table = f"oss://{bucket}/demo/t/"
    put(f"{table}a.csv", b"1")
    first = lake.fingerprint(table)
    assert lake.fingerprint(table) == first
    put(f"{table}a.csv", b"2")
    second = lake.fingerprint(table)
    put(f"{table}b.csv", b"2")
    assert len({first, second, lake.fingerprint(table)}) == 3


def test_a_file_is_moved_and_replaces_another(bucket: str) -> None:
    source, other = put(f"oss://{bucket}/_staging/a b+é.csv", b"new"), put(f"oss://{bucket}/t/a.csv", b"old")
    lake.move(source, other)
    assert get(other) == b"new"
    assert names(f"oss://{bucket}/", hidden=True) == ["t/a.csv"]
    with pytest.raises(LakeError, match="there is no file"):
        lake.move(source, other)


def test_many_files_are_moved_and_the_first_failure_is_told(bucket: str) -> None:
    pairs = [(put(f"oss://{bucket}/from/{n}", b"%d" % n), f"oss://{bucket}/to/{n}") for n in range(40)]
    lake.move_all(pairs)
    assert [get(destination) for _, destination in pairs] == [b"%d" % n for n in range(40)]
    with pytest.raises(LakeError, match="there is no file"):
        lake.move_all(pairs)


def test_parts_of_any_size_are_joined(bucket: str) -> None:
    mib = 1024**2
    sizes = [0, 10, 6 * mib, 1, 4 * mib, 5 * mib, 11 * mib + 3, 0, 7]
    contents = [os.urandom(size) for size in sizes]
    for number, content in enumerate(contents):
        put(f"oss://{bucket}/parts/part-{number}", content)
    for first in (0, 2, 6):
        parts = lake.files(f"oss://{bucket}/parts/")[first:]
        expected = b"head\n" + b"".join(contents[first:])
        assert lake.join_files(f"oss://{bucket}/joined", b"head\n", parts, lambda: None) == len(expected)
        assert get(f"oss://{bucket}/joined") == expected
        for number, content in enumerate(contents):
            put(f"oss://{bucket}/parts/part-{number}", content)


@pytest.mark.parametrize("size", [10, 40_000_000])
def test_a_writer_that_fails_leaves_what_was_there(bucket: str, size: int) -> None:
    location = put(f"oss://{bucket}/file", b"before")

    class Broken(io.BytesIO):
        def read(self, length: int | None = -1) -> bytes:
            if self.tell() >= size / 2:
                raise RuntimeError("the sender went away")
            return super().read(length)

    with pytest.raises(RuntimeError, match="went away"):
        lake.write_file(location, Broken(b"x" * size))
    assert get(location) == b"before"
    assert names(f"oss://{bucket}/", hidden=True) == ["file"]
    assert lake.size_of(f"oss://{bucket}/") == len(b"before")


def test_joining_can_be_stopped(bucket: str) -> None:
    for number in range(4):
        put(f"oss://{bucket}/parts/part-{number}", b"x" * 6_000_000)
    asked = iter(range(3))

    def check() -> None:
        if next(asked, None) is None:
            raise RuntimeError("cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        lake.join_files(f"oss://{bucket}/joined", b"head\n", lake.files(f"oss://{bucket}/parts/"), check)
    assert "joined" not in names(f"oss://{bucket}/", hidden=True)


def test_old_drafts_of_ours_are_swept_and_nothing_else(bucket: str) -> None:
    results = f"aliyun-oa-query-results-{bucket.removeprefix('lake-')}-oss-mq-private"
    draft = f"{DRAFT}{'0a' * 16}"
    kept = [put(f"oss://{bucket}/{name}") for name in (".hidden", "_SUCCESS", ".draft-of-mine/a", "_staging-q1/a")]
    put(f"oss://{bucket}/t/{draft}/part-1")
    put(f"oss://{results}/DLA_Result/2026/01/15/q1/{draft}")
    now = int(time.time() * 1000)
    assert lake.drop_drafts(now - HOUR_MS, [bucket]) == 0
    assert lake.drop_drafts(now + HOUR_MS, [bucket]) == 2
    assert names(f"oss://{bucket}/", hidden=True) == sorted(name.removeprefix(f"oss://{bucket}/") for name in kept)
    assert lake.files(f"oss://{results}/", hidden=True) == []


def test_a_path_exists_in_a_folder_only(bucket: str, lake_of_each_kind: str) -> None:
    if lake_of_each_kind == "folder":
        assert lake.lake_path(f"oss://{bucket}/a") == str(Path(os.environ["GANTRY_LAKE"]) / bucket / "a")
    else:
        with pytest.raises(LakeError, match="lies in object storage and has no path"):
            lake.lake_path(f"oss://{bucket}/a")
