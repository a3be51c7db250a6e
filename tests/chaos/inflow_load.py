"""Changes of databases that flow into ordered topics of a running copy, and what comes out of these."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

from brokercore.client import Admin, Credentials, LitePullConsumer, MessageQueue
from gantry_cli import config, transport
from gantry_cli.errors import CliError
from tests.chaos.harms import NotBackError
from tests.chaos.inflow_figures import Arrival, Change, Report
from tests.chaos.shops import ROWS, Shop, Writers, change_of
from tests.support.product import SLOWNESS

#: Of the change tracking tasks.
GROUP, PASSWORD = "kills", "kills-of-13-things"
#: Of the topics. Nobody else consumes by it: who is assigned queues counts as a client of its group all the same.
CONSUMERS = "GID_kills"
#: Seconds until all flows, or until what still comes is given up.
PATIENCE = 240.0


class Tasks:
    """A change tracking task and an inflow task for each database, by the management API."""

    def __init__(self, demo: dict[str, Any], watched: tuple[Shop, ...]) -> None:
        self._profile = config.Profile(
            url=demo["console"],
            region=demo["region"],
            access_key_id=demo["access_key_id"],
            access_key_secret=demo["access_key_secret"],
        )
        self._instance = demo["instance_id"]
        self._shops = watched
        self._tracking: dict[str, str] = {}

    def start(self) -> None:
        """Make topics, a group and tasks, and start them. Raises CliError and NotBackError."""
        self._call("group/create", groupId=CONSUMERS, instanceId=self._instance, remark="kills")
        for shop in self._shops:
            topic = topic_of(shop)
            for name, order in ((topic, "1"), (dead_of(shop), "0")):
                self._call("topic/create", topic=name, instanceId=self._instance, orderType=order, remark="kills")
            made = self._call("tracking/create", name=topic, retentionDays="1", **shop.tracked)["data"]
            self._tracking[shop.name] = made["task"]
            self._call("tracking/createGroup", task=made["task"], group=GROUP, account=GROUP, password=PASSWORD)
        for shop in self._shops:
            self._until_normal(shop)
            told = json.dumps(self._document(shop))
            self._call("inflow/create", document=told, account=GROUP, password=PASSWORD)

    def told(self) -> dict[str, dict[str, Any]]:
        """What `tracking/get` and `inflow/get` answer of each; nothing while the console does not."""
        told = {}
        for shop in self._shops:
            with suppress(CliError):
                tracking = self._call("tracking/get", task=self._tracking[shop.name])["data"]
                told[shop.name] = {
                    "tracking": tracking,
                    "inflow": self._call("inflow/get", task=topic_of(shop))["data"],
                }
        return told

    def _document(self, shop: Shop) -> dict[str, Any]:
        return {
            "name": topic_of(shop),
            "source": {"task": self._tracking[shop.name], "group": GROUP, "messages": 200, "interval": 0},
            "sink": {
                "topic": topic_of(shop), "instanceID": self._instance, "ordered": True,
                "body": {"method": "data_extraction", "path": "$.data.after"},
            },
            # A database, a broker or a Redis may be away for longer than three further tries take.
            "retry": "exponential",
            "deadLetterTopic": dead_of(shop),
        }  # fmt: skip

    def _until_normal(self, shop: Shop) -> None:
        deadline = time.monotonic() + PATIENCE * SLOWNESS
        while (told := self._call("tracking/get", task=self._tracking[shop.name])["data"])["state"] != "Normal":
            if time.monotonic() > deadline:
                raise NotBackError(f"change tracking of {shop.name} does not begin: {told}")
            _pause(0.5)

    def _call(self, path: str, **parameters: str) -> dict[str, Any]:
        return transport.call(self._profile, path, parameters)


class Received(NamedTuple):
    """A message: its change, and when the broker stored it, epoch seconds."""

    change: Change
    at: float


class Consumer:
    """Reads the topics of both databases from their beginning, and keeps what it has received by its place."""

    def __init__(self, demo: dict[str, Any], watched: tuple[Shop, ...]) -> None:
        #: By queue and offset.
        self.received: dict[tuple[MessageQueue, int], Received] = {}
        #: Places where another message was received than before.
        self.differing: list[str] = []
        self._changes: set[Change] = set()
        self._shops = {topic_of(shop): shop.name for shop in watched}
        #: By topic and row: when the newest of its changes that has come was made, epoch seconds.
        self._newest: dict[str, dict[int, float]] = {topic: {} for topic in self._shops}
        self._client = LitePullConsumer(
            demo["namesrv"], _keys(demo), CONSUMERS, namespace=demo["instance_id"], auto_commit=False,
            consume_from="CONSUME_FROM_FIRST_OFFSET", timeout_ms=10_000,
        )  # fmt: skip
        self._client.assign(queue for topic in self._shops for queue in self._client.fetch_queues(topic))
        self._client.start()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="consumer", daemon=True)
        self._thread.start()

    @property
    def distinct(self) -> int:
        """How many changes have come."""
        return len(self._changes)

    def newest(self) -> float:
        """Of each database the newest change that has come; when the older one of them was made, epoch seconds."""
        return min(max(rows.values(), default=0.0) for rows in self._newest.values())

    def oldest(self) -> float:
        """The same with the newest change of each row."""
        return min(min(rows.values()) if len(rows) == ROWS else 0.0 for rows in self._newest.values())

    def arrivals(self) -> list[Arrival]:
        """All that was received, in the order of its queue."""
        return [
            Arrival(one.change, f"{queue.broker_name} {queue.queue_id}", one.at)
            for (queue, _), one in sorted(self.received.items())
        ]

    def close(self) -> None:
        """End it."""
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def _work(self) -> None:
        while not self._stopped.is_set():
            for message in self._client.poll(0.5, 1000):
                row = json.loads(message.body)
                one = Received(change_of(self._shops[message.topic], row), message.store_timestamp_ms / 1000)
                place = message.queue, message.queue_offset
                if self.received.setdefault(place, one).change != one.change:
                    self.differing.append(f"{message.queue} {message.queue_offset}")
                self._changes.add(one.change)
                rows = self._newest[message.topic]
                rows[row["id"]] = max(row["made"] / 1000, rows.get(row["id"], 0.0))


class Inflow:
    """Changes of one database as a part of another campaign's load."""

    def __init__(self, demo: dict[str, Any], shop: Shop, *, rate: float, seed: int) -> None:
        self._demo, self._shops, self._report = demo, (shop,), Report(seed)
        self._tasks = Tasks(demo, self._shops)
        self._tasks.start()
        self._writers = Writers(self._shops, seed)
        self._writers.go(rate)
        self._consumer = Consumer(demo, self._shops)

    def stop(self) -> None:
        """End the writers."""
        self._writers.stop()

    def settled(self) -> Report:
        """What came of the changes, once all have arrived or are given up."""
        last = time.time()
        self._writers.change_everything()
        settle(self._consumer, last)
        judge(self._report, self._demo, self._shops, self._tasks, self._consumer)
        self._writers.tell(self._report)
        return self._report

    def close(self) -> None:
        """End all."""
        self._writers.stop()
        self._consumer.close()


