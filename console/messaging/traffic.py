"""Real traffic for a running copy: flights as messages, and a consumer that fails on some of them."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from brokercore.client import ConsumeResult, Credentials, Message, MessageView, Producer, PushConsumer, TransactionState
from brokercore.client.errors import ClientError
from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import MAX_BATCH, Draft
from console.instances.broker import settings_tls
from console.messaging.flight_rows import Place, RowFeeder
from console.messaging.flights import Flight

log = logging.getLogger(__name__)

TOPICS = ("flights", "flights-fifo", "bookings-tx", "reminders")
OTHER_GROUPS = {"GID_fifo": "flights-fifo", "GID_bookings": "bookings-tx", "GID_reminders": "reminders"}
"""The demo's groups beside the one that demo.json names, and what they consume."""
MAX_RECONSUME_TIMES = 1
"""One retry after ten seconds, then a dead letter: soon enough to watch."""
VERY_LATE_MINUTES = 180
REMINDER_SECONDS = (3, 8, 15)
QUEUE, QUEUE_SECONDS = "flights", 600
"""The queue that gets all flights, and how long it keeps them: nobody has to consume them."""
_MOST_WAITING, _CLOSE_SECONDS = 1000, 10.0
MAX_FAILURES = 20
"""Sends that may fail one after the other before the replay gives up."""


@dataclass(frozen=True)
class Target:
    """The running copy, as its demo.json names it."""

    namesrv: str
    instance_id: str
    group: str
    credentials: Credentials
    smq_endpoint: str = ""
    database: Place | None = None
    """Of a copy whose demo account has one."""

    @classmethod
    def of_demo(cls, demo: dict[str, Any]) -> Target:
        """Read the fields of demo.json. Raises KeyError for a missing one."""
        keys = Credentials(demo["access_key_id"], demo["access_key_secret"])
        database = Place.of_demo(demo["database"]) if demo.get("database") else None
        return cls(demo["namesrv"], demo["instance_id"], demo["group"], keys, demo["smq_endpoint"], database)


@dataclass
class Progress:
    """What happened so far; safe in threads."""

    sent: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_sent(self, topic: str) -> None:
        """A message was stored."""
        with self._lock:
            self.sent[topic] += 1

    def count(self, what: str) -> None:
        """`consumed`, `refused`, `rolled back`, `failed`, `queued`, `rows changed` and the like."""
        with self._lock:
            self.counts[what] += 1

    def line(self) -> str:
        """One line for people."""
        with self._lock:
            sent = ", ".join(f"{topic} {self.sent[topic]}" for topic in TOPICS if self.sent[topic])
            rest = ", ".join(f"{what} {number}" for what, number in sorted(self.counts.items()))
        return f"sent {sum(self.sent.values())} ({sent or 'nothing yet'}); {rest or 'nothing consumed yet'}"


def refuses(flight: dict[str, Any]) -> bool:
    """True for the flights on which the consumer fails on purpose: cancelled, or three hours late and more."""
    return flight["dep_time"] is None or (flight.get("dep_delay") or 0) >= VERY_LATE_MINUTES


