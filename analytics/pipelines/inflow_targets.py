"""The target of an inflow task, made of its document and of what its sink in the pipeline is given.

topic       endpoint; accessId and accessKey where the brokers want a key, ca where they have certificates;
            instanceID and producerGroup where the document has them
queue       endpoint, accessKeyId, accessKeySecret; account, whose queue it is, where the key is Gantry's own;
            queueNetworks, where the service may be beside public addresses, where it is not Gantry's own
http        functionKey, networks; headers, with the names of secrets
dead        deadEndpoint, deadAccessId, deadAccessKey; deadCa for a topic, deadAccount for a queue
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from analytics.errors import PipelineRefused
from analytics.inflow.delivery import Outgoing
from analytics.inflow.endpoints import Endpoint
from analytics.inflow.queues import QueueTarget, Service
from analytics.inflow.task import Task
from analytics.inflow.task_sinks import HEADERS, PRODUCER_GROUP, DeadLetters, HttpSink, QueueSink, TopicSink
from analytics.inflow.topics import TopicTarget
from analytics.pipelines.plan import SECRET
from analytics.pipelines.producers import Address

Options = Mapping[str, Any]


class Part(Protocol):
    """What messages go to. Safe in threads, and Spark pickles it."""

    def require(self) -> None:
        """Raise Misset for what is not there."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them. Raises Undelivered and Misset."""


class Grave(Protocol):
    """What dead letters go to. Safe in threads, and Spark pickles it."""

    def require(self) -> None:
        """Raise Misset for what is not there."""

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event that has failed. Raises Undelivered and Misset."""


@dataclass(frozen=True)
class Target:
    """Where the messages of a task go, and where its dead letters do."""

    messages: Part
    dead: Grave | None = None

    def require(self) -> None:
        """Raise Misset for what is not there."""
        self.messages.require()
        if self.dead is not None:
            self.dead.require()

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them. Raises Undelivered and Misset."""
        self.messages.send(messages)

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event that has failed. Raises Undelivered and Misset."""
        if self.dead is None:
            raise ValueError("the task has no dead letters")
        self.dead.send_dead(body, properties)


def target_of(task: Task, options: Options, secrets: Mapping[str, str]) -> Target:
    """The target of a task. Raises PipelineRefused for what was not given, and for a missing secret."""
    sink, dead = task.sink, task.dead_letters
    if isinstance(sink, TopicSink):
        address = _address(options, ("endpoint", "accessId", "accessKey", "ca"))
        # One producer for both: dead letters are of the same instance.
        topics = TopicTarget(address, sink.topic, dead.topic, sink.routes)
        return Target(topics, topics if dead.topic else _grave(dead, options))
    return Target(_PARTS[type(sink)](sink, options, secrets), _grave(dead, options))


def _queue(sink: QueueSink, options: Options, secrets: Mapping[str, str]) -> Part:
    service = Service(
        _given(options, "endpoint"),
        _given(options, "accessKeyId"),
        _given(options, "accessKeySecret"),
        str(options.get("account", "")),
        None if options.get("queueNetworks") is None else str(options["queueNetworks"]),
    )
    return QueueTarget(service, sink.queue, sink.base64, sink.priority, sink.delay_s)


def _endpoint(sink: HttpSink, options: Options, secrets: Mapping[str, str]) -> Part:
    told: dict[str, str] = json.loads(str(options.get(HEADERS, "{}")))
    named = sorted({name for value in told.values() for name in SECRET.findall(value)})
    if missing := [name for name in named if name not in secrets]:
        raise PipelineRefused(f"There is no secret {missing[0]}.")
    return Endpoint(
        url=sink.url,
        key=str(options.get("functionKey", "")).encode(),
        headers=tuple((name, SECRET.sub(lambda found: secrets[found[1]], value)) for name, value in told.items()),
        hidden=tuple(secrets[name] for name in named),
        networks=str(options.get("networks", "")),
        timeout_s=sink.timeout_s,
        batch=sink.batch,
        batch_type=sink.builder.content_type,
    )


_PARTS: dict[type, Callable[[Any, Options, Mapping[str, str]], Part]] = {QueueSink: _queue, HttpSink: _endpoint}


def _grave(dead: DeadLetters, options: Options) -> Grave | None:
    if dead.queue:
        endpoint, key_id, secret = (_given(options, one) for one in ("deadEndpoint", "deadAccessId", "deadAccessKey"))
        return QueueTarget(Service(endpoint, key_id, secret, str(options.get("deadAccount", ""))), dead.queue)
    if dead.topic:
        address = _address(options, ("deadEndpoint", "deadAccessId", "deadAccessKey", "deadCa"), dead.instance)
        return TopicTarget(address, "", dead.topic)
    return None


def _address(options: Options, names: tuple[str, str, str, str], instance: str | None = None) -> Address:
    endpoint, *others = names
    key_id, secret, ca = (str(options.get(name, "")) for name in others)
    namespace = str(options.get("instanceID", "")) if instance is None else instance
    group = str(options.get("producerGroup", PRODUCER_GROUP))
    return Address(_given(options, endpoint), key_id, secret, group, namespace, ca)


def _given(options: Options, name: str) -> str:
    if name not in options:
        raise PipelineRefused(f"The sink is not told {name}.")
    return str(options[name])
