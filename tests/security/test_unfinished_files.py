"""Attack: the folder beside a table in which a statement notes which files it moves and removes, written by a client.

Whoever may write somewhere below a table would move a denied file to where it may be read, or have it removed, by the
hands of the engine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from analytics.errors import QueryFailed
from analytics.lake import lake_path
from analytics.sql import moves
from console.accounts.models import User
from console.catalog.models import Bucket
from tests.support.sql_cast import Cast

PLAN = {
    "rows": 0,
    "columns": [],
    "moves": [["secret/deep/s.csv", "seen.csv"]],
    "removals": ["secret/s.csv"],
}


@pytest.fixture
def lake(sql_cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    Bucket.objects.create(tenant=sql_cast.alice.tenant, name="demo-lake")
    return tmp_path


@pytest.mark.django_db
@pytest.mark.parametrize(
    "folder", ["t/_staging-q1", "t/_staging-q1/a", "_x", "t/.draft-0/a", ".x", "t/_a/b=c", "t/._", "t/__"]
)
def test_no_client_writes_where_unfinished_files_are(sql_cast: Cast, lake: Path, folder: str) -> None:
    User.objects.filter(pk=sql_cast.alice.person.pk).update(must_change_password=False)
    client = Client()
    client.force_login(sql_cast.alice.person)
    data = {"folder": folder, "content": [SimpleUploadedFile("moves.json", json.dumps(PLAN).encode())]}
    answer = client.post(reverse("sql.bucket_upload", args=["demo-lake"]), data)
    assert answer.status_code == 422
    assert not list(lake.rglob("moves.json"))
    data = {"folder": "t/_day=1", "content": [SimpleUploadedFile("a.csv", b"x")]}  # Spark reads that one
    assert client.post(reverse("sql.bucket_upload", args=["demo-lake"]), data).status_code == 302


@pytest.mark.parametrize(
    "source", ["secret/deep/s.csv", "_staging-q2/a/s.csv", "_staging-q1x/s.csv", "x/_staging-q1/s.csv", ""]
)
def test_a_plan_moves_nothing_but_what_its_statement_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    secret = Path(lake_path("oss://demo-lake/t/secret/deep/s.csv"))
    secret.parent.mkdir(parents=True)
    secret.write_text("42")
    plan = Path(lake_path(f"{moves.staging('oss://demo-lake/t/', 'q1')}moves.json"))
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps(PLAN | {"moves": [[source, "seen.csv"]]}))
    with pytest.raises(QueryFailed, match="no statement has written"):
        moves.recover("oss://demo-lake/t/", {"q1": True})
    assert secret.exists()
    assert not (tmp_path / "demo-lake" / "t" / "seen.csv").exists()