class Sender:
    """Sends flights to the demo topics, each the way the topic's type wants it."""

    def __init__(self, target: Target, progress: Progress) -> None:
        self._progress = progress
        self._queue = QueueFeeder(target, progress) if target.smq_endpoint else None
        self._rows = RowFeeder(target.database, progress.count) if target.database else None

        def producer(group: str) -> Producer:
            return Producer(
                target.namesrv,
                target.credentials,
                group,
                namespace=target.instance_id,
                transaction_check=lambda message: TransactionState.COMMIT,
                tls=settings_tls(),
            )

        # One a kind of message: each goes round the queues of its topic by itself.
        self._flights, self._bookings, self._reminders = map(producer, (target.group, "GID_bookings", "GID_reminders"))

    def close(self) -> None:
        """Close the producers, once queue and database have what was fed to them."""
        for producer in (self._flights, self._bookings, self._reminders):
            producer.close()
        if self._queue is not None:
            self._queue.close()
        if self._rows is not None:
            self._rows.close()

    def send(self, number: int, flight: Flight) -> None:
        """Send the `number`-th flight: of ten, six are normal, two ordered, one a booking and one a reminder.

        Raises ClientError.
        """
        if self._queue is not None:
            self._queue.feed(flight)
        if self._rows is not None:
            self._rows.feed()
        choice = number % 10
        if choice in (3, 7):
            self._flights.send_ordered(_message("flights-fifo", flight), flight.tail_number)
            self._progress.add_sent("flights-fifo")
        elif choice == 5:
            self._book(number, flight)
        elif choice == 9:
            delay = REMINDER_SECONDS[number // 10 % len(REMINDER_SECONDS)]
            message = _message("reminders", flight)
            message.deliver_at_ms = int(time.time() * 1000) + delay * 1000
            self._reminders.send(message)
            self._progress.add_sent("reminders")
        else:
            self._flights.send(_message("flights", flight))
            self._progress.add_sent("flights")

    def _book(self, number: int, flight: Flight) -> None:
        """Every fifth booking is rolled back: nobody ever sees it."""
        fails = number // 10 % 5 == 4
        state = TransactionState.ROLLBACK if fails else TransactionState.COMMIT
        self._bookings.send_transaction(_message("bookings-tx", flight), lambda *_: state)
        if fails:
            self._progress.count("rolled back")
        else:
            self._progress.add_sent("bookings-tx")


class QueueFeeder:
    """Sends the same flights to a queue of the queue service, in a thread: what holds it up holds nobody else up."""

    def __init__(self, target: Target, progress: Progress) -> None:
        keys = target.credentials
        self._client = QueueClient(target.smq_endpoint, keys.access_key_id, keys.access_key_secret)
        self._progress = progress
        self._bodies: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="queue feeder", daemon=True)
        self._thread.start()

    def feed(self, flight: Flight) -> None:
        """Send a flight soon; it is left out while more than 1,000 wait."""
        if self._bodies.qsize() < _MOST_WAITING:
            self._bodies.put(flight.body())

    def close(self) -> None:
        """Send what waits, and end."""
        self._bodies.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        is_made = is_over = failed = False
        while not is_over:
            batch = [self._bodies.get()]
            while len(batch) < MAX_BATCH and None not in batch and not self._bodies.empty():
                batch.append(self._bodies.get())
            is_over = None in batch
            drafts = [Draft(body) for body in batch if body is not None]
            try:
                if not is_made:
                    self._make_queue()
                    is_made = True
                sent = self._client.send_batch(QUEUE, drafts) if drafts else []
                for one in sent:
                    self._progress.count("not queued" if isinstance(one, SmqError) else "queued")
                failed = False
            except (SmqError, QueueServiceUnavailable) as error:
                for _ in drafts:
                    self._progress.count("not queued")
                if not failed:
                    log.warning("flights do not come into the queue: %s", error)
                failed = True

    def _make_queue(self) -> None:
        try:
            self._client.create_queue(QUEUE, {"MessageRetentionPeriod": QUEUE_SECONDS})
        except SmqError as error:
            if error.code is not Code.QUEUE_ALREADY_EXIST:  # somebody has changed it since
                raise


def consumers(target: Target, progress: Progress) -> list[PushConsumer]:
    """One consumer a topic, not started yet. That of `flights` fails on `refuses`, so dead letters come about."""

    def fail_on_some(message: MessageView) -> ConsumeResult:
        flight = _fields(message)
        if flight is not None and refuses(flight):
            progress.count("refused")
            return ConsumeResult.RECONSUME_LATER
        return consume(message)

    def consume(message: MessageView) -> ConsumeResult:
        progress.count("consumed")
        return ConsumeResult.SUCCESS

    made = []
    for group, topic in {target.group: "flights", **OTHER_GROUPS}.items():
        push = PushConsumer(
            target.namesrv,
            target.credentials,
            group,
            namespace=target.instance_id,
            max_reconsume_times=MAX_RECONSUME_TIMES,
            threads=1 if topic == "flights-fifo" else 4,
            tls=settings_tls(),
        )
        push.subscribe(topic)
        push.on_message(fail_on_some if topic == "flights" else consume)
        made.append(push)
    return made


def replay(
    sender: Sender,
    flights: Iterator[Flight],
    progress: Progress,
    *,
    rate: float,
    seconds: float | None,
    count: int | None,
    stop: threading.Event,
    report: Callable[[str], None],
    report_every_s: float = 5.0,
) -> None:
    """Send flights at `rate` a second until time, number or flights run out, or `stop` is set.

    Raises ClientError after 20 failed sends in a row.
    """
    start = time.monotonic()
    reported = start
    failures = 0
    for number, flight in enumerate(flights):
        now = time.monotonic()
        if (count is not None and number >= count) or (seconds is not None and now - start >= seconds):
            return
        if now - reported >= report_every_s:
            report(progress.line())
            reported = now
        try:
            sender.send(number, flight)
            failures = 0
        except ClientError as error:
            progress.count("failed")
            failures += 1
            log.warning("a send failed: %s", error)
            if failures >= MAX_FAILURES:
                raise
        due = start + (number + 1) / rate
        if stop.wait(max(0.0, due - time.monotonic())):
            return


def _message(topic: str, flight: Flight) -> Message:
    return Message(topic, flight.body(), tags=flight.carrier, keys=flight.tail_number)


def _fields(message: MessageView) -> dict[str, Any] | None:
    """The flight of a message; None for a test message that somebody published by hand."""
    try:
        found = json.loads(message.body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "dep_time" in found else None