def topic_of(shop: Shop) -> str:
    """The topic of a database's changes, and the name of its tasks."""
    return f"kills-{shop.name}"


def dead_of(shop: Shop) -> str:
    """The topic of its dead letters."""
    return f"kills-{shop.name}-dead"


def brief(told: dict[str, Any]) -> str:
    """State and reason of both tasks of a database."""
    tracking, inflow = told["tracking"], told["inflow"]
    said = [tracking[part] for part in ("state", "code", "reason")]
    said += [inflow[part] for part in ("state", "reason", "waiting")]
    return f"{inflow['task']}: {', '.join(filter(None, said))}"


def settle(consumer: Consumer, last: float) -> None:
    """Wait until every row's last change has come, or nothing has come for a long time."""
    count, since = -1, time.monotonic()
    while consumer.oldest() < last and time.monotonic() - since < PATIENCE * SLOWNESS:
        if len(consumer.received) != count:
            count, since = len(consumer.received), time.monotonic()
        _pause(0.5)


def judge(report: Report, demo: dict[str, Any], watched: tuple[Shop, ...], tasks: Tasks, consumer: Consumer) -> None:
    """Read the topics once more, and ask for what was counted."""
    for told in tasks.told().values():
        report.counters.update(told["inflow"]["counters"])
        report.restarts += told["inflow"]["restarts"]
        if told["tracking"]["state"] != "Normal" or told["inflow"]["state"] != "Running":
            report.faults.append(f"A task does not run at the end: {brief(told)}")
    again = Consumer(demo, watched)
    try:
        with Admin(demo["namesrv"], _keys(demo), timeout_ms=30_000) as admin:

            def stored(topic: str) -> int:
                queues = admin.routes.read_queues(f"{demo['instance_id']}%{topic}")
                return sum(admin.offsets.max(queue) - admin.offsets.min(queue) for queue in queues)

            report.dead = sum(stored(dead_of(shop)) for shop in watched)
            count = sum(stored(topic_of(shop)) for shop in watched)
        deadline = time.monotonic() + PATIENCE * SLOWNESS
        while len(again.received) < count and time.monotonic() < deadline:
            _pause(0.2)
        report.arrivals = again.arrivals()
        missing = [place for place, one in consumer.received.items() if again.received.get(place) != one]
        if missing or consumer.differing:
            text = "messages were received and are not where they were"
            report.faults.append(f"{len(missing)} {text}: {[*map(str, missing[:10]), *consumer.differing[:10]]}")
    finally:
        again.close()


def _keys(demo: dict[str, Any]) -> Credentials:
    return Credentials(demo["access_key_id"], demo["access_key_secret"])


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
