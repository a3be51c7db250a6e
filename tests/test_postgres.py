"""The console holds on PostgreSQL as it does on SQLite: its tests run a second time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import postgres

ROOT = Path(__file__).parents[1]


@pytest.mark.real
@pytest.mark.timeout(1800)
def test_the_consoles_tests_pass_on_postgresql() -> None:
    done = postgres.run(postgres.TESTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-20_000:]
