"""A broker that is attacked, and a bystander who has to be served all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokercore.protocol.codes import RequestCode as Code
from tests.brokercore.hostile.attack import INSTANCE, TENANT
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess, broker_process, eventually


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own for each module, with one tenant."""
    home = str(tmp_path_factory.mktemp("victim"))
    with broker_process(gantry_metrics_port="0", gantry_broker_tls="permissive", gantry_home=home) as process:
        process.allow(
            *TENANT,
            {
                "boundary": [f"acs:mq:*:*:{INSTANCE}%*"],
                "statements": [{"Effect": "Allow", "Action": ["mq:*"], "Resource": "*"}],
            },
        )
        with Wire(process.address, TENANT) as tenant:
            eventually(lambda: tenant.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        yield process


@pytest.fixture(scope="module")
def bystander(victim: BrokerProcess) -> Iterator[Wire]:
    """A connection with the system key that was there before."""
    with Wire(victim.address) as wire:
        wire.ok(Code.GET_BROKER_CLUSTER_INFO)  # a first test may take longer than a stranger has
        yield wire


@pytest.fixture(autouse=True)
def nobody_else_notices(victim: BrokerProcess, bystander: Wire) -> Iterator[None]:
    """After each test the bystander is served, and the log tells of no exception that nobody expected."""
    yield
    assert bystander.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
    unexpected = [line for line in victim.log.splitlines() if " failed [" in line or "CRITICAL" in line]
    assert not unexpected
    assert "Traceback" not in victim.log
