"""What 10,000 queues of one account cost, and 1,000 receives that wait at 100 queues."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence

from tests.bench import figures
from tests.bench.driver import LineFailedError, note
from tests.bench.smq_load import Phase, ask, length_of, load
from tests.bench.smq_servers import Contender, Target
from tests.support import processes
from tests.support.apache import StartError
from tests.support.java import BuildError

QUEUES, POLLS, POLLED_QUEUES = 10_000, 1_000, 100
WAIT_SECONDS = 20
"""As long as SQS lets a receive wait."""
_PAUSE = 1 / 250
"""Between two sends, s: all are out within 4 s."""
_SETTLE_SECONDS = 3.0
_PATIENCE_SECONDS, _CREATE_SECONDS = 40.0, 30.0
_QUICK = 20
_SENT = re.compile(rb"sent-([0-9]+)-")
HEAD = ("with nothing else to do", "Gantry", "ElasticMQ", "moto")
LINES = (
    "memory, idle; MB",
    f"create {QUEUES:,} queues, 16 connections; s",
    f"list {QUEUES:,} queues, as many as a page holds; s",
    f"memory with {QUEUES:,} queues; MB",
    f"memory with {POLLS:,} waiting receives; MB",
    "receives that were woken",
    "from send to answer; p50 ms",
    "from send to answer; p99 ms",
)


def figures_of(contender: Contender, *, quick: bool = False) -> Mapping[str, str]:
    """The lines of one server; those that it fails are left out."""
    found: dict[str, str] = {}
    share = _QUICK if quick else 1
    try:
        with contender() as target:
            note(f"crowds: {target.name}")
            for lines, count in ((_queues, QUEUES // share), (_polls, POLLS // share)):
                try:
                    lines(target, found, count)
                except (LineFailedError, OSError) as error:
                    note(f"  failed: {error}")
    except (StartError, BuildError, AssertionError) as error:
        note(f"  failed: {contender.__name__}: {str(error)[-500:]}")
    return found


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Lines by server, in the order of the servers."""
    return figures.table(
        HEAD, [(line, *(of_server.get(line, "failed") for of_server in found.values())) for line in LINES]
    )


def _queues(target: Target, found: dict[str, str], count: int) -> None:
    found[LINES[0]] = _memory(target)
    with load(target.dialect, target.port, 16, "") as client:
        done = client.run(Phase("create", "many", 1, _CREATE_SECONDS, most=count))
    if done.messages < count:
        found[LINES[1]] = f"{done.messages:,} in {_CREATE_SECONDS:.0f} s"
        raise LineFailedError(f"only {done.messages} of {count} queues were made")
    found[LINES[1]] = figures.number(done.seconds)
    begin = time.monotonic()
    listed, marker = 0, ""
    while True:
        answer = ask(target.port, target.dialect.names(marker))
        listed += len(re.findall(rb"/many-", answer))
        marker = target.dialect.marker(answer)
        if not marker:
            break
    found[LINES[2]] = f"{time.monotonic() - begin:.2f}" if listed >= count else f"{listed:,} listed"
    found[LINES[3]] = _memory(target)


def _polls(target: Target, found: dict[str, str], count: int) -> None:
    queues = [f"polled-{number}" for number in range(min(POLLED_QUEUES, count))]
    for queue in queues:
        ask(target.port, target.dialect.create(queue))
    waiting: dict[int, socket.socket] = {}
    poll = select.epoll()
    for number in range(count):
        one = socket.create_connection(("127.0.0.1", target.port))
        one.sendall(target.dialect.receive(queues[number % len(queues)], 1, WAIT_SECONDS))
        waiting[one.fileno()] = one
        poll.register(one.fileno(), select.EPOLLIN)
    time.sleep(_SETTLE_SECONDS)
    found[LINES[4]] = _memory(target)
    sender = threading.Thread(target=_send_all, args=(target, queues, count), daemon=True)
    sender.start()
    times = _woken(waiting, poll)
    sender.join(_PATIENCE_SECONDS)
    found[LINES[5]] = f"{len(times):,} of {count:,}"
    if times:
        found[LINES[6]] = figures.number(figures.percentile(times, 50))
        found[LINES[7]] = figures.number(figures.percentile(times, 99))


def _send_all(target: Target, queues: Sequence[str], count: int) -> None:
    """A message for each of those who wait, one after the other, each with the time of its sending."""
    begin = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begin + number * _PAUSE - time.monotonic()))
        body = f"sent-{time.monotonic_ns()}-".ljust(1024, "k")
        try:
            ask(target.port, target.dialect.send(queues[number % len(queues)], body, 1))
        except OSError as error:
            note(f"  failed: send: {error}")
            return


def _woken(waiting: dict[int, socket.socket], poll: select.epoll) -> list[float]:
    """From send to answer of those who got a message, ms; all connections are closed."""
    times: list[float] = []
    came: dict[int, bytes] = {}
    until = time.monotonic() + _PATIENCE_SECONDS
    while waiting and time.monotonic() < until:
        for number, _ in poll.poll(1.0):
            data = waiting[number].recv(1 << 16)
            now = time.monotonic_ns()
            answer = came[number] = came.get(number, b"") + data
            length = length_of(answer)
            if data and (length is None or len(answer) < length):
                continue
            if found := _SENT.search(answer):
                times.append((now - int(found[1])) / 1e6)
            poll.unregister(number)
            waiting.pop(number).close()
    for one in waiting.values():
        one.close()
    return times


def _memory(target: Target) -> str:
    return figures.number(processes.resident_bytes(target.pids.values()) / 1e6)
