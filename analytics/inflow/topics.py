"""Messages of inflow tasks into topics of RocketMQ, by `brokercore.client`.

Messages without the key of an order go in one request for each topic. Those with one go to the queue of their key, each
in a request of its own: those of one key one after the other, some keys at a time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analytics.inflow import lanes
from analytics.inflow.delivery import Misset, Outgoing, Undelivered
from analytics.pipelines.producers import TIMEOUT_MS, Address
from analytics.sources import trust
from brokercore.client import Admin, Message
from brokercore.client.errors import (
    BrokerError,
    ClientError,
    InvalidMessage,
    MessageIllegal,
    NoPermission,
    TopicNotExist,
)
from brokercore.names import wrap

log = logging.getLogger(__name__)

UNIQUE_ID = "INFLOW_UNIQ_KEY"
"""The property that has the unique id which the message had where its event comes from; the broker gives its own."""
#: What a broker says of a message with the key of an order where the topic is none for them, or the other way round.
_OTHER_KIND = re.compile(r"message was sent to topic .*, which takes")


@dataclass(frozen=True)
class TopicTarget:
    """The target of a task: a topic, one for dead letters, empty for none, and those that events may name.

    Safe in threads.
    """

    address: Address
    topic: str
    dead_letters: str = ""
    routes: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(filter(None, (self.topic, self.dead_letters, *self.routes)))

    def require(self) -> None:
        """Raise Misset for a topic that is not there. One whose name servers do not answer now may be."""
        address = self.address
        key = trust.credentials(address.key_id, address.secret)
        with Admin(address.namesrv, key, timeout_ms=TIMEOUT_MS, tls=trust.tls(address.ca)) as admin:
            for topic in self.topics:
                try:
                    admin.topics.route(wrap(address.namespace, topic))
                except TopicNotExist as error:
                    raise Misset(_sentence(topic, error)) from error
                except ClientError as error:
                    log.info("whether there is a topic %s is not known: %s", topic, error)

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them. Raises Undelivered, and Misset for a topic that the task is told."""
        sent = lanes.Sent()
        together: dict[str, list[int]] = {}
        for place, outgoing in enumerate(messages):
            if not outgoing.order:
                together.setdefault(outgoing.topic or self.topic, []).append(place)
        lanes.run(lanes.by_lane(messages), lambda _, places: self._send_lane(messages, places, sent))
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

    def _send_lane(self, messages: Sequence[Outgoing], places: Iterable[int], sent: lanes.Sent) -> None:
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
            sentence = _sentence(topic, error)
            if topic in self.topics and _is_of_the_topic(error):
                return Misset(sentence)
            return Undelivered(sentence, may_pass=_may_pass(error))
        return None


def _message(topic: str, outgoing: Outgoing) -> Message:
    found = outgoing.message
    properties = found.properties if found.unique_id is None else {**found.properties, UNIQUE_ID: found.unique_id}
    return Message(topic, found.body, found.tag or "", found.key or "", properties)


def _sentence(topic: str, error: ClientError) -> str:
    return f"The topic {topic} cannot be written to: {error.user_message.rstrip('.')}."


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
