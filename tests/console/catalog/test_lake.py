"""Pages of the lake: buckets, files, proposed tables; nothing of another account."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient, Client
from django.urls import reverse
from pytest_django import Settings

from analytics.errors import LakeError
from analytics.infer import infer_table
from console.accounts.models import User
from console.audit.models import Entry
from console.catalog import buckets
from console.catalog.models import Bucket, ExternalTable, Schema
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder behind `oss://`; `demo` has the bucket `demo-lake`, `other` has `other-lake`."""
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    Bucket.objects.create(tenant=cast.alice.tenant, name="demo-lake")
    Bucket.objects.create(tenant=cast.charlie.tenant, name="other-lake")
    return tmp_path


def signed_in(user: User) -> Client:
    """A browser of the user."""
    User.objects.filter(pk=user.pk).update(must_change_password=False)
    client = Client()
    client.force_login(user)
    return client


def file(name: str, content: bytes = b"id,name\n1,a\n") -> SimpleUploadedFile:
    """A file to upload."""
    return SimpleUploadedFile(name, content)


def test_a_bucket_is_made_and_deleted_by_its_name(cast: Cast, lake: Path) -> None:
    client = signed_in(cast.alice.person)
    assert client.post(reverse("sql.bucket_create"), {"name": "tour-1"}).status_code == 302
    assert Bucket.objects.get(name="tour-1").tenant == cast.alice.tenant
    for name in ("Tour", "ab", "-tour", "gantry-x", "aliyun-oa-query-results-1", "demo-lake", "other-lake"):
        response = client.post(reverse("sql.bucket_create"), {"name": name})
        assert response.status_code == 422, name
    assert "is taken" in response.content.decode()
    (lake / "tour-1").mkdir()
    (lake / "tour-1" / "x.csv").write_text("x")
    url = reverse("sql.bucket_delete", args=["tour-1"])
    assert client.post(url, {"name": "tour"}).status_code == 422
    assert client.post(url, {"name": "tour-1"}).status_code == 302
    assert not (lake / "tour-1").exists()
    assert Entry.objects.filter(action="sql.bucket.delete", resource__endswith=":tour-1").exists()


def test_a_bucket_with_tables_is_kept(cast: Cast, lake: Path) -> None:
    schema = Schema.objects.get(name="demo")
    ExternalTable.objects.create(schema=schema, name="t", location="oss://demo-lake/t/")
    bucket = Bucket.objects.get(name="demo-lake")
    with pytest.raises(Refused, match=r"Tables \(1\) and schemas \(0\) are in demo-lake"):
        buckets.delete(cast.alice, bucket)
    page = signed_in(cast.alice.person).get(reverse("sql.buckets")).content.decode()
    assert "demo.t" in page
    assert "other-lake" not in page


async def test_files_are_uploaded_listed_downloaded_and_deleted(
    cast: Cast, lake: Path, settings: Settings, transactional_db: None
) -> None:
    from asgiref.sync import sync_to_async

    client = await sync_to_async(signed_in)(cast.alice.person)
    data = {"folder": "/in/day=2026-01-15/", "content": [file("a.csv"), file("a b.csv", b"x" * 3_000_000)]}
    post = sync_to_async(client.post)
    get = sync_to_async(client.get)
    upload = reverse("sql.bucket_upload", args=["demo-lake"])
    assert (await post(upload, data)).status_code == 302
    assert (lake / "demo-lake/in/day=2026-01-15/a.csv").read_bytes() == b"id,name\n1,a\n"
    page = (await get(reverse("sql.bucket", args=["demo-lake"]), {"folder": "in/day=2026-01-15"})).content.decode()
    assert "a b.csv" in page
    assert "2.9 MiB" in page

    browser = AsyncClient()
    await sync_to_async(browser.force_login)(cast.alice.person)
    response: Any = await browser.get(reverse("sql.bucket_file", args=["demo-lake", "in/day=2026-01-15/a b.csv"]))
    assert b"".join([piece async for piece in response.streaming_content]) == b"x" * 3_000_000
    assert response["Content-Disposition"].startswith("attachment")

    delete = reverse("sql.bucket_file_delete", args=["demo-lake", "in/day=2026-01-15/a.csv"])
    assert (await post(delete, {"name": "a.csv"})).status_code == 302
    assert not (lake / "demo-lake/in/day=2026-01-15/a.csv").exists()

    settings.LAKE_UPLOAD_BYTES = 10
    refused = await post(upload, {"folder": "in", "content": [file("big.csv")]})
    assert "12 bytes; 10 are allowed" in refused.content.decode()
    hidden = await post(upload, {"folder": "../other-lake", "content": [file("a.csv", b"1")]})
    assert hidden.status_code in (404, 422)
    assert not (lake / "other-lake").exists()


