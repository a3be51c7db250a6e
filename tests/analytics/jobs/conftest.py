from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A lake of its own for each test of samples."""
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path / "lake"))
    return tmp_path / "lake"
