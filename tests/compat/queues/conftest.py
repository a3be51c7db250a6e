"""One queue service for all three SDKs, and the AccessKeys of its cast."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from tests.support.queue_service import ACCOUNT, Keys, QueueServiceProcess, queue_service


@pytest.fixture(scope="session")
def service() -> Iterator[QueueServiceProcess]:
    with queue_service() as running:
        yield running


@pytest.fixture(scope="session")
def owner(service: QueueServiceProcess) -> Keys:
    """An AccessKey of the account."""
    return service.keys("owner")


@pytest.fixture(scope="session")
def sender(service: QueueServiceProcess) -> Keys:
    """A RAM user's key, which may send to every queue of the account, and do nothing else."""
    return service.keys("sender", "mns:SendMessage", resources=(f"acs:mns:*:{ACCOUNT}:/queues/*/messages",))


@pytest.fixture(scope="session")
def temporary(service: QueueServiceProcess) -> Keys:
    """A key with a token, as AssumeRole draws it."""
    later = int(time.time() + 3600) * 1000
    return service.keys("STS", "mns:*", token=secrets.token_urlsafe(30), expires_ms=later)


@pytest.fixture
def name() -> str:
    """The name of a queue that no other test has."""
    return f"q-{secrets.token_hex(5)}"
