"""Attack: a bucket under the name of what lies in the lake's storage already, and was never this account's.

The AccessKey of the lake may see more buckets than the console has made; so may a folder hold what an account left.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from analytics import lake
from console.catalog import buckets
from console.catalog.models import Bucket
from console.web.errors import Refused
from tests.support.object_storage import ObjectStorage, object_storage
from tests.support.sql_cast import Cast


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStorage]:
    with object_storage(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=["folder", "s3://", "s3://company-lake/gantry/"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kind = str(request.param)
    if kind == "folder":
        monkeypatch.setenv("GANTRY_LAKE", str(request.getfixturevalue("tmp_path")))
    else:
        for name, value in request.getfixturevalue("s3").settings(kind).items():
            monkeypatch.setenv(name, value)
    return kind


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["payroll/2026.csv", ".hidden/x", "_x"])
def test_no_account_takes_what_lies_in_the_storage_already(sql_cast: Cast, storage: str, key: str) -> None:
    lake.write_file(f"oss://company-secrets/{key}", io.BytesIO(b"70001"))
    with pytest.raises(Refused, match="The name company-secrets is taken"):
        buckets.create(sql_cast.alice, "company-secrets")
    assert not Bucket.objects.filter(name="company-secrets").exists()
    lake.remove("oss://company-secrets")


@pytest.mark.django_db
def test_a_deleted_bucket_can_be_made_again(sql_cast: Cast, storage: str) -> None:
    bucket = buckets.create(sql_cast.alice, "alice-new")
    lake.write_file("oss://alice-new/a.csv", io.BytesIO(b"1"))
    buckets.delete(sql_cast.alice, bucket)
    assert lake.is_free("alice-new")
    assert buckets.create(sql_cast.alice, "alice-new").name == "alice-new"
