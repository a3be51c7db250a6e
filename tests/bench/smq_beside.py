"""What the sends of one account notice at the queue service while another account does its worst within its limits."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from threading import Thread

from tests.bench import figures
from tests.bench.driver import LineFailedError, note
from tests.support.queue_service import PATIENCE_SECONDS, Keys, QueueServiceProcess, queue_service, signed

SECONDS, QUICK_SECONDS = 15.0, 2.0
"""Of each measurement."""
RAMP_SECONDS = 3.0
"""Between the start of an attack and the measurement."""
PAUSE_SECONDS = 0.01
"""Between two sends of the victim."""
CONNECTIONS, QUEUES, MESSAGES = 4, 4, 16
"""Of the attacker: connections, queues that its topic has, messages of a batch."""
ATTACKER = "9999999999999999"
HEAD = ("beside", "sends", "p50 ms", "p99 ms", "at most ms")
_NAMESPACE = 'xmlns="http://mns.aliyuncs.com/doc/v1/"'
_SMALL = f"<Message {_NAMESPACE}><MessageBody>hello</MessageBody></Message>".encode()


def _bodies() -> tuple[str, bytes]:
    """The largest batch, each character of it an entity: 6 MB to read."""
    message = f"<Message><MessageBody>{'&#x41;' * 65_536}</MessageBody></Message>"
    return "/queues/flood/messages", f"<Messages {_NAMESPACE}>{message * MESSAGES}</Messages>".encode()


def _publishes() -> tuple[str, bytes]:
    """The largest publish, every other character of it an entity."""
    return "/topics/flood/messages", (
        f"<Message {_NAMESPACE}><MessageBody>{'a&lt;' * 13_000}</MessageBody></Message>".encode()
    )


ATTACKS: dict[str, Callable[[], tuple[str, bytes]]] = {"bodies of 6 MB": _bodies, "large publishes": _publishes}


def main(*, quick: bool = False) -> str:
    """Measure in quiet and beside each attack, each at a service of its own."""
    rows = []
    for attack in ("", *ATTACKS):
        note(f"beside {attack or 'nothing'}")
        with queue_service(GANTRY_SMQ_STORE_MAX_BYTES="0") as service:
            taken = _beside(service, attack, QUICK_SECONDS if quick else SECONDS)
        rows.append(
            (
                attack or "nothing", f"{len(taken):,}", figures.number(median(taken)),
                figures.number(figures.percentile(taken, 99)), figures.number(max(taken)),
            )
        )  # fmt: skip
    return figures.table(HEAD, rows)


def _beside(service: QueueServiceProcess, attack: str, seconds: float) -> list[float]:
    """How long each send of the victim took, ms."""
    victim, attacker = service.keys("victim"), service.keys("attacker", account=ATTACKER)
    service.limit(ATTACKER, smq_bytes=0, smq_messages=0)
    _made(service, victim, "/queues/own", "Queue")
    _made(service, attacker, "/queues/flood", "Queue")
    _made(service, attacker, "/topics/flood", "Topic")
    for number in range(QUEUES):
        _made(service, attacker, f"/queues/taker-{number}", "Queue")
        endpoint = f"<Endpoint>acs:mns:mq-private:{ATTACKER}:queues/taker-{number}</Endpoint>"
        _made(service, attacker, f"/topics/flood/subscriptions/s{number}", "Subscription", endpoint)
    process = multiprocessing.get_context("spawn").Process(
        target=_attack, args=(attack, service.port, attacker, RAMP_SECONDS + seconds), daemon=True
    )
    if attack:
        process.start()
        time.sleep(RAMP_SECONDS)
    taken = []
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as connection:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            _send(connection, "/queues/own/messages", _SMALL, victim)
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_SECONDS)
    if attack:
        process.join(PATIENCE_SECONDS)
        process.kill()
    return taken


def _attack(attack: str, port: int, keys: Keys, seconds: float) -> None:
    """In a process of its own, which gives way to the service and to the victim."""
    os.nice(5)
    target, body = ATTACKS[attack]()

    def flood() -> None:
        until = time.monotonic() + seconds
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
            while time.monotonic() < until:
                _send(connection, target, body, keys)

    threads = [Thread(target=flood) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _made(service: QueueServiceProcess, keys: Keys, target: str, root: str, inside: str = "") -> None:
    answer = service.call("PUT", target, f"<{root} {_NAMESPACE}>{inside}</{root}>".encode(), keys=keys)
    if answer.code:
        raise LineFailedError(f"{target} was refused: {answer.body.decode()[:300]}")


def _send(connection: http.client.HTTPConnection, target: str, body: bytes, keys: Keys) -> None:
    """Raises LineFailedError unless it was taken."""
    connection.request("POST", target, body, signed("POST", target, keys, body=body))
    answer = connection.getresponse()
    told = answer.read()
    if answer.status != http.HTTPStatus.CREATED:
        raise LineFailedError(f"{target} was answered {answer.status}: {told.decode()[:300]}")
