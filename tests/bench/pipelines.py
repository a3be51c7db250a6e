"""Pipelines beside the loops that they stand for: rows a second, latency, time of a start, memory.

Queue service, broker and Spark are started for it on this machine. A pipeline and its bare loop take turns.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import tests.support.environment
from analytics import engine
from analytics import session as spark_session
from analytics.pipelines import runner
from analytics.pipelines.plan import Plan, Settings, Sink, Source, Value
from analytics.pipelines.runner import Pipeline
from brokercore.client import Admin, Credentials, Message, Producer
from tests.bench import figures
from tests.bench.driver import note
from tests.pipelines.jobs import Ground, columns_of, plan_of, printed, until
from tests.support import processes
from tests.support.broker import broker_process
from tests.support.queue_service import queue_service
from tests.support.redis_server import redis_server

#: Messages of 1 KB of a round.
_FROM_QUEUE, _TO_TOPIC = 80_000, 500_000
_BODY = 1000
#: Made-up rows that are offered a second: more than a topic takes.
_OFFERED = 100_000
_CHUNK = 1000
#: Messages a second of the latency, and for how long, s; what comes in the first seconds does not count.
_PACE, _SECONDS, _SETTLING = 100, 25, 5
_JOBS = (1, 5, 20)
_STARTS = 5
BAR = 0.8
_MB = 1e6
PARTS = ("rates", "latency", "start", "memory")
__all__ = ["tests"]


def main(rounds: int, parts: tuple[str, ...] = PARTS) -> str:
    """Take the figures, rates in so many rounds, and return the tables."""
    taken = {"rates": lambda ground: _rates(ground, rounds), "latency": _latencies, "start": _starts, "memory": _memory}
    with _ground() as ground:
        runner.warm()
        tables = []
        for part in parts:
            note(part)
            tables.append(taken[part](ground))
        return "\n\n".join(tables)


@contextmanager
def _ground() -> Iterator[Ground]:
    with redis_server() as redis, queue_service(redis) as service, broker_process(redis) as broker:
        os.environ["GANTRY_SMQ_PORT"] = str(service.port)
        keys = service.keys("bench")
        credentials = Credentials(broker.access_key_id, broker.access_key_secret)
        with Admin(broker.namesrv, credentials) as admin:
            try:
                yield Ground(service.address, keys.id, keys.secret, broker.namesrv, credentials, admin)
            finally:
                engine.stop()


# Rows a second


def _rates(ground: Ground, rounds: int) -> str:
    reads = _in_turns(ground, rounds, _bare_reader, _through_queue)
    writes = _in_turns(ground, rounds, _bare_producer, _into_topic)
    return figures.table(
        ("1 KB, rows/s", "bare loop", "pipeline", "ratio", f"bar ({BAR})"),
        [_row("mns → print, beside a bare reader", reads), _row("datagen → mq, beside a bare producer", writes)],
    )


def _in_turns(
    ground: Ground, rounds: int, bare: Callable[[Ground], float], ours: Callable[[Ground], float]
) -> list[tuple[float, float]]:
    ours(ground)  # the JVM compiles what all of them use
    found = []
    for _ in range(rounds):
        found.append((bare(ground), ours(ground)))
        note("  rows/s: " + " and ".join(f"{rate:,.0f}" for rate in found[-1]))
    return found


def _row(name: str, pairs: list[tuple[float, float]]) -> tuple[str, ...]:
    bare, ours = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    return name, f"{bare:,.0f}", f"{ours:,.0f}", f"{ours / bare:.2f}", "yes" if ours >= BAR * bare else "no"


def _filled(ground: Ground) -> str:
    name = _new_queue(ground)
    pad = "x" * (_BODY - 30)
    ground.fill(name, (json.dumps({"id": number, "pad": pad}).encode() for number in range(_FROM_QUEUE)))
    return name


def _new_queue(ground: Ground) -> str:
    name = f"bench-{secrets.token_hex(4)}"
    ground.queues.create_queue(name, {"VisibilityTimeout": 60})
    return name


def _bare_reader(ground: Ground) -> float:
    queue = _filled(ground)
    started = time.perf_counter()
    left = _FROM_QUEUE
    while left:
        found = ground.queues.receive(queue, 16)
        left -= len([json.loads(message.body) for message in found])
        ground.queues.delete(queue, [message.handle for message in found])
    return _FROM_QUEUE / (time.perf_counter() - started)


def _through_queue(ground: Ground) -> float:
    """From the first batch that is committed to the last message that is deleted."""
    queue = _filled(ground)
    source = ground.mns(queue, "id bigint, pad string")
    plan = plan_of(source, printed("all", "id bigint, pad string"), "select * from flights", batch_interval_ms=1000)
    pipeline = runner.start(ground.spec(plan))
    return _rate(pipeline, _FROM_QUEUE, lambda: ground.left(queue) == 0)


def _rate(pipeline: Pipeline, rows: int, is_done: Callable[[], bool]) -> float:
    until(lambda: _count(pipeline) > 0, pipeline)
    before, started = _count(pipeline), time.perf_counter()
    until(lambda: _count(pipeline) >= rows and is_done(), pipeline)
    seconds = time.perf_counter() - started
    pipeline.stop()
    return (rows - before) / seconds


def _count(pipeline: Pipeline) -> int:
    return pipeline.report().operators.get("insert:0", 0)


def _bare_producer(ground: Ground) -> float:
    topic = ground.new_topic()
    body = b"x" * _BODY
    with Producer(ground.namesrv, ground.credentials, "GID_bare") as producer:
        producer.send(Message(topic, body))
        started = time.perf_counter()
        for _ in range(_TO_TOPIC // _CHUNK):
            producer.send_batch([Message(topic, body) for _ in range(_CHUNK)])
        seconds = time.perf_counter() - started
    ground.admin.topics.delete(topic)
    return _TO_TOPIC / seconds


def _into_topic(ground: Ground) -> float:
    """Made-up rows, more than the topic takes, from the first batch that is committed to the last row."""
    topic = ground.new_topic()
    options: dict[str, Value] = {
        "rows-per-second": _OFFERED,
        "fields.pad.length": _BODY,
    }
    source = Source("numbers", "datagen", columns_of("pad string"), options=options)
    plan = plan_of(source, ground.mq(topic, "pad string"), "select pad from numbers", batch_interval_ms=1000)
    rate = _rate(runner.start(ground.spec(plan)), _TO_TOPIC, lambda: True)
    ground.admin.topics.delete(topic)
    return rate


# Latency of one message


def _latencies(ground: Ground) -> str:
    topic = ground.new_topic()
    rows = [
        ("mns → mq, until the broker has it", _paced(ground, ground.mq(topic, "sent bigint"), _Stored(ground, topic))),
        ("mns → print, until its line is there", _paced(ground, printed("all", "sent bigint"), _Shown())),
    ]
    ground.admin.topics.delete(topic)
    return figures.table(
        (f"one message, {_PACE} a second", "p50, s", "p99, s"),
        [(name, *(f"{figures.percentile(took, share):.2f}" for share in (50, 99))) for name, took in rows],
    )


class _Stored:
    """What is read from a topic: when the broker has stored it."""

    def __init__(self, ground: Ground, topic: str) -> None:
        self._ground, self._topic = ground, topic

    def follow(self, pipeline: Pipeline) -> None:
        """Nothing: the broker notes the times."""

    def seconds(self) -> list[tuple[int, float]]:
        """When each message was sent, epoch ms, and how long it took, s."""
        found = self._ground.messages(self._topic)
        return [(int(one.body), (one.store_timestamp - int(one.body)) / 1000) for one in found]


class _Shown:
    """What is printed: when it was seen."""

    def __init__(self) -> None:
        self._found: list[tuple[int, float]] = []

    def follow(self, pipeline: Pipeline) -> None:
        """Look for what comes, until the pipeline ends."""
        while not pipeline.wait(0.005):
            for line in pipeline.printed():
                sent = int(line.removeprefix("+I(").removesuffix(")"))
                self._found.append((sent, time.time() - sent / 1000))

    def seconds(self) -> list[tuple[int, float]]:
        """As `_Stored.seconds`."""
        return self._found


def _paced(ground: Ground, sink: Sink, seen: _Stored | _Shown) -> list[float]:
    """How long messages took, sent one by one."""
    queue = _new_queue(ground)
    defaults = Settings()
    plan = plan_of(
        ground.mns(queue, "sent bigint"),
        sink,
        "select sent from flights",
        checkpoint_interval_ms=defaults.checkpoint_interval_ms,
        batch_interval_ms=defaults.batch_interval_ms,
    )
    pipeline = runner.start(ground.spec(plan))
    ground.queues.send(queue, b'{"sent": 0}')
    until(lambda: ground.left(queue) == 0, pipeline)
    following = threading.Thread(target=seen.follow, args=(pipeline,), daemon=True)
    following.start()
    begun = time.time()
    for number in range(_PACE * _SECONDS):
        time.sleep(max(0.0, begun + number / _PACE - time.time()))
        ground.queues.send(queue, json.dumps({"sent": round(time.time() * 1000)}).encode())
    until(lambda: ground.left(queue) == 0, pipeline)
    pipeline.stop()
    following.join()
    found = [took for sent, took in seen.seconds() if sent / 1000 - begun >= _SETTLING]
    note(f"  {len(found)} messages")
    return found


# A start, and memory


def _small_job(ground: Ground, queue: str) -> Plan:
    """As users write them first: a queue, a filter, and what is left is printed."""
    defaults = Settings()
    return plan_of(
        ground.mns(queue, "id bigint, carrier string", pollingWaitTime=10_000),
        printed("all", "id bigint, carrier string"),
        "select * from flights where id >= 0",
        checkpoint_interval_ms=defaults.checkpoint_interval_ms,
        batch_interval_ms=defaults.batch_interval_ms,
    )


def _starts(ground: Ground) -> str:
    running, shown, stopped = [], [], []
    for _ in range(_STARTS):
        queue = _new_queue(ground)
        ground.fill(queue, [b'{"id": 1, "carrier": "UA"}'])
        begun = time.perf_counter()
        pipeline = runner.start(ground.spec(_small_job(ground, queue)))
        running.append(time.perf_counter() - begun)
        until(lambda one=pipeline: bool(one.printed()), pipeline)  # type: ignore[misc]
        shown.append(time.perf_counter() - begun)
        until(lambda name=queue: ground.left(name) == 0, pipeline)  # type: ignore[misc]
        begun = time.perf_counter()
        pipeline.stop()
        stopped.append(time.perf_counter() - begun)
    rows = [("until its queries run", running), ("until the first row is printed", shown), ("its stop", stopped)]
    return figures.table(
        ("a job's start when warm", "median, s", "longest, s"),
        [(name, f"{median(took):.2f}", f"{max(took):.2f}") for name, took in rows],
    )


def _memory(ground: Ground) -> str:
    started: list[Pipeline] = []
    rows = []
    for jobs in (0, *_JOBS):
        while len(started) < jobs:
            queue = _new_queue(ground)
            ground.fill(queue, [b'{"id": 1, "carrier": "UA"}'])
            started.append(runner.start(ground.spec(_small_job(ground, queue))))
            until(lambda: bool(started[-1].printed()), started[-1])
        jvm = spark_session.get().sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        before = _cpu(jvm)
        time.sleep(_SETTLING)
        cpu = sum(used - before.get(pid, 0) for pid, used in _cpu(jvm).items()) / _SETTLING
        python = [pid for pid in processes.children(jvm) if Path(f"/proc/{pid}").exists()]
        sizes = (processes.resident_bytes([jvm]), processes.proportional_bytes(python))
        rows.append((f"{jobs}", *(f"{size / _MB:,.0f}" for size in sizes), f"{len(python)}", f"{cpu * 100:.0f} %"))
    for pipeline in started:
        pipeline.stop()
    return figures.table(("small jobs, idle", "JVM, MB", "Python, MB", "Python processes", "of a core"), rows)


def _cpu(jvm: int) -> dict[int, float]:
    """Seconds by process, of the JVM and what it has started; workers come and go."""
    found = {}
    for pid in (jvm, *processes.children(jvm)):
        with suppress(FileNotFoundError):
            found[pid] = processes.cpu_seconds([pid])
    return found
