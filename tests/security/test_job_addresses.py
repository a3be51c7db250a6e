"""Addresses that a job's text names lead to nothing inside the platform's network, and get no key of Gantry's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from analytics.errors import PipelineFailed
from analytics.pipelines.decoding import Format
from analytics.pipelines.plan import Column, Insert, Plan, Sink, Source, Value
from analytics.pipelines.queue_source import QueueSource
from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from console.pipelines import addresses, starts
from console.pipelines.lifecycle import Lease
from console.web.errors import Refused
from tests.console.pipelines.conftest import pipeline, started, started_with
from tests.security.test_outgoing_addresses import INSIDE, written
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db
A = (Column("a", "string"),)
#: What an attacker would like to reach from the worker: metadata of the cloud, databases, the console, its own files.
HOSTILE = [
    *(f"http://{address}:{port}" for address in INSIDE for port in (80, 6379)),
    *(f"http://[{address}]:80" for address in written("169.254.169.254").values()),
    *("http://localhost:6379", "http://2130706433:80", "http://0x7f.1:80", "http://127.1:80", "http://0:80"),
    *(
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_x",
        "http://user@127.0.0.1:80",
        "http://h:80/path",
        "http://h:99999x",
    ),
    *("http://h:80\r\nx: y", "http://h:80#@127.0.0.1", "unix:///var/run/redis.sock", "", " ", "http://", "http://:80"),
]


def queue_at(endpoint: str) -> Plan:
    options: dict[str, Value] = {"queueName": "q", "endpoint": endpoint, "accessKeyId": "x", "accessKeySecret": "y"}
    source = Source("q", "mns", A, format="raw", options=options)
    return Plan((source,), (Sink("o", "print", A),), (), (Insert("o", "SELECT 1"),))


def topic_at(endpoint: str) -> Plan:
    options: dict[str, Value] = {"topic": "t", "endpoint": endpoint, "accessId": "x", "accessKey": "y"}
    return Plan((Source("q", "mq", A, options=options),), (Sink("o", "print", A),), (), (Insert("o", "SELECT 1"),))


@pytest.fixture
def closed(settings: Any, console: object) -> None:
    """As a deployment that listens for others: nothing inside is allowed."""
    settings.SMQ_PUSH_ALLOW = []
    settings.SMQ_ADDRESS = "http://queues.internal:8071"
    settings.ENDPOINT_HOST = "gantry.example.com"


@pytest.mark.parametrize("endpoint", HOSTILE)
def test_an_inner_address_is_refused_however_it_is_written(closed: None, endpoint: str) -> None:
    for plan in (
        queue_at(endpoint),
        queue_at("${secret_values.s}"),
        topic_at(endpoint),
        topic_at("${secret_values.s}"),
    ):
        with pytest.raises((Refused, PipelineFailed)) as refused:
            addresses.judged(plan)
        assert len(endpoint) < 8 or endpoint not in str(refused.value)


def test_one_inner_address_among_others_is_refused(closed: None) -> None:
    with pytest.raises(Refused):
        addresses.judged(topic_at("93.184.216.34:9876;127.0.0.1:6379"))


def test_public_addresses_are_told_with_where_they_may_end(closed: None, settings: Any) -> None:
    assert addresses.judged(queue_at("http://93.184.216.34:80")) == {"q": {"networks": ""}}
    assert addresses.judged(topic_at("93.184.216.34:9876")) == {}
    settings.SMQ_PUSH_ALLOW = [ip_network("10.1.0.0/16")]
    assert addresses.judged(queue_at("http://10.1.2.3")) == {"q": {"networks": "10.1.0.0/16"}}


def test_this_installations_own_services_are_reached_by_the_names_that_clients_are_told(
    closed: None, settings: Any, broker: BrokerProcess
) -> None:
    port = broker.namesrv.rpartition(":")[2]
    for endpoint in ("http://queues.internal:8071", f"http://1.mns.r.gantry.example.com:{settings.SMQ_PORT}"):
        assert addresses.judged(queue_at(endpoint)) == {}
    for endpoint in (broker.namesrv, f"http://MQ_INST_1.gantry.example.com:{port}"):
        assert addresses.judged(topic_at(endpoint)) == {}
    for endpoint in ("http://gantry.example.com:6379", "http://xgantry.example.com:8071"):
        with pytest.raises((Refused, PipelineFailed)):
            addresses.judged(queue_at(endpoint))


def test_the_worker_asks_before_anything_is_sent(cast: Cast, settings: Any, started: Any) -> None:
    settings.SMQ_PUSH_ALLOW = []
    started_with(cast.actor("alice"), started, queue_at("http://169.254.169.254:80"))
    with pytest.raises(Refused) as refused:
        starts.spec_of(Lease(started.pk, "", 1))
    assert refused.value.symbol == "ADDRESS_REFUSED"


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what it was sent."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        yield server.getsockname()[1], heard
        try:
            while True:
                connection, _ = server.accept()
                connection.settimeout(0.5)
                with connection:
                    heard.append(connection.recv(1000))
        except TimeoutError:
            return


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_stands_for_another_address_by_then_is_sent_nothing(scheme: str) -> None:
    """Neither a request nor TLS's first words: what is judged is the other end of the open connection."""
    with listening() as (port, heard):
        source = QueueSource(
            "q", f"{scheme}://localhost:{port}", "q", "id", "secret", "/", Format("raw", _schema()), networks=""
        )
        with pytest.raises(QueueServiceUnavailable, match="no public address"):
            source.client().queue("q")
    assert [one for one in heard if one] == []


def test_an_allowed_network_is_reached() -> None:
    client = QueueClient("http://127.0.0.1:1", "id", "secret", networks=[ip_network("127.0.0.0/8")])
    with pytest.raises(QueueServiceUnavailable, match="refused"):
        client.queue("q")


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("a", pa.string())])


__all__ = ["pipeline", "started"]
