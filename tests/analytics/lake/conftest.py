"""Both kinds of lake: a folder, and a real S3 server with a bucket each or with one for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.object_storage import ObjectStorage, object_storage


@pytest.fixture(scope="package")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStorage]:
    with object_storage(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def on_objects(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    """A lake whose buckets are those of the server; files of other tests are in it."""
    for name, value in s3.settings().items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture(params=["folder", "buckets", "one bucket"])
def lake_of_each_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An empty lake. A test with this fixture runs on each kind of storage."""
    kind = str(request.param)
    if kind == "folder":
        monkeypatch.setenv("GANTRY_LAKE", str(tmp_path / "lake"))
        return kind
    server: ObjectStorage = request.getfixturevalue("s3")
    lake = "s3://" if kind == "buckets" else f"s3://company-lake/{tmp_path.name}/"
    for name, value in server.settings(lake).items():
        monkeypatch.setenv(name, value)
    return kind


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """A bucket that no other test uses."""
    return f"lake-{hash(str(tmp_path)) % 10**12}"
