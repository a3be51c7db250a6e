"""What another account does meanwhile, within its limits: each attack is a process of its own, with little priority.

`python -m tests.bench.fairness_attacks NAME`: the first line of its input is the account. It prints `ready` at its
full strength and goes on until its input ends; the last line is what it has done.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request

import pymysql

from analytics import confined
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.command import Command
from brokercore.protocol.signature import sign
from tests.bench.pages import sign_in, token_of
from tests.brokercore.server.wire import Wire, properties
from tests.support.sql_client import SqlClient

Account = dict[str, Any]
HOST = "127.0.0.2"
"""Where strangers and browsers come from: what is counted by address is not the victim's."""

CROSS_JOIN = "select max(a.distance * b.distance % 7) from flights a cross join flights b cross join flights c"
BACKTRACKING = "select count(*) from flights where rlike(repeat('a', 20000 + month), '.*.*.*.*.*.*x')"
WORST_FILTER = " OR ".join(["a CONTAINS 'aaaaaaab'"] * 249)
JOINS = "select 1 from a " + " ".join(f"join b{n} on a.x = b{n}.x left join c{n} using (y)" for n in range(15))
PARSER_TEXTS = (
    "select 1 from a" + " join b" * 18,
    JOINS,
    "select 1 from a where b in (" + ", ".join(map(str, range(2500))) + ")",
    "select " + ", ".join(f"case when a{n} > {n} then ({n} + a{n}) * 2 end" for n in range(300)) + " from a",
)


