"""What lies in the lake's folder and is no file of its bucket: links out of it, in circles, pipes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics import engine, lake
from analytics.errors import LakeError, QueryFailed
from analytics.infer import infer_table
from analytics.specs import Column, TableSpec
from tests.analytics.conftest import result_text, specification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "a\n70001\n"


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """A folder of alice for each attack; what they lead to is bob's, or outside of the lake."""
    bob = Path(lake.lake_path("oss://bob-lake/linked"))
    bob.mkdir(parents=True, exist_ok=True)
    for secret in (bob / "s.csv", tmp_path / "s.csv"):
        secret.write_text(SECRET)
    names = ("neighbour", "outside", "circle", "nowhere", "pipe")
    made = {name: Path(lake.lake_path(f"oss://alice-lake/{tmp_path.name}/{name}")) for name in names}
    for folder in made.values():
        folder.mkdir(parents=True)
    (made["neighbour"] / "a.csv").symlink_to(bob / "s.csv")
    (made["outside"] / "a.csv").symlink_to(tmp_path / "s.csv")
    (made["circle"] / "a.csv").symlink_to("a.csv")
    (made["nowhere"] / "a.csv").symlink_to("gone")
    os.mkfifo(made["pipe"] / "a.csv")
    (made["neighbour"] / "d").symlink_to(bob)
    return made


def test_neither_name_nor_size_of_it_is_listed_or_counted(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        location = f"oss://alice-lake/{folder.parent.name}/{folder.name}/"
        assert list(lake.files(location)) == []
        assert lake.size_of(location) == 0
        with pytest.raises(LakeError, match="no files"):
            infer_table(location, "csv", {})


def test_no_statement_reads_it(spark: SparkSession, folders: dict[str, Path]) -> None:
    for name in ("neighbour", "outside", "circle"):
        folder = folders[name]
        location = f"oss://alice-lake/{folder.parent.name}/{folder.name}/"
        (folder / "own.csv").write_text("a\n1\n")
        table = TableSpec("t", location, "csv", (Column("a", "string"),))
        spec = specification("select * from t", {"demo": [table]})
        try:
            engine.run_query(spec)
            told = result_text(spec)
        except QueryFailed as error:
            told = error.user_message
        assert "70001" not in told, name
        assert str(folder.parent.parent.parent) not in told


def test_a_link_within_the_bucket_is_a_file(folders: dict[str, Path]) -> None:
    folder = folders["nowhere"]
    (folder / "gone").write_text(SECRET)
    found = {file.location.rpartition("/")[2] for file in lake.files(f"oss://alice-lake/{folder.parent.name}/nowhere/")}
    assert found == {"a.csv", "gone"}
