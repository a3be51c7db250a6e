"""Plans of tests, and what they read and leave behind."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from analytics import lake
from analytics.pipelines import checkpoints, runner
from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, Value, View, Watermark
from analytics.pipelines.runner import Pipeline, Start
from brokercore.client import Admin, Credentials, MessageQueue, StoredMessage
from brokercore.names import wrap
from brokercore.smq.client import QueueClient
from brokercore.smq.wire.messages import Draft
from tests.support.broker import eventually
from tests.support.patience import Patience

PATIENCE_SECONDS, LOOK_SECONDS = 240.0, 0.05
_numbers = itertools.count()


@dataclass
class Ground:
    """The queue service and the broker, with keys to both."""

    endpoint: str
    key_id: str
    secret: str
    namesrv: str
    credentials: Credentials
    admin: Admin

    @cached_property
    def queues(self) -> QueueClient:
        """A client of the queue service."""
        return QueueClient(self.endpoint, self.key_id, self.secret)

    def fill(self, queue: str, bodies: Iterable[bytes]) -> None:
        """Send messages to a queue."""
        every = [Draft(body) for body in bodies]
        for begin in range(0, len(every), 16):
            self.queues.send_batch(queue, every[begin : begin + 16])

    def left(self, queue: str) -> int:
        """Messages that a queue still has, hidden ones too."""
        state = self.queues.queue(queue)
        return state.active + state.inactive + state.delayed

    def new_topic(self, instance: str = "") -> str:
        """A topic of two queues, of an instance with a namespace where one is given."""
        name = f"carriers-{os.getpid()}-{next(_numbers)}"
        stored = wrap(instance, name)
        self.admin.topics.create(stored, queues=2)
        eventually(lambda: stored in self.admin.topics.names(), PATIENCE_SECONDS)
        return name

    def messages(self, topic: str) -> list[StoredMessage]:
        """All that a topic has, queue by queue."""
        found: list[StoredMessage] = []
        for place, stats in sorted(self.admin.topics.stats(topic).items()):
            queue = MessageQueue(topic, place.broker_name, place.queue_id)
            for messages in self.admin.messages.read_range(queue, stats.min_offset, stats.max_offset):
                found += messages
        return found

    def mns(self, queue: str, columns: str, *, name: str = "flights", written: str = "json", **more: Any) -> Source:
        """A source that reads a queue; `columns` are `name type` pairs, as in SQL."""
        own = {field: more.pop(field) for field in ("watermark", "format_options") if field in more}
        options: dict[str, Value] = {
            "endpoint": self.endpoint,
            "region": "mq-private",
            "queueName": queue,
            "accessKeyId": "${secret_values.id}",
            "accessKeySecret": "${secret_values.secret}",
            "batchSize": 16,
            "pollingWaitTime": 1000,
        }
        return Source(name, "mns", columns_of(columns), format=written, options=options | more, **own)

    def mq(self, topic: str, columns: str, *, name: str = "carriers", written: str = "csv", **more: Any) -> Sink:
        """A sink that writes to a topic."""
        options: dict[str, Value] = {
            "endpoint": f"http://{self.namesrv}",
            "topic": topic,
            "accessId": self.credentials.access_key_id,
            "accessKey": "${secret_values.broker}",
            "producerGroup": "GID_pipelines",
            "fieldDelimiter": ",",
            "retryTimes": 3,
            "sleepTimeMs": 50,
        }
        return Sink(name, "mq", columns_of(columns), format=written, options=options | more)

    @property
    def secrets(self) -> dict[str, str]:
        """What plans of these sources and sinks name."""
        return {"id": self.key_id, "secret": self.secret, "broker": self.credentials.access_key_secret}

    def spec(self, plan: Plan, *, location: str = "", number: int = 1, origin: str = "checkpoint") -> Start:
        """A pipeline of alice, with a folder of its own unless one is given."""
        return Start("tests", "alice", plan, location or new_location(), number, origin, self.secrets)


@contextmanager
def left_running() -> Iterator[None]:
    """Abandon in the end what was started meanwhile and runs still, as after a test that fails: it would starve others.

    All of them, whatever becomes of one.
    """
    start, started = runner.start, list[Pipeline]()

    def remembered(spec: Start) -> Pipeline:
        started.append(start(spec))
        return started[-1]

    with pytest.MonkeyPatch.context() as patched, ExitStack() as ends:
        patched.setattr(runner, "start", remembered)
        try:
            yield
        finally:
            for pipeline in started:
                ends.callback(pipeline.abandon)


def new_location() -> str:
    """A folder of the lake that no pipeline has."""
    return f"oss://alice-lake/pipelines/p{os.getpid()}-{next(_numbers)}/"


def columns_of(written: str) -> tuple[Column, ...]:
    """`id bigint, name string` as columns."""
    pairs = (part.strip().split(" ", 1) for part in written.split(", "))
    return tuple(Column(name, kind) for name, kind in pairs)


def printed(name: str, columns: str) -> Sink:
    """A sink that prints."""
    return Sink(name, "print", columns_of(columns))


def plan_of(source: Source, sink: Sink, sql: str, *, views: Mapping[str, str] | None = None, **settings: Any) -> Plan:
    """One source, one sink and one insert between them."""
    defaults: dict[str, Any] = {"checkpoint_interval_ms": 2_000, "batch_interval_ms": 200}
    found = tuple(View(name, text) for name, text in (views or {}).items())
    return Plan((source,), (sink,), found, (Insert(sink.name, sql, line=3),), Settings(**(defaults | settings)))


def lines_of(pipeline: Pipeline, sink: str) -> list[str]:
    """What a pipeline has printed to a sink."""
    return lines_at(pipeline.spec.location, sink)


def lines_at(location: str, sink: str) -> list[str]:
    """What the pipeline with its state there has printed."""
    found = Path(lake.lake_path(location)).glob(f"run-*/state/print-{sink}.log")
    return [line for file in found for line in file.read_text(encoding="utf-8").splitlines()]


def until(found: Callable[[], bool], pipeline: Pipeline | None = None) -> None:
    """Wait until something is so; a pipeline that fails meanwhile fails the test at once."""
    patience = Patience(PATIENCE_SECONDS, LOOK_SECONDS)
    while not found():
        if pipeline is not None and pipeline.failure is not None:
            raise pipeline.failure
        assert not patience.is_over(), "it did not come to be so"
        time.sleep(LOOK_SECONDS)


__all__ = ["Watermark", "checkpoints", "runner"]
