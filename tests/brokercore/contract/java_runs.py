"""The Java programs of tests/compat, all started in the beginning: what they wait for comes while other tests run."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Self

from brokercore.client import Message
from tests.brokercore.contract.cluster import Cluster
from tests.compat.programs import Event, Keys, Program

JAVA_SECONDS = 90.0
SHARDING_KEYS = ("a", "b")
ORDERED_COUNT = 5

#: JVMs that start at a time: ons-client waits only 3 s for its first route, which a crowd of them does not get.
STARTING = 3


def ended(program: Program) -> list[Event]:
    """Wait until a program that ends by itself has done its work, and return its events."""
    program.wait_until(lambda: bool(program.named("done")), "its end", JAVA_SECONDS)
    return program.events()


class JavaRuns:
    """A context manager; `program(name)` is one of the programs once it has started."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._stack = ExitStack()
        self._starting = ThreadPoolExecutor(STARTING, "start of Java")
        self._programs: dict[str, Future[Program]] = {}

    def __enter__(self) -> Self:
        with self._stack as stack:
            stack.callback(self._stop)
            self._begin_waits(stack)
            self._begin_ways(stack)
            self._begin_ordered()
            self._begin_others()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def program(self, name: str) -> Program:
        """A program that is ready or done. Raises AssertionError with what it printed when it is neither."""
        return self._programs[name].result(2 * JAVA_SECONDS)

    def _stop(self) -> None:
        self._starting.shutdown(wait=False, cancel_futures=True)
        self.cluster.world.tools.kill_since(0)
        self._starting.shutdown()

    def _start(
        self,
        name: str,
        class_name: str,
        topic: str,
        group: str,
        keys: Keys | None = None,
        *,
        after: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        """Start a program when there is room, and those `after` which it comes are done."""

        def start() -> Program:
            for earlier in after:
                ended(self.program(earlier))
            program = self.cluster.world.start(class_name, topic, group, keys, **options)
            program.wait_until(lambda: bool(program.named("ready") or program.named("done")), "its start", JAVA_SECONDS)
            return program

        self._programs[name] = self._starting.submit(start)

    def _begin_waits(self, stack: ExitStack) -> None:
        """What waits by itself: a retry, a check of a transaction, three delays."""
        cluster = self.cluster
        self.retry_topic, self.retry_group = cluster.topic("java-retry"), cluster.group("java_retry")
        with cluster.producer() as producer:
            self.poison = producer.send(Message(self.retry_topic, b"poison", keys="k", properties={"fails": "99"}))
        self._start("failing consumer", "ApacheConsumer", self.retry_topic, self.retry_group, max_reconsume_times=1)
        self.tx_topic = cluster.topic("java-tx", message_type="TRANSACTION")
        outcomes: dict[str, Any] = {
            "outcomes": "commit,rollback,unknown",
            "check": "commit",
            "check_immunity_seconds": 8,
        }
        self._start("transactions", "ApacheTransactionProducer", self.tx_topic, "GID_java_tx", **outcomes)
        self.delay_topic = topic = cluster.topic("java-delay", message_type="DELAY")
        self.delayed = stack.enter_context(cluster.consuming(topic, cluster.group("java_delay")))
        self._start("level", "ApacheProducer", topic, "GID_java", delay_level=2, body="level")
        self._start("timer", "ApacheProducer", topic, "GID_java", deliver_after_ms=3000, body="timer")
        self._start("ons timer", "OnsProducer", topic, "GID_java", deliver_after_ms=10_000, body="ons")

    def _begin_ways(self, stack: ExitStack) -> None:
        """Every way of sending of both Java clients; our clients and theirs receive.

        ons-client begins at the end of a queue, so its consumer comes when the messages are there.
        """
        cluster = self.cluster
        self.ways_topic = topic = cluster.topic("java-ways")
        self.ways_groups = {name: cluster.group(f"java_{name}") for name in ("push", "lite", "ons", "ours")}
        self.ours = stack.enter_context(cluster.consuming(topic, self.ways_groups["ours"], "TagA"))
        modes = ("sync", "async", "oneway")
        said: dict[str, Any] = {"tag": "TagA", "key": "order-1", "properties": "colour=blue,city=Zürich", "count": 2}
        apache = said | {"modes": ",".join((*modes, "batch")), "body": "apache", "trace": "true"}
        self._start("apache producer", "ApacheProducer", topic, "GID_java", **apache)
        self._start("ons producer", "OnsProducer", topic, "GID_java", modes=",".join(modes), body="ons", **said)
        self.ways_bodies = [f"{client}-{mode}-{n}" for client in ("apache", "ons") for mode in modes for n in "01"]
        self.ways_bodies += ["apache-batch-0", "apache-batch-1"]
        self._start("push consumer", "ApacheConsumer", topic, self.ways_groups["push"], tags="TagA || TagZ")
        self._start("lite consumer", "ApacheLitePull", topic, self.ways_groups["lite"])
        sending = ("apache producer", "ons producer")
        self._start("ons consumer", "OnsConsumer", topic, self.ways_groups["ons"], after=sending)

    def _begin_ordered(self) -> None:
        self.ordered_topic = topic = self.cluster.topic("java-fifo", queues=4, message_type="FIFO")
        keys: dict[str, Any] = {"sharding_keys": ",".join(SHARDING_KEYS), "count": ORDERED_COUNT}
        self._start("order producer", "OnsOrderProducer", topic, "GID_java", **keys)
        group = self.cluster.group("java_ordered")
        self._start("order consumer", "OnsOrderConsumer", topic, group, after=("order producer",))

    def _begin_others(self) -> None:
        """A filter on what we send, questions that we answer, and two that may not send."""
        cluster = self.cluster
        sql_topic = cluster.topic("java-sql")
        sql = "floor BETWEEN 5 AND 9 AND city = 'Zürich'"
        self._start("sql consumer", "ApacheConsumer", sql_topic, cluster.group("java_sql"), sql=sql)
        with cluster.producer() as producer:
            for city, floor in (("Zürich", "7"), ("Zürich", "1"), ("Bern", "7"), ("Zürich", "9")):
                place = {"city": city, "floor": floor}
                producer.send(Message(sql_topic, f"{city} {floor}".encode(), properties=place))
        self.guarded_topic = cluster.topic("java-guarded")
        self._start("reader", "ApacheProducer", self.guarded_topic, "GID_java", cluster.world.read_only)
        self._start("stranger", "OnsProducer", self.guarded_topic, "GID_java", cluster.world.stranger)
        self.questions_topic = cluster.topic("java-questions")
