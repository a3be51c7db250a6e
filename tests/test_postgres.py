"""The console holds on PostgreSQL as it does on SQLite: those of its tests run a second time of which the outcome could
differ there. They are the tests of models, queries, migrations, triggers, locks and races; what is decided in Python
from rows that both databases give alike (the matrices of roles and pages, and of roles and operations, the ways to an
error, forms without their token) is tested once, on SQLite (`tests/support/postgres.py` has the list).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import postgres

ROOT = Path(__file__).parents[1]


@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_the_consoles_tests_pass_on_postgresql() -> None:
    done = postgres.run(postgres.TESTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-20_000:]
