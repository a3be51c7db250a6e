"""Thousands of idle connections, and more than there are files for: others are served as before."""

from __future__ import annotations

import resource
import socket
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.server import watching
from tests.brokercore.hostile.attack import is_closed, metrics_port, raw
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess, eventually

IDLE = 5000
_SPARE = 500

#: An idle connection costs some 5 KB; a bound far above that, and far below what a buffer for each would be.
MOST_BYTES_EACH = 20_000


def resident(process: BrokerProcess) -> int:
    pages = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def round_trips(wire: Wire, count: int = 200) -> list[float]:
    """Seconds that each of some requests takes."""
    taken = []
    for _ in range(count):
        began = time.monotonic()
        wire.ok(Code.GET_BROKER_CLUSTER_INFO)
        taken.append(time.monotonic() - began)
    return taken


@pytest.fixture
def files_for_all() -> None:
    """As many open files as the sockets of the test need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + _SPARE:
        pytest.skip(f"this process may open {hard} files, the test needs {IDLE + _SPARE}")
    if soft != resource.RLIM_INFINITY and soft < IDLE + _SPARE:
        resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE + _SPARE, hard))


def open_files(process: BrokerProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())


@pytest.mark.usefixtures("files_for_all")
def test_five_thousand_idle_connections_cost_little_and_slow_nobody_down(
    victim: BrokerProcess, bystander: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, before = round_trips(bystander), resident(victim)
    with ExitStack() as stack:
        idle = []
        for _ in range(IDLE):
            idle.append(stack.enter_context(Wire(victim.address)))
            idle[-1].send(Code.GET_BROKER_CLUSTER_INFO)  # at once, as clients do: who says nothing is a stranger
        assert all(wire.receive(1).code == 0 for wire in idle)
        assert open_files(victim) > IDLE
        each = (resident(victim) - before) / IDLE
        beside = round_trips(bystander)
        assert each < MOST_BYTES_EACH
        assert idle[0].call(Code.GET_BROKER_CLUSTER_INFO).code == 0
        with capsys.disabled():
            medians = [1000 * statistics.median(taken) for taken in (alone, beside)]
            print(f"\n{IDLE} idle connections: {each:.0f} bytes each; a request {medians[0]:.2f} ms alone,"
                  f" {medians[1]:.2f} ms beside them")  # fmt: skip
    eventually(lambda: open_files(victim) < 100, 30)


def test_without_files_for_more_connections_the_open_ones_are_served(victim: BrokerProcess, bystander: Wire) -> None:
    allowed = open_files(victim) + 40
    before = resource.prlimit(victim.pid, resource.RLIMIT_NOFILE)
    try:
        resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, (allowed, before[1]))
        with ExitStack() as stack:
            surplus: list[socket.socket] = [stack.enter_context(raw(victim.address)) for _ in range(80)]
            eventually(lambda: open_files(victim) >= allowed - 2)
            assert bystander.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
            busy = _cpu_seconds(victim)
            round_trips(bystander, 50)
            is_closed(surplus[0], 1)  # a second in which nothing is to be done
            assert _cpu_seconds(victim) - busy < 0.8
    finally:
        resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, before)
    with Wire(victim.address) as later:
        assert later.call(Code.GET_BROKER_CLUSTER_INFO).code == 0


def _cpu_seconds(process: BrokerProcess) -> float:
    words = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def test_the_port_for_figures_has_its_own_bound(victim: BrokerProcess) -> None:
    address = f"127.0.0.1:{metrics_port(victim)}"
    with ExitStack() as stack:
        waiting = [stack.enter_context(raw(address)) for _ in range(watching.MOST_AT_ONCE)]
        surplus = stack.enter_context(raw(address))
        assert is_closed(surplus, watching.REQUEST_SECONDS)
        waiting[0].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert b"200 OK" in waiting[0].recv(1000)
        assert all(is_closed(connection, 4 * watching.REQUEST_SECONDS) for connection in waiting)
