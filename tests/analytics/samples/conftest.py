from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import lakes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def own_lake(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of its own for each test of samples; Spark starts with that of the run, in which it lies."""
    return lakes.own_lake(monkeypatch)
