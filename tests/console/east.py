"""Two regions: that of the cast's cluster, and another one with a cluster of its own on the same brokers."""

from __future__ import annotations

from typing import Any

import pytest

from console.accounts.crypto import encrypt
from console.instances.models import Cluster
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast

HERE, EAST = "mq-private", "eu-2"


@pytest.fixture
def several(settings: Any) -> None:
    """The settings list two regions."""
    settings.REGIONS = {HERE: "Private region", EAST: "Europe (Two)"}


@pytest.fixture
def east(cast: Cast, several: None, broker: BrokerProcess) -> Cluster:
    """The cluster of the second region."""
    return Cluster.objects.create(
        name="east",
        region=EAST,
        namesrv=broker.namesrv,
        access_key_id=broker.access_key_id,
        secret_encrypted=encrypt(broker.access_key_secret),
    )