class Attack:
    """Threads that do something again and again until it is over, and what came of it."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.over = threading.Event()
        self.outcomes: Counter[str] = Counter()
        self._threads: list[threading.Thread] = []

    def wire(self) -> Wire:
        """A connection to the broker that signs as the account."""
        wire = Wire(self.account["broker"], (self.account["key"][0], self.account["key"][1]))
        wire.socket.settimeout(120)
        return wire

    def sql(self) -> SqlClient:
        """A connection to the MySQL endpoint."""
        key = self.account["key"]
        return SqlClient(self.account, user=key[0], password=key[1], database="bench")

    def again(self, times: int, make: Callable[[], Callable[[], object]], pause: float = 0.0) -> None:
        """Let so many threads each make something, and do it until the end."""

        def go_on() -> None:
            act = None
            while not self.over.is_set():
                try:
                    act = act or make()
                    self.outcomes[str(act() or "done")] += 1
                except Exception as error:  # noqa: BLE001 (being refused is part of it)
                    self.outcomes[f"{type(error).__name__} {str(error)[:60]}"] += 1
                    act = None
                    self.over.wait(0.2)
                self.over.wait(pause)

        for _ in range(times):
            thread = threading.Thread(target=go_on, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """Stop, and wait for the threads."""
        self.over.set()
        for thread in self._threads:
            thread.join(10)


def statements(attack: Attack, text: str, times: int = 8) -> Callable[[], None]:
    """As many statements as may run, and as many that wait; cancelled in the end."""
    client, tasks = attack.sql(), list[str]()
    for number in range(times):
        try:
            tasks.append(client.submit(text.format(number=number)))
        except pymysql.Error as error:
            attack.outcomes[str(error)[:100]] += 1
    attack.outcomes["submitted"] += len(tasks)

    def cancel() -> None:
        for task in tasks:
            with suppress(pymysql.Error):
                client.cancel(task)
        for task in tasks:
            attack.outcomes[str(client.ended(task, seconds=120)["status"])] += 1

    return cancel


def cross_joins(attack: Attack) -> Callable[[], None]:
    """Statements that would take years."""
    return statements(attack, CROSS_JOIN)


def patterns(attack: Attack) -> Callable[[], None]:
    """Statements whose tasks do not let themselves be ended."""
    return statements(attack, BACKTRACKING)


def large_tables(attack: Attack) -> Callable[[], None]:
    """Tables of many GB."""
    return statements(attack, "create table big{number} as select a.* from flights a cross join flights b", 4)


def filters(attack: Attack) -> None:
    """The dearest filter that is allowed, over properties as long as they may be."""
    with attack.wire() as wire:
        text = properties(a="a" * 30_000)
        for _ in range(200):
            assert wire.publish(attack.account["topic"], b"x", text).code == 0

    def make() -> Callable[[], object]:
        wire = attack.wire()
        fields = {"expressionType": "SQL92", "subscription": WORST_FILTER}
        return lambda: wire.pull(attack.account["group"], attack.account["topic"], 0, **fields).code

    attack.again(16, make)


def busy_connections(attack: Attack) -> None:
    """Hundreds of connections, each of which sends 200 requests at a time and waits for the last answer."""
    key = attack.account["key"]
    fields = {"AccessKey": key[0], "Signature": sign({"AccessKey": key[0]}, b"", key[1])}
    silent = Command(Code.GET_BROKER_CLUSTER_INFO, 1, 2, "JAVA", ext=fields).encode()
    requests = silent * 200 + Command(Code.GET_BROKER_CLUSTER_INFO, 7, 0, "JAVA", ext=fields).encode()

    def make() -> Callable[[], object]:
        wires = [attack.wire() for _ in range(50)]

        def ask() -> object:
            for wire in wires:
                wire.socket.sendall(requests)
            return [wire.receive(7, 120).code for wire in wires][-1]

        return ask

    attack.again(8, make)


def idle_connections(attack: Attack) -> None:
    """Thousands of connections, of which each asks for something now and then."""
    wires = [attack.wire() for _ in range(3000)]
    for wire in wires:
        attack.outcomes[str(wire.call(Code.GET_BROKER_CLUSTER_INFO).code)] += 1

    def make() -> Callable[[], object]:
        def ask() -> object:
            for wire in wires:
                if attack.over.is_set():
                    break
                wire.call(Code.GET_BROKER_CLUSTER_INFO)
            return "round"

        return ask

    attack.again(1, make)


def sends(attack: Attack) -> None:
    """1 KB from 64 connections, without a pause."""

    def make() -> Callable[[], object]:
        wire = attack.wire()
        return lambda: wire.publish(attack.account["topic"], bytes(1024), properties(UNIQ_KEY="x")).code

    attack.again(64, make)


def traces(attack: Attack) -> None:
    """Message traces of 3 MiB."""

    def make() -> Callable[[], object]:
        wire = attack.wire()
        return lambda: wire.publish("RMQ_SYS_TRACE_TOPIC", bytes(3 << 20)).code

    attack.again(4, make)


def wide_topics(attack: Attack) -> None:
    """As many queues as the account may have, and questions that answer with a row for each."""
    with attack.wire() as wire:
        topics = []
        for number in range(40):
            name = f"{attack.account['instance']}%wide{number}"
            with suppress(AssertionError):
                topics.append(wire.topic(queues=1024, name=name))
        attack.outcomes["topics"] += len(topics)
    group = attack.account["group"]

    def make() -> Callable[[], object]:
        wire = attack.wire()

        def ask() -> object:
            for topic in topics:
                ext = {"topic": topic, "group": group, "consumerGroup": group, "topicList": topic}
                for code in (Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS, Code.GET_ROUTEINFO_BY_TOPIC):
                    wire.receive(wire.send(code, ext), 120)
                pop = {
                    "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000,
                    "pollTime": 0, "bornTime": 0, "initMode": 0, "order": "false",
                }  # fmt: skip
                wire.receive(wire.send(Code.POP_MESSAGE, pop), 120)
            return "round"

        return ask

    attack.again(8, make)


def parser_texts(attack: Attack) -> None:
    """Statements that are hard to read, at the editor of the console."""

    def make() -> Callable[[], object]:
        browser = sign_in(attack.account, host=HOST)
        address = f"{attack.account['console']}/sql/"
        with browser.open(address, timeout=60) as answer:
            token = token_of(answer.read().decode())
        texts = iter(PARSER_TEXTS * 100_000)

        def post() -> object:
            fields = {"csrfmiddlewaretoken": token, "text": next(texts), "schema": "bench"}
            request = Request(f"{address}run", urlencode(fields).encode(), {"Referer": address, "HX-Request": "true"})
            with browser.open(request, timeout=60) as answer:
                return answer.status

        return lambda: _status(post)

    attack.again(8, make)


def slow_bodies(attack: Attack) -> None:
    """1,300 requests without an account, each with one byte of its body."""
    host, _, port = attack.account["console"].rpartition("//")[2].partition(":")
    head = "POST /account/login/ HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    start = f"{head.format(host=host)}Content-Length: 1000\r\n\r\nx".encode()

    def make() -> Callable[[], object]:
        def hold() -> object:
            held = []
            for _ in range(325):
                with suppress(OSError):
                    held.append(socket.create_connection((host, int(port)), 10, (HOST, 0)))
                    held[-1].sendall(start)
            attack.over.wait(10)
            for connection in held:
                connection.close()
            return "325 requests"

        return hold

    attack.again(4, make)


def sign_ins(attack: Attack) -> None:
    """Sign-ins with a wrong password, without an account."""

    def make() -> Callable[[], object]:
        stranger = attack.account | {"username": f"nobody{time.monotonic_ns() % 1000}@attacker", "password": "wrong"}
        return lambda: _status(lambda: sign_in(stranger, host=HOST))

    attack.again(8, make)


def _status(post: Callable[[], object]) -> object:
    try:
        return post()
    except HTTPError as error:
        return error.code
    except URLError as error:
        return str(error.reason)[:40]


ATTACKS: dict[str, Callable[[Attack], Callable[[], None] | None]] = {
    "sends": sends,
    "busy connections": busy_connections,
    "thousands of connections": idle_connections,
    "filters": filters,
    "wide topics": wide_topics,
    "traces": traces,
    "parser texts": parser_texts,
    "slow bodies": slow_bodies,
    "sign-ins": sign_ins,
    "large tables": large_tables,
    "cross joins": cross_joins,
    "patterns": patterns,
}


def main() -> None:
    """Attack until the input ends."""
    os.setsid()
    confined.come_last(os.getpid())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(json.loads(sys.stdin.readline()))
    finish = ATTACKS[sys.argv[1]](attack)
    print("ready", flush=True)
    sys.stdin.read()
    attack.end()
    if finish is not None:
        finish()
    print(", ".join(f"{what}: {count}" for what, count in attack.outcomes.most_common(4)), flush=True)


if __name__ == "__main__":
    main()
