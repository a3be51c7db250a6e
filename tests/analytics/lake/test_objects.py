"""A lake on a real S3 server: what only object storage does, and how its outages and refusals are told."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from analytics import lake
from analytics.errors import LakeError, LakeUnavailable
from analytics.lake import store
from analytics.lake.locations import Place
from analytics.lake.objects import ObjectStore
from tests.support.object_storage import ObjectStorage
from tests.support.product import free_ports


def client() -> Any:
    found = store.get()
    assert isinstance(found, ObjectStore)
    return found.client


def test_all_buckets_can_be_folders_of_one(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.settings("s3://company-lake/gantry/").items():
        monkeypatch.setenv(name, value)
    lake.write_file("oss://alice-lake/t/a.csv", io.BytesIO(b"x"))
    assert client().head_object(Bucket="company-lake", Key="gantry/alice-lake/t/a.csv")["ContentLength"] == 1
    assert store.get().buckets() == ["alice-lake"]
    assert lake.spark_url("oss://alice-lake/t/") == "s3a://company-lake/gantry/alice-lake/t"
    assert lake.as_locations("scan s3a://company-lake/gantry/alice-lake/t") == "scan oss://alice-lake/t"


def test_marks_of_folders_are_no_files(on_objects: ObjectStorage, bucket: str) -> None:
    lake.write_file(f"oss://{bucket}/t/day=1/a.csv", io.BytesIO(b"x"))
    for key in ("t/", "t/day=1/", "t/day=2/"):
        client().put_object(Bucket=bucket, Key=key, Body=b"")
    assert [file.location for file in lake.files(f"oss://{bucket}/t/", hidden=True)] == [
        f"oss://{bucket}/t/day=1/a.csv"
    ]
    lake.remove(f"oss://{bucket}/t/")
    assert "Contents" not in client().list_objects_v2(Bucket=bucket)


def test_an_upload_in_parts_is_seen_when_it_is_whole(on_objects: ObjectStorage, bucket: str) -> None:
    class Watched(io.BytesIO):
        seen: list[int] = []

        def read(self, size: int | None = -1) -> bytes:
            self.seen.append(len(lake.files(f"oss://{bucket}/")))
            return super().read(size)

    content = Watched(b"x" * 40_000_000)
    lake.write_file(f"oss://{bucket}/file", content)
    assert set(content.seen) == {0}
    assert len(lake.files(f"oss://{bucket}/")) == 1


def test_what_is_not_finished_counts_and_is_swept_when_it_is_old(on_objects: ObjectStorage, bucket: str) -> None:
    store.get().make_ready(Place(bucket, "x"))
    upload = client().create_multipart_upload(Bucket=bucket, Key="parts/part-0")["UploadId"]
    client().upload_part(Bucket=bucket, Key="parts/part-0", UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    assert lake.size_of(f"oss://{bucket}/parts/") == 1000
    now = int(time.time() * 1000)
    assert lake.drop_drafts(now - 60_000, [bucket]) == 0
    assert lake.drop_drafts(now + 60_000, [bucket]) == 1
    assert lake.size_of(f"oss://{bucket}/") == 0


def test_a_file_that_is_replaced_while_it_is_read_is_not_mixed_with_the_other(
    on_objects: ObjectStorage, bucket: str
) -> None:
    location = f"oss://{bucket}/file"
    lake.write_file(location, io.BytesIO(b"a" * 10_000_000))
    with lake.open_file(location) as file:
        assert file.read(1) == b"a"
        lake.write_file(location, io.BytesIO(b"b" * 10_000_000))
        with pytest.raises(LakeError, match="was replaced while it was read"):
            file.read()


def test_a_wrong_key_is_told_in_one_sentence_without_the_key(
    on_objects: ObjectStorage, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write_file(f"oss://{bucket}/file", io.BytesIO(b"x"))
    monkeypatch.setenv("GANTRY_LAKE_ACCESS_KEY_SECRET", "a wrong secret")
    for attempt in (
        lambda: lake.open_file(f"oss://{bucket}/file"),
        lambda: lake.files(f"oss://{bucket}/"),
        lambda: lake.write_file(f"oss://{bucket}/file", io.BytesIO(b"y")),
        lambda: lake.remove(f"oss://{bucket}/file"),
    ):
        with pytest.raises(LakeUnavailable, match="the object storage refuses the lake's access to oss://") as failure:
            attempt()
        said = failure.value.user_message
        assert "\n" not in said
        assert "a wrong secret" not in said
        assert on_objects.access_key_id not in said


def test_a_storage_that_is_away_is_told_in_one_sentence(
    on_objects: ObjectStorage, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANTRY_LAKE_ENDPOINT", f"http://127.0.0.1:{free_ports(1)[0]}")
    for attempt in (lambda: lake.open_file(f"oss://{bucket}/file"), lambda: lake.files(f"oss://{bucket}/")):
        with pytest.raises(LakeUnavailable, match="does not answer; try again in a few minutes") as failure:
            attempt()
        assert not failure.value.is_missing


def test_an_outage_in_the_middle_of_a_file_is_an_error_and_no_end(s3: ObjectStorage, on_objects: ObjectStorage) -> None:
    lake.write_file("oss://outage-lake/r.csv", io.BytesIO(b"a\n" + b"1\n" * 5_000_000))
    _, rows = lake.read_result("oss://outage-lake/r.csv")
    assert next(rows) == ["1"]
    s3.stop()
    try:
        with pytest.raises(LakeUnavailable):
            sum(1 for _ in rows)
    finally:
        s3.start()
    assert sum(1 for _ in lake.read_result("oss://outage-lake/r.csv")[1]) == 5_000_000
