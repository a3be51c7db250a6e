"""A lake of its own for one test, where a Spark that runs already may write."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest


def own_lake(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder in the lake of this run the lake: the wall around the engine is built when Spark starts."""
    folder = Path(os.environ["GANTRY_HOME"], "lake", f"lake-{uuid4().hex[:8]}")
    folder.mkdir(parents=True)
    monkeypatch.setenv("GANTRY_LAKE", str(folder))
    return folder
