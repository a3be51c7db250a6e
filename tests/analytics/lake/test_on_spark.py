"""Spark over a lake on a real S3 server: results, tables in every format, limits, secrets. One JVM, in its own process.

The committer of Spark's cloud module is among the jars, so that files are finished in place and not renamed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.object_storage import ObjectStorage, s3a_jars

#: Its JVM, and Maven and Go at the first time, take minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)
SCRIPT = Path(__file__).with_name("on_spark.py")


@pytest.fixture(scope="module")
def said(s3: ObjectStorage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("home of spark")
    environment = {
        **os.environ,
        **s3.settings("s3://company-lake/gantry/"),
        "GANTRY_HOME": str(home),
        "GANTRY_SPARK_JARS": s3a_jars(),
        "SPARK_URL": "local[2]",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    command = [sys.executable, str(SCRIPT)]
    answer = subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, timeout=550, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert s3.access_key_secret not in answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_results_are_written_and_read_back(said: dict[str, Any]) -> None:
    assert said["small"] == [["30000", "n,9999"]]
    assert said["parts"] == [30_000, ["0", "n,0"], ["29999", "n,29999"]]


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json", "orc"])
def test_tables_are_made_extended_and_read(said: dict[str, Any], file_format: str) -> None:
    assert said["inserted"][file_format] == [[["30000"]], [["5"]]]
    assert said["formats"][file_format] == [["30005", str(sum(range(30_000)) + 10), "n,9999"]]


def test_nothing_is_left_beside_them(said: dict[str, Any]) -> None:
    assert said["staging"] == []
    assert said["drafts"] == []


def test_a_plan_names_locations_and_not_the_storage(said: dict[str, Any]) -> None:
    plan = json.dumps(said["plan"])
    assert "oss://alice-lake/demo/t" in plan
    assert "s3a:" not in plan
    assert "company-lake" not in plan


def test_a_result_that_grows_too_large_is_stopped_before_it_is_finished(said: dict[str, Any]) -> None:
    assert said["too large"].startswith("QueryFailed: The result is larger than")


def test_a_statement_is_cancelled(said: dict[str, Any]) -> None:
    assert said["cancelled"].startswith("QueryCancelled")


def test_no_process_shows_the_secret(said: dict[str, Any]) -> None:
    assert said["secret is listed"] is False
