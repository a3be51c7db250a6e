"""A lake of its own, with buckets of two tenants."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.catalog.models import Bucket, Schema
from tests.support import lakes
from tests.support.sql_cast import Cast


@pytest.fixture
def lake(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder behind `oss://`. Demo has the bucket `demo-lake` and writes there, `other` has `other-lake`."""
    folder = lakes.own_lake(monkeypatch)
    Bucket.objects.create(tenant=cast.alice.tenant, name="demo-lake")
    Bucket.objects.create(tenant=cast.charlie.tenant, name="other-lake")
    Schema.objects.filter(name="demo").update(location="oss://demo-lake/demo/")
    return folder


def put(lake: Path, key: str, content: str = "id,day\n1,2026-01-15\n") -> None:
    """A file of the lake."""
    path = lake / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