def test_a_table_over_a_folder_is_proposed_and_made(cast: Cast, lake: Path) -> None:
    client = signed_in(cast.alice.person)
    url = reverse("sql.bucket_table", args=["demo-lake"]) + "?folder=My%20Orders"
    assert "There are no files" in client.get(url).content.decode()
    folder = lake / "demo-lake" / "My Orders" / "n=1"
    folder.mkdir(parents=True)
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"id,at\n1,2026-01-15 10:00:00\n"))
    form = client.get(url).context["form"]
    text = form.initial["text"]
    assert text == (
        "CREATE EXTERNAL TABLE `demo`.`my_orders` (\n  `id` bigint,\n  `at` timestamp,\n  `n` int\n)\nUSING CSV\n"
        "PARTITIONED BY (`n`)\nLOCATION 'oss://demo-lake/My Orders/'"
    )
    assert client.post(url, {"text": "drop table demo.flights"}).status_code == 422
    assert client.post(url, {"text": text.replace("demo-lake", "other-lake")}).status_code == 422
    assert client.post(url, {"text": text}).status_code == 302
    assert ExternalTable.objects.get(name="my_orders").partitions == ["n"]


def test_columns_of_parquet_are_told_as_spark_reads_them(lake: Path) -> None:
    folder = lake / "demo-lake" / "p"
    folder.mkdir(parents=True)
    schema = pa.schema(
        [
            ("a", pa.uint32()),
            ("b", pa.decimal128(12, 3)),
            ("c", pa.timestamp("us", "UTC")),
            ("d", pa.timestamp("us")),
            ("e", pa.list_(pa.struct([("x y", pa.string())]))),
            ("f", pa.map_(pa.string(), pa.float64())),
            ("g", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    pq.write_table(schema.empty_table(), folder / "x.parquet")
    found = infer_table("oss://demo-lake/p/", None, {})
    assert [(c.name, c.type) for c in found.columns] == [
        ("a", "bigint"),
        ("b", "decimal(12,3)"),
        ("c", "timestamp"),
        ("d", "timestamp_ntz"),
        ("e", "array<struct<`x y`:string>>"),
        ("f", "map<string,double>"),
        ("g", "string"),
    ]
    (folder / "x.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(LakeError, match=r"x\.parquet cannot be read as parquet"):
        infer_table("oss://demo-lake/p/", None, {})


def test_rights_reach_as_far_as_their_folder(cast: Cast, lake: Path) -> None:
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Allow", "Action": "dla:QueryTask", "Resource": "*"},
            {"Effect": "Allow", "Action": "dla:ReadBucket", "Resource": "acs:oss:*:*:demo-lake/in*"},
        ],
    }
    client = signed_in(allow(cast.bob.person, document).person)
    url = reverse("sql.bucket", args=["demo-lake"])
    assert client.get(url, {"folder": "in/x"}).status_code == 200
    assert client.get(url, {"folder": "out"}).status_code == 403
    assert client.get(url).status_code == 403
    upload = {"folder": "in", "content": [file("a.csv")]}
    assert client.post(reverse("sql.bucket_upload", args=["demo-lake"]), upload).status_code == 403
    assert signed_in(cast.alice.person).get(reverse("sql.bucket", args=["other-lake"])).status_code == 404


def test_an_outage_of_the_lake_is_shown_as_one(cast: Cast, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LakeError("the storage does not answer")

    monkeypatch.setattr("analytics.lake.folders", fail)
    monkeypatch.setattr("analytics.lake.size_of", fail)
    monkeypatch.setattr("analytics.lake.write_file", fail)
    client = signed_in(cast.alice.person)
    assert "the storage does not answer" in client.get(reverse("sql.bucket", args=["demo-lake"])).content.decode()
    assert client.get(reverse("sql.buckets")).status_code == 200
    response = client.post(reverse("sql.bucket_upload", args=["demo-lake"]), {"content": [file("a.csv")]})
    assert response.status_code == 422
    assert "the storage does not answer" in response.content.decode()
