"""Figures and health of a broker, over HTTP."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.brokercore.server.wire import Wire, properties
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.redis_server import RedisServer, redis_server


@dataclass(frozen=True)
class Watched:
    """A broker with its own Redis, and where its figures are."""

    process: BrokerProcess
    redis: RedisServer
    port: int

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def figures(self) -> dict[tuple[str, ...], float]:
        """Values by name and labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items(), reverse=True))): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with redis_server() as redis, broker_process(redis, gantry_metrics_port="0") as process:
        found = eventually(lambda: re.search(r"figures and health on port (\d+)", process.log))
        yield Watched(process, redis, int(found[1]))


def test_figures_count_what_happens(watched: Watched) -> None:
    with Wire(watched.process.address) as wire:
        topic, group = wire.topic(), wire.group()
        for _ in range(3):
            wire.publish(topic, b"12345", properties(TAGS="x"))
        wire.pull(group, topic)
        figures = watched.figures()
    assert figures["gantry_messages_in_total", topic] == 3
    assert figures["gantry_message_bytes_in_total", topic] == 15
    assert figures["gantry_messages_out_total", topic, group] == 3
    assert figures["gantry_connections",] >= 1
    assert figures["gantry_ready",] == 1
    assert 0 < figures["gantry_store_bytes",] < figures["gantry_store_limit_bytes",]
    assert figures["process_resident_memory_bytes",] > 1e6


def test_other_paths_and_methods_are_answered(watched: Watched) -> None:
    assert watched.get("/metrics?x=1")[0] == 200
    assert watched.get("/healthz", "HEAD") == (200, "")
    assert watched.get("/")[0] == 404
    assert watched.get("/metrics", "POST")[0] == 405


def test_rubbish_is_closed_and_harms_nobody(watched: Watched) -> None:
    for rubbish in (b"\r\n\r\n", b"x" * 100_000, b"\x16\x03\x01\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", watched.port), timeout=20) as connection:
            connection.settimeout(20)
            try:
                connection.sendall(rubbish)
                while connection.recv(65536):
                    pass
            except ConnectionError:
                continue
    assert watched.get("/healthz")[0] == 200


def test_an_outage_of_the_store_is_trouble(watched: Watched) -> None:
    assert orjson.loads(watched.get("/healthz")[1]) == {"status": "ok"}
    watched.redis.kill()
    status, body = eventually(lambda: (found := watched.get("/healthz"))[0] == 503 and found)
    assert status == 503
    assert "cannot be re" in orjson.loads(body)["reason"]
    assert watched.figures()["gantry_ready",] == 0
    watched.redis.start()
    eventually(lambda: watched.get("/healthz")[0] == 200, 30)
