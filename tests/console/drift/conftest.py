"""The standing cast on a broker of its own: these tests empty its store, change it and end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess, broker_process


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with broker_process() as process:
        yield process
