"""Tasks of tests: their logs, their documents, and what they have delivered."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analytics import lake
from analytics.inflow.event_log import EventLog
from analytics.inflow.task import EVENTS, MESSAGES, plan_of
from analytics.pipelines import checkpoints, runner
from analytics.pipelines.plan import Plan, Value
from analytics.pipelines.reports import Reached
from analytics.pipelines.runner import Pipeline, Start
from tests.pipelines.jobs import Ground, new_location, until
from tests.support.broker import eventually

_numbers = itertools.count()


class Log:
    """An event log in the lake, and its writer."""

    def __init__(self, **options: Any) -> None:
        self.location = f"oss://alice-lake/logs/l{os.getpid()}-{next(_numbers)}/"
        self.writer = EventLog(Path(lake.lake_path(self.location)), **options)

    def add(self, *numbers: int, **more: Any) -> None:
        """The change of a row for each number."""
        self.writer.append((f"bin.000001:{number}", 1000 * number, change(number, **more)) for number in numbers)


def change(number: int, table: str = "orders", keys: int = 5, **more: Any) -> bytes:
    """Changes of a table with so many rows."""
    data = {"operation": "UPDATE", "tableName": table, "primaryKey": {"id": number % keys}, "after": {"n": number}}
    event = {"specversion": "1.0", "id": f"e{number}", "source": "s", "type": "dts:Change", "subject": f"shop.{table}"}
    return json.dumps(event | {"data": data | more}).encode()


def document(ground: Ground, log: Log, topic: str, **more: Any) -> dict[str, Any]:
    """A task that delivers the number of each change, at once; `sink` and `source` are added to what is there."""
    sink = {
        "topic": topic, "endpoint": f"http://{ground.namesrv}", "accessId": ground.credentials.access_key_id,
        "accessKey": "${secret_values.broker}", "body": {"method": "data_extraction", "path": "$.data.after.n"},
    }  # fmt: skip
    source = {"log": log.location, "messages": 100, "interval": 0}
    return {
        "name": "orders-to-topic",
        "source": source | more.pop("source", {}),
        "sink": sink | more.pop("sink", {}),
        **more,
    }


def in_single_calls(told: Mapping[str, Any]) -> Plan:
    """The task as one whose batches have no more than `messages` events, however many wait."""
    plan = plan_of(told)
    (source,) = plan.sources
    return replace(plan, sources=(replace(source, options=source.options | {"calls": 1}),))


def spec(
    ground: Ground,
    told: Mapping[str, Any] | Plan,
    *,
    location: str = "",
    number: int = 1,
    given: Mapping[str, Value] | None = None,
    **more: Any,
) -> Start:
    """The task as a pipeline of alice; `given` are options of its sink."""
    plan = told if isinstance(told, Plan) else plan_of(told)
    return Start(
        "tests", "alice", plan, location or new_location(), number, checkpoints.CHECKPOINT, ground.secrets,
        given={MESSAGES: given or {}}, **more,
    )  # fmt: skip


def started(ground: Ground, told: Mapping[str, Any] | Plan, **more: Any) -> Pipeline:
    """The task, running."""
    return runner.start(spec(ground, told, **more))


def standing(pipeline: Pipeline) -> Reached:
    """Where it stands."""
    return pipeline.report().reached.get(EVENTS, Reached())


def counted(pipeline: Pipeline) -> dict[str, int]:
    """What it has counted, but for zeros."""
    return {name: count for name, count in pipeline.report().connectors[MESSAGES].items() if count}


def delivered_to(pipeline: Pipeline, sequence: int) -> None:
    """Wait until it has delivered all up to an event."""
    until(lambda: standing(pipeline).sequence >= sequence, pipeline)


def ended(pipeline: Pipeline) -> Exception:
    """Wait for its failure."""
    until(lambda: not pipeline.is_running)
    assert pipeline.failure is not None
    return pipeline.failure


def bodies(ground: Ground, topic: str) -> list[int]:
    """The numbers in a topic, queue by queue."""
    return [int(message.decoded_body()) for message in ground.messages(topic)]


def ordered_topic(ground: Ground, name: str) -> str:
    """A topic of two queues whose messages have an order."""
    ground.admin.topics.create(name, queues=2, message_type="FIFO")
    eventually(lambda: name in ground.admin.topics.names())
    return name


def in_order(ground: Ground, topic: str, keys: int = 5) -> Iterable[list[int]]:
    """The numbers of each row, in the order of its queue, of what came again the first."""
    found: dict[int, list[int]] = {}
    queues: dict[int, set[int]] = {}
    for message in ground.messages(topic):
        number = int(message.decoded_body())
        queues.setdefault(number % keys, set()).add(message.queue_id)
        rows = found.setdefault(number % keys, [])
        if number not in rows:
            rows.append(number)
    assert all(len(found) == 1 for found in queues.values())
    return found.values()
