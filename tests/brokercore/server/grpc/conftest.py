"""A broker that serves gRPC, and three ways to talk to it: by frames, by calls, and with the vendor's client."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokercore.server.grpc.caller import Caller
from tests.brokercore.server.grpc.vendor import Vendor
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess, broker_process


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the broker keeps its certificate."""
    return tmp_path_factory.mktemp("grpc")


@pytest.fixture(scope="session")
def broker(home: Path) -> Iterator[BrokerProcess]:
    """One broker with gRPC and TLS for these tests; those that end it start their own."""
    with broker_process(
        gantry_grpc_port="0",
        gantry_home=str(home),
        gantry_broker_tls="permissive",
        gantry_transaction_check_seconds="1",
    ) as process:
        yield process


@pytest.fixture
def certificate(home: Path, broker: BrokerProcess) -> bytes:
    """What a client has to trust to speak TLS with the broker."""
    return (home / "tls/broker.crt").read_bytes()


@pytest.fixture
def caller(broker: BrokerProcess) -> Iterator[Caller]:
    """Calls with the system key."""
    with Caller(broker.grpc) as found:
        yield found


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    """Frames with the system key."""
    with Wire(broker.address) as found:
        yield found


@pytest.fixture(scope="session")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The vendor's client; it writes its log into the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("rocketmq-python-client")))
        return importlib.import_module("rocketmq")


@pytest.fixture
def vendor(broker: BrokerProcess, rocketmq: Any) -> Iterator[Vendor]:
    """Producers and consumers of the vendor's client, ended with the test."""
    with Vendor(rocketmq, broker.grpc) as found:
        yield found
