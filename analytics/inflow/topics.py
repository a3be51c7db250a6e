"""Messages of inflow tasks into topics of RocketMQ, by `brokercore.client`.

Messages without the key of an order go in one request for each topic. Those with one go to the queue of their key, each
in a request of its own: those of one key one after the other, some keys at a time.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from zlib import crc32

from analytics.inflow.delivery import Misset, Outgoing, Undelivered
from brokercore.client import Credentials, Message, Producer
from brokercore.client.errors import (
    BrokerError,
    ClientError,
    InvalidMessage,
    MessageIllegal,
    NoPermission,
    TopicNotExist,
)

UNIQUE_ID = "INFLOW_UNIQ_KEY"
"""The property that has the unique id which the message had where its event comes from; the broker gives its own."""
#: Keys that are sent at a time.
_LANES = 8
_MOST_PRODUCERS = 8
_TIMEOUT_MS = 10_000
#: What a broker says of a message with the key of an order where the topic is none for them, or the other way round.
_OTHER_KIND = re.compile(r"message was sent to topic .*, which takes")

_lock = threading.Lock()
#: Of this process, which Spark uses again for many batches of one task or another.
_producers: OrderedDict[Address, Producer] = OrderedDict()


@dataclass(frozen=True)
class Address:
    """Where a producer sends, and as who."""

    namesrv: str
    key_id: str
    secret: str = field(repr=False)
    group: str
    #: The instance, where topics are named with it.
    namespace: str = ""

    def producer(self) -> Producer:
        """That of this process."""
        with _lock:
            producer = _producers.get(self)
            if producer is None:
                producer = _producers[self] = Producer(
                    self.namesrv,
                    Credentials(self.key_id, self.secret),
                    self.group,
                    namespace=self.namespace,
                    timeout_ms=_TIMEOUT_MS,
                )
            _producers.move_to_end(self)
            if len(_producers) > _MOST_PRODUCERS:
                _producers.popitem(last=False)[1].close()
            return producer


@dataclass(frozen=True)
class TopicTarget:
    """The target of a task: a topic, and one for dead letters, empty for none. Safe in threads."""

    address: Address
    topic: str
    dead_letters: str = ""
    #: Where events may go that name a topic of their own; None: wherever the key lets them.
    routes: frozenset[str] | None = None

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them. Raises Undelivered, and Misset for the task's own topic."""
        sent = _Sent()
        together: dict[str, list[int]] = {}
        lanes: dict[int, list[int]] = {}
        for place, outgoing in enumerate(messages):
            if self.routes is not None and outgoing.topic not in (None, self.topic, *self.routes):
                sent.add(_no_route(outgoing.topic), [place])
            elif outgoing.order:
                lanes.setdefault(crc32(outgoing.order.encode("utf-8", "replace")) % _LANES, []).append(place)
            else:
                together.setdefault(outgoing.topic or self.topic, []).append(place)
        if lanes:
            with ThreadPoolExecutor(len(lanes), "send") as threads:
                list(threads.map(lambda places: self._send_lane(messages, places, sent), lanes.values()))
        for topic, places in together.items():
            found = [_message(topic, messages[place]) for place in places]
            sent.add(self._try(topic, lambda found=found: self._send_batch(found)), places)  # type: ignore[misc]
        sent.check()

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event to the dead-letter topic. Raises Undelivered and Misset."""
        message = Message(self.dead_letters, body, properties=dict(properties))
        failure = self._try(self.dead_letters, lambda: self.address.producer().send(message))
        if failure is not None:
            raise failure

    def _send_lane(self, messages: Sequence[Outgoing], places: Iterable[int], sent: _Sent) -> None:
        """One after the other, up to the first that fails: what is behind it may be of the same key."""
        for place in places:
            outgoing = messages[place]
            topic = outgoing.topic or self.topic
            message = _message(topic, outgoing)
            failure = self._try(topic, lambda: self.address.producer().send_ordered(message, outgoing.order))  # noqa: B023
            sent.add(failure, [place])
            if failure is not None:
                return

    def _send_batch(self, messages: list[Message]) -> object:
        producer = self.address.producer()
        return producer.send(messages[0]) if len(messages) == 1 else producer.send_batch(messages)

    def _try(self, topic: str, send: Callable[[], object]) -> Undelivered | Misset | None:
        """What it failed with."""
        try:
            send()
        except ClientError as error:
            sentence = f"The topic {topic} cannot be written to: {error.user_message.rstrip('.')}."
            if topic in (self.topic, self.dead_letters) and _is_of_the_topic(error):
                return Misset(sentence)
            return Undelivered(sentence, may_pass=_may_pass(error))
        return None


class _Sent:
    """What became of the messages of a call."""

    def __init__(self) -> None:
        self._done: list[int] = []
        self._failures: list[Undelivered | Misset] = []

    def add(self, failure: Undelivered | Misset | None, places: Iterable[int]) -> None:
        if failure is None:
            self._done += places
        else:
            self._failures.append(failure)

    def check(self) -> None:
        """Raise the failure that says most: what no further try can help comes before what may pass."""
        if not self._failures:
            return
        worst = max(self._failures, key=lambda one: (isinstance(one, Misset), not getattr(one, "may_pass", True)))
        if isinstance(worst, Misset):
            raise worst
        raise Undelivered(worst.user_message, may_pass=worst.may_pass, done=self._done)


def _message(topic: str, outgoing: Outgoing) -> Message:
    found = outgoing.message
    properties = found.properties if found.unique_id is None else {**found.properties, UNIQUE_ID: found.unique_id}
    return Message(topic, found.body, found.tag or "", found.key or "", dict(properties))


def _no_route(topic: str | None) -> Undelivered:
    return Undelivered(
        f"The event names the topic {topic}, which is not there, or to which who started the task may not publish.",
        may_pass=False,
    )


def _is_of_the_topic(error: ClientError) -> bool:
    """Whether the topic takes no message of this task, whatever it is: it is not there, or one of another kind."""
    if isinstance(error, MessageIllegal):
        return _OTHER_KIND.search(error.text) is not None
    return isinstance(error, NoPermission | TopicNotExist)


def _may_pass(error: ClientError) -> bool:
    """Whether another try may help: not for a missing right, topic or a message that no broker takes."""
    if isinstance(error, BrokerError):
        return bool(error.retriable)
    return not isinstance(error, InvalidMessage)
