"""Another cluster beside the embedded one: brokers of somebody else, with a store and an account of their own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from console.accounts.crypto import encrypt
from console.instances.models import Cluster
from tests.support.broker import BrokerProcess, broker_process
from tests.support.cast import Cast

OTHER_KEY, OTHER_SECRET = "LTAIother" + secrets.token_hex(4), secrets.token_urlsafe(24)


@pytest.fixture(scope="session")
def other_broker() -> Iterator[BrokerProcess]:
    """Brokers of somebody else: another store, another account."""
    with broker_process(gantry_broker_access_key_id=OTHER_KEY, gantry_broker_access_key_secret=OTHER_SECRET) as process:
        yield process


@pytest.fixture
def other(cast: Cast, other_broker: BrokerProcess) -> Cluster:
    """Their cluster, added beside the embedded one."""
    return Cluster.objects.create(
        name="other",
        region=cast.cluster.region,
        namesrv=other_broker.namesrv,
        access_key_id=OTHER_KEY,
        secret_encrypted=encrypt(OTHER_SECRET),
    )
