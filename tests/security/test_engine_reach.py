"""A cluster that is added while the engine runs: out of its reach until it has started again, which is when it may."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from analytics import engine, reach, wall
from analytics import session as spark_session
from analytics.errors import AnalyticsError, EngineOutdated, QueryCancelled
from analytics.specs import TableSpec
from brokercore.client import Admin, Credentials, Message, Producer
from console.accounts.crypto import encrypt
from console.instances import broker as clients
from console.instances.models import Cluster
from console.sql import lifecycle, services, worker
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from console.topics.models import Topic
from tests.analytics.conftest import result_text, specification
from tests.analytics.sources.conftest import new_topic, send, table_of
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.cast import Cast, cast, console, make_instance, make_topic

__all__ = ["cast", "console"]
pytestmark = [
    pytest.mark.skipif(not wall.is_available() or bool(wall.shortcoming()), reason="the wall is not whole"),
    pytest.mark.spark,
    pytest.mark.timeout(900),
]
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def other() -> Iterator[BrokerProcess]:
    """Brokers of somebody else, with a store of their own."""
    with broker_process() as process:
        yield process


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, broker: BrokerProcess, other: BrokerProcess) -> Iterator[set[str]]:
    """An engine of the test's own whose settings have `broker` alone; the addresses of clusters that were added."""
    del other  # both have chosen their ports of those that this run keeps for brokers
    engine.stop()
    for name, place in (("GANTRY_NAMESRV_PORT", broker.namesrv), ("GANTRY_BROKER_PORT", broker.address)):
        monkeypatch.setenv(name, place.rpartition(":")[2])
    monkeypatch.delenv("GANTRY_ENGINE_PORTS")
    addresses: set[str] = set()
    monkeypatch.setattr(reach, "_further", lambda: addresses)
    yield addresses
    engine.stop()


def bodies(broker: BrokerProcess, topic: str) -> list[str]:
    """The messages of a topic, by a statement."""

    def lookup(schema: str, name: str) -> TableSpec | None:
        return table_of(broker, name) if schema == "mq" else None

    spec = specification(f"select body from mq.`{topic}`", {"demo": []}, lookup=lookup)
    engine.run_query(spec)
    return [row["body"] for row in csv.DictReader(io.StringIO(result_text(spec)))]


def topic_with(broker: BrokerProcess, body: str) -> str:
    key = Credentials(broker.access_key_id, broker.access_key_secret)
    with Admin(broker.namesrv, key) as admin, Producer(broker.namesrv, key, "GID_reach") as producer:
        topic = new_topic(admin)
        send(producer, topic, body)
    return topic


def jvm() -> int:
    session: Any = spark_session.get()
    return int(session.sparkContext._gateway.proc.pid)


def may_use_udp() -> bool:
    java: Any = spark_session.get()._jvm
    try:
        java.java.net.DatagramSocket().close()
    except Exception:  # noqa: BLE001  what Py4J makes of the JVM's
        return False
    return True


def test_an_idle_engine_starts_again_for_a_cluster_that_was_added_and_a_busy_one_does_not(
    known: set[str], broker: BrokerProcess, other: BrokerProcess
) -> None:
    ours, theirs = topic_with(broker, "ours"), topic_with(other, "theirs")
    assert bodies(broker, ours) == ["ours"]
    first = jvm()
    assert not engine.beyond([other.namesrv]), "nobody has added it: no start would help"

    known.update((other.namesrv, other.address))
    assert engine.beyond([broker.namesrv, other.address]) and not engine.beyond([broker.namesrv])
    with pytest.raises(EngineOutdated) as caught:
        bodies(other, theirs)
    assert set(caught.value.addresses) == known
    assert caught.value.user_message.startswith("The engine started before these brokers were known")

    ended: list[AnalyticsError] = []

    def run_long() -> None:
        sql = "select max(a.id * b.id % 7) from range(1000000000) a cross join range(10000) b"
        try:
            engine.run_query(specification(sql, {"demo": []}, task_id="long"))
        except AnalyticsError as error:
            ended.append(error)

    busy = threading.Thread(target=run_long)
    busy.start()
    eventually(lambda: engine.progress("long"), PATIENCE_SECONDS)
    with pytest.raises(EngineOutdated):
        engine.renew(known)
    assert (jvm(), ended) == (first, []), "whoever is in it is not disturbed"
    engine.cancel("long")
    busy.join(PATIENCE_SECONDS)
    assert isinstance(ended[0], QueryCancelled)

    engine.renew(known)
    assert bodies(other, theirs) == ["theirs"]
    assert jvm() != first
    second = jvm()
    assert bodies(broker, ours) == ["ours"]
    engine.renew(known)
    assert jvm() == second, "it reaches them"


@pytest.mark.django_db(transaction=True)
def test_a_statement_on_a_cluster_that_was_added_is_run_by_an_engine_that_started_again(
    known: set[str], cast: Cast, broker: BrokerProcess, other: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    del known  # the addresses come from the database
    monkeypatch.setattr(reach, "_further", clients.added_addresses)
    monkeypatch.setattr(lifecycle, "hand_over", lambda task_id: None)
    ours = make_topic(cast.alice, cast.instance, "ours")
    assert run(cast, ours).status == TaskStatus.SUCCESS
    first = jvm()
    added = Cluster.objects.create(
        name="added", region=cast.cluster.region, namesrv=other.namesrv,
        access_key_id=other.access_key_id, secret_encrypted=encrypt(other.access_key_secret),
    )  # fmt: skip
    theirs = make_topic(cast.alice, make_instance(cast.alice, added, name="there"), "theirs")
    clients.producer(added).send(Message(theirs.physical_name, b"theirs"))
    done = run(cast, theirs)
    assert (done.status, done.message, done.row_count, done.attempts) == (TaskStatus.SUCCESS, "", 1, 1)
    assert jvm() != first


def run(cast: Cast, topic: Topic) -> QueryTask:
    """A statement on a topic, as the worker runs it."""
    task = services.submit(cast.actor("alice"), read(f"select body from mq.`{topic.physical_name}`"), "mq")
    worker.run(task.pk)
    task.refresh_from_db()
    return task


def test_a_cluster_with_a_name_on_ports_that_are_open_needs_another_engine_too(
    known: set[str], broker: BrokerProcess
) -> None:
    first = jvm()
    assert not may_use_udp()
    named = f"mq.example.com:{broker.namesrv.rpartition(':')[2]}"
    known.add(named)
    assert engine.beyond([named])
    engine.renew([named])
    assert jvm() != first and may_use_udp()
    assert not engine.beyond([named])
