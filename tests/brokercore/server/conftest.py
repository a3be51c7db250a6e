"""A connection to the shared broker with the system key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(broker.address) as connection:
        yield connection
