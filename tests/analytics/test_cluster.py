"""The suite of statements runs a second time on a standalone cluster, started from the installed PySpark.

Nothing but SPARK_URL tells Gantry of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import spark

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.timeout(900), pytest.mark.spark]


def run_suite(environment: dict[str, str], *tests: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *tests],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=ROOT,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:]


def test_statements_run_on_a_standalone_cluster() -> None:
    with spark.standalone_cluster() as cluster:
        run_suite(
            {"SPARK_URL": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1"},
            "tests/analytics/sql/test_engine.py",
            "tests/analytics/sql/test_sessions.py",
        )
