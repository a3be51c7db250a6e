"""Telemetry, Heartbeat and NotifyClientTermination: what a client is, and what it is told in return."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import grpc
from google.protobuf.duration_pb2 import Duration

from brokercore.protocol.bodies.clients import CONSUME_ACTIVELY, CONSUME_PASSIVELY, ConsumerData, SubscriptionData
from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.grpc.messaging_pb2 import (
    ClientType,
    Code,
    CustomizedBackoff,
    ExponentialBackoff,
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
    Settings,
    TelemetryCommand,
)
from brokercore.server.delivery.delayed_delivery import LEVELS_MS
from brokercore.server.delivery.incoming import MAX_BODY
from brokercore.server.delivery.ordering import is_orderly
from brokercore.server.grpc.call import OK, Fault
from brokercore.server.grpc.messages import group_name, topic_name
from brokercore.server.grpc.receiving import POLLING_SECONDS, filter_of
from brokercore.server.grpc.sessions import MOST_UNSENT, Outbox, Session
from brokercore.server.handlers.clients import MOST_GROUPS

if TYPE_CHECKING:
    from brokercore.server.grpc.call import Call
    from brokercore.server.grpc.service import Service

PRODUCER_ATTEMPTS = 3
BACKOFF_MS, MAX_BACKOFF_MS, BACKOFF_FACTOR = 10, 1000, 2.0
"""How often, and with which pauses, a producer tries a send: as the official proxy tells it."""

MAX_SETTINGS = 256 << 10
"""Bytes of what a client says of itself, which is kept while it is online."""

BATCH_SIZE = 32
_RETRIES = 16
_CONSUMERS = {ClientType.PUSH_CONSUMER: CONSUME_PASSIVELY, ClientType.SIMPLE_CONSUMER: CONSUME_ACTIVELY}


async def telemetry(service: Service, call: Call, context: grpc.aio.ServicerContext) -> None:
    """Take a client's settings and answers, and tell it what the broker wants, until one of both goes.

    Raises Fault and DecodeError.
    """
    outbox: Outbox = asyncio.Queue(MOST_UNSENT)
    writer = asyncio.get_running_loop().create_task(_write(context, outbox))
    session: Session | None = None
    try:
        while (data := await context.read()) is not grpc.aio.EOF:
            command = call.read(TelemetryCommand, data)
            if command.HasField("settings"):
                if len(data) > MAX_SETTINGS:
                    raise Fault(Code.BAD_REQUEST, f"the settings have {len(data)} bytes; allowed are {MAX_SETTINGS}")
                session = service.sessions.open(call)
                session.outbox = outbox
                await _register(session, command.settings)
                await outbox.put(TelemetryCommand(status=OK, settings=await _settings(call, command.settings)))
            elif session is not None:
                _receive_answer(session, command)
    finally:
        if session is not None and session.outbox is outbox:
            service.sessions.end(session)  # first: a client that goes can end this task at the next await
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


async def _write(context: grpc.aio.ServicerContext, outbox: Outbox) -> None:
    while True:
        await context.write((await outbox.get()).SerializeToString())


def _receive_answer(session: Session, command: TelemetryCommand) -> None:
    if command.HasField("thread_stack_trace"):
        session.answered(command.thread_stack_trace.nonce, command)
    elif command.HasField("verify_message_result"):
        session.answered(command.verify_message_result.nonce, command)


async def _register(session: Session, settings: Settings) -> None:
    """Register the client with what it says it is. Raises Fault."""
    for count in (len(settings.subscription.subscriptions), len(settings.publishing.topics)):
        if count > MOST_GROUPS:
            raise Fault(Code.BAD_REQUEST, f"the settings name {count} topics; allowed are {MOST_GROUPS}")
    session.settings = settings
    if settings.HasField("subscription"):
        group = group_name(settings.subscription.group)
        session.space = settings.subscription.group.resource_namespace
        await session.register(_consumer(group, settings.client_type, _subscriptions(settings)))
    elif settings.HasField("publishing"):
        session.space = next((topic.resource_namespace for topic in settings.publishing.topics), "")
        await session.produces([topic_name(topic) for topic in settings.publishing.topics])
    else:
        raise Fault(Code.BAD_REQUEST, "the settings have neither publishing nor subscription")


def _subscriptions(settings: Settings) -> list[SubscriptionData]:
    now_ms = int(time.time() * 1000)
    found = []
    for entry in settings.subscription.subscriptions:
        topic, (kind, expression) = topic_name(entry.topic), filter_of(entry.expression)
        try:
            if kind == "TAG":
                found.append(SubscriptionData.of_tags(topic, expression, now_ms))
            else:
                found.append(SubscriptionData(topic, expression, now_ms, kind))
        except SubscriptionError as error:
            raise Fault(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from error
    return found


def _consumer(group: str, kind: ClientType, subscriptions: list[SubscriptionData]) -> ConsumerData:
    if kind not in _CONSUMERS:
        raise Fault(Code.UNRECOGNIZED_CLIENT_TYPE, f"clients of type {ClientType.Name(kind)} are not supported")
    return ConsumerData(group, subscriptions, _CONSUMERS[kind])


async def _settings(call: Call, given: Settings) -> Settings:
    """What a client shall work with. Raises StoreUnavailable."""
    settings = Settings()
    settings.CopyFrom(given)
    settings.metric.on = False
    policy = settings.backoff_policy
    if given.HasField("publishing"):
        policy.max_attempts = PRODUCER_ATTEMPTS
        policy.exponential_backoff.CopyFrom(
            ExponentialBackoff(initial=_ms(BACKOFF_MS), max=_ms(MAX_BACKOFF_MS), multiplier=BACKOFF_FACTOR)
        )
        settings.publishing.max_body_size = MAX_BODY
        settings.publishing.validate_message_type = call.broker.settings.check_message_type
        return settings
    group = group_name(given.subscription.group)
    config = call.broker.groups.get(group)
    policy.max_attempts = (config.retry_max_times if config else _RETRIES) + 1
    policy.customized_backoff.CopyFrom(CustomizedBackoff(next=[_ms(level) for level in LEVELS_MS]))
    topics = [topic_name(entry.topic) for entry in given.subscription.subscriptions]
    settings.subscription.fifo = await is_orderly(call.broker, group, topics)
    settings.subscription.receive_batch_size = BATCH_SIZE
    settings.subscription.long_polling_timeout.CopyFrom(_ms(int(1000 * POLLING_SECONDS)))
    return settings


def _ms(milliseconds: int) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(milliseconds)
    return duration


async def heartbeat(service: Service, call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """A client is still there. A consumer that a restarted broker does not know is taken at its word."""
    session, kind = service.sessions.find(call), request.client_type
    if kind == ClientType.CLIENT_TYPE_UNSPECIFIED and session is not None:
        kind = _kind_of(session)  # some clients tell it in their settings only
    if kind in _CONSUMERS:
        known = session.settings if session is not None else None
        group = group_name(request.group if request.HasField("group") or known is None else known.subscription.group)
        session = session or service.sessions.open(call)
        session.space = request.group.resource_namespace or session.space
        data = _consumer(group, kind, _subscriptions(known) if known else [])
        await session.register(data, without_subscriptions=known is None)
    elif kind != ClientType.PRODUCER:
        raise Fault(Code.UNRECOGNIZED_CLIENT_TYPE, f"clients of type {ClientType.Name(kind)} are not supported")
    elif session is not None:
        await session.register()
    return HeartbeatResponse(status=OK)


def _kind_of(session: Session) -> ClientType:
    """What a client's settings say that it is; a producer where they only say what it publishes."""
    settings = session.settings or Settings()
    if settings.client_type == ClientType.CLIENT_TYPE_UNSPECIFIED and settings.HasField("publishing"):
        return ClientType.PRODUCER
    return settings.client_type


async def terminate(
    service: Service, call: Call, _request: NotifyClientTerminationRequest
) -> NotifyClientTerminationResponse:
    """A client goes."""
    session = service.sessions.find(call)
    if session is not None:
        service.sessions.end(session)
    return NotifyClientTerminationResponse(status=OK)
