"""Alice's queues at a running service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokercore.smq.client import QueueClient
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess


@pytest.fixture
def acmes(cast: Cast, queues: QueueServiceProcess) -> Iterator[QueueClient]:
    """A client of acme's queues, as any program has one."""
    with queues.client(cast.acme.uid, QueueClient) as client:
        yield client
