"""A gRPC client without a library of the vendor's: what a test says is what goes over the line."""

from __future__ import annotations

import hmac
import queue
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import grpc

from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.server.grpc.endpoint import SERVICE
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET

SECONDS = 20.0

#: Of a channel whose window does not grow: of an answer 64 KiB come, and no more before somebody reads it.
READS_NOTHING_AHEAD = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535))


def authorization(key_id: str, secret: str, date: str) -> str:
    """The header that signs a call."""
    signature = hmac.digest(secret.encode(), date.encode(), "sha1").hex().upper()
    return f"MQv2-HMAC-SHA1 Credential={key_id}, SignedHeaders=x-mq-date-time, Signature={signature}"


def resource(name: str, space: str = "") -> pb.Resource:
    """A topic or a group."""
    return pb.Resource(resource_namespace=space, name=name)


def message(topic: str, body: bytes = b"hello", message_id: str = "", **system: Any) -> pb.Message:
    """A message; keywords are its system properties."""
    found = pb.SystemProperties(message_id=message_id or f"01{time.monotonic_ns():032X}"[-34:], **system)
    return pb.Message(topic=resource(topic), system_properties=found, body=body)


class Caller:
    """One channel, signing with one AccessKey (None: unsigned)."""

    def __init__(
        self,
        address: str,
        key: tuple[str, str] | None = (SYSTEM_KEY, SYSTEM_SECRET),
        certificate: bytes | None = None,
        options: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.key, self.client_id = key, f"client-{time.monotonic_ns()}"
        self.extra: dict[str, str] = {}
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        if certificate is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            credentials = grpc.ssl_channel_credentials(root_certificates=certificate)
            self.channel = grpc.secure_channel(address, credentials, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.channel.close()

    def metadata(self) -> list[tuple[str, str]]:
        """What goes with every call; `extra` replaces and adds."""
        date = self.extra.get("x-mq-date-time") or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        found = {"x-mq-client-id": self.client_id, "x-mq-language": "PYTHON", "x-mq-date-time": date}
        if self.key:
            found["authorization"] = authorization(*self.key, date)
        return [(name, value) for name, value in (found | self.extra).items() if value]

    def call(self, name: str, request: Any, response: Any, seconds: float = SECONDS) -> Any:
        """One call with one answer."""
        method = self.channel.unary_unary(f"/{SERVICE}/{name}", type(request).SerializeToString, response.FromString)
        return method(request, timeout=seconds, metadata=self.metadata())

    def send(self, *messages: pb.Message) -> pb.SendMessageResponse:
        """Send messages."""
        answer: pb.SendMessageResponse = self.call(
            "SendMessage", pb.SendMessageRequest(messages=messages), pb.SendMessageResponse
        )
        return answer

    def start_receiving(self, group: str, topic: str, seconds: float = SECONDS, **fields: Any) -> Any:
        """Ask for messages; the answer is an iterator of its parts."""
        request = pb.ReceiveMessageRequest(
            group=resource(group), message_queue=pb.MessageQueue(topic=resource(topic)), batch_size=32
        )
        # A handle ends with it: for as long as a slow machine may take for what a test does meanwhile.
        invisible = fields.pop("invisible", 600)
        if invisible is not None:
            request.invisible_duration.FromSeconds(invisible)
        request.long_polling_timeout.FromSeconds(fields.pop("wait", 0))
        request.MergeFrom(pb.ReceiveMessageRequest(**fields))
        method = self.channel.unary_stream(
            f"/{SERVICE}/ReceiveMessage",
            pb.ReceiveMessageRequest.SerializeToString,
            pb.ReceiveMessageResponse.FromString,
        )
        return method(request, timeout=seconds, metadata=self.metadata())

    def receive(self, group: str, topic: str, **fields: Any) -> tuple[pb.Status, list[pb.Message]]:
        """The status and the messages of one receive."""
        parts = list(self.start_receiving(group, topic, **fields))
        assert parts[0].HasField("status")
        assert parts[-1].HasField("delivery_timestamp")
        return parts[0].status, [part.message for part in parts[1:-1]]

    def acknowledge(self, group: str, *messages: pb.Message) -> pb.AckMessageResponse:
        """Acknowledge messages of one topic."""
        entries = [
            pb.AckMessageEntry(
                message_id=item.system_properties.message_id, receipt_handle=item.system_properties.receipt_handle
            )
            for item in messages
        ]
        request = pb.AckMessageRequest(group=resource(group), topic=messages[0].topic, entries=entries)
        answer: pb.AckMessageResponse = self.call("AckMessage", request, pb.AckMessageResponse)
        return answer

    def telemetry(self, settings: pb.Settings) -> Telemetry:
        """A stream that begins with these settings and stays open."""
        return Telemetry(self, settings)


class Telemetry:
    """A telemetry stream: what the broker says, read by `next`."""

    def __init__(self, caller: Caller, settings: pb.Settings) -> None:
        self._sent: queue.Queue[pb.TelemetryCommand | None] = queue.Queue()
        self._sent.put(pb.TelemetryCommand(settings=settings))
        method = caller.channel.stream_stream(
            f"/{SERVICE}/Telemetry", pb.TelemetryCommand.SerializeToString, pb.TelemetryCommand.FromString
        )
        self.stream = method(iter(self._sent.get, None), timeout=60, metadata=caller.metadata())

    def say(self, command: pb.TelemetryCommand) -> None:
        """Send a command."""
        self._sent.put(command)

    def next(self) -> pb.TelemetryCommand:
        """What the broker says next."""
        found: pb.TelemetryCommand = next(self.stream)
        return found

    def end(self) -> None:
        """Close it, as a client does that goes."""
        self._sent.put(None)
        self.stream.cancel()


def consumer_settings(group: str, topic: str, expression: str = "*") -> pb.Settings:
    """What a push consumer says of itself."""
    entry = pb.SubscriptionEntry(
        topic=resource(topic), expression=pb.FilterExpression(type=pb.FilterType.TAG, expression=expression)
    )
    subscription = pb.Subscription(group=resource(group), subscriptions=[entry])
    return pb.Settings(client_type=pb.ClientType.PUSH_CONSUMER, subscription=subscription)


def producer_settings(*topics: str) -> pb.Settings:
    """What a producer says of itself."""
    publishing = pb.Publishing(topics=[resource(topic) for topic in topics])
    return pb.Settings(client_type=pb.ClientType.PRODUCER, publishing=publishing)
