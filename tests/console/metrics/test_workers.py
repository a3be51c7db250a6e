"""Two real workers share the clusters, and what one held when it was killed the other one samples."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from console.accounts.crypto import encrypt
from console.instances.models import Cluster
from console.metrics.store import LEASE_MS, Store, connection
from tests.support.broker import BrokerProcess, eventually
from tests.support.cast import Cast, make_instance
from tests.support.worker import WorkerProcess, worker_on

SAMPLE = "console.metrics.tasks.sample"
TAKEN = "Task console.metrics.tasks.sample_cluster"
CLUSTERS = 6
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def clusters(cast: Cast, broker: BrokerProcess) -> list[Cluster]:
    """Several, which are one and the same broker, and each has an instance."""
    found = [
        Cluster.objects.create(
            name=f"shared-{number}",
            region=cast.cluster.region,
            namesrv=broker.namesrv,
            access_key_id=broker.access_key_id,
            secret_encrypted=encrypt(broker.access_key_secret),
        )
        for number in range(CLUSTERS)
    ]
    for cluster in found:
        make_instance(cast.alice, cluster, name=cluster.name)
    return found


@pytest.fixture
def workers(broker: BrokerProcess) -> Iterator[list[WorkerProcess]]:
    started = [worker_on(broker, threads=1) for _ in range(2)]
    try:
        yield started
    finally:
        for one in started:
            one.kill()


def test_two_share_the_clusters_and_one_takes_over_from_one_that_is_killed(
    broker: BrokerProcess, clusters: list[Cluster], workers: list[WorkerProcess]
) -> None:
    first, second = workers

    def sampled() -> bool:
        first.send(SAMPLE)
        return all(TAKEN in one.log for one in workers) and all(Store(c.name).latest() for c in clusters)

    eventually(sampled, seconds=240)
    held = _held_by_one_that_waits(broker, clusters, first, second)
    ticks = {cluster.name: _at_ms(cluster) for cluster in clusters}
    for cluster in held:
        assert 0 < connection().pttl(f"gantry:metrics:{cluster.name}:lease") <= LEASE_MS

    def taken_over() -> bool:
        second.send(SAMPLE)
        return all(_at_ms(cluster) > ticks[cluster.name] for cluster in clusters)

    eventually(taken_over, seconds=240)


def _held_by_one_that_waits(
    broker: BrokerProcess, clusters: list[Cluster], first: WorkerProcess, second: WorkerProcess
) -> list[Cluster]:
    """The clusters whose lease a killed worker has: it asked a broker that did not answer."""
    os.kill(second.process.pid, signal.SIGSTOP)
    os.kill(broker.pid, signal.SIGSTOP)
    try:

        def held() -> list[Cluster]:
            return [one for one in clusters if connection().exists(f"gantry:metrics:{one.name}:lease")]

        def is_waiting() -> bool:
            first.send(SAMPLE)
            return bool(held())

        eventually(is_waiting, seconds=120)
        first.kill()
        return held()
    finally:
        os.kill(broker.pid, signal.SIGCONT)
        os.kill(second.process.pid, signal.SIGCONT)


def _at_ms(cluster: Cluster) -> int:
    latest = Store(cluster.name).latest()
    return latest.at_ms if latest is not None else 0
