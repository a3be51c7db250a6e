"""The cast of the console on a running broker, and Spark in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analytics import engine
from console.archive import lifecycle, worker


@pytest.fixture(scope="package")
def spark() -> Iterator[None]:
    """Statements and steps start Spark by themselves; it ends with the package."""
    yield
    engine.stop()


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat's thread has a connection of its own, which a test's open transaction would lock out."""
    monkeypatch.setattr(worker, "HEARTBEAT_S", 600.0)


@pytest.fixture(autouse=True)
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Archives that were given to Celery, which does not run here."""
    sent: list[int] = []
    monkeypatch.setattr(lifecycle, "hand_over", sent.append)
    return sent
