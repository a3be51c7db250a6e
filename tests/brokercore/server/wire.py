"""A client that speaks frames: what a test sends is what goes over the socket."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from brokercore.protocol.command import Command, FrameReader, decode
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.signature import sign
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, eventually

_names = itertools.count(1)


def fresh(prefix: str = "topic") -> str:
    """A name no other test uses."""
    return f"{prefix}-{next(_names)}-{time.monotonic_ns() % 1_000_000}"


def properties(**values: str) -> str:
    """A property string."""
    return "".join(f"{name}\x01{value}\x02" for name, value in values.items())


class Wire:
    """One connection, signing with one AccessKey (None: unsigned)."""

    def __init__(self, address: str, key: tuple[str, str] | None = (SYSTEM_KEY, SYSTEM_SECRET)) -> None:
        host, _, port = address.rpartition(":")
        self.key = key
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.pushed: list[Command] = []
        self._reader = FrameReader()
        self._frames: list[Command] = []
        self._opaque = 0
        self._held: list[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", flag: int = 0) -> int:
        """Send a request and return its opaque."""
        self._opaque += 1
        fields = {name: str(value) for name, value in (ext or {}).items()}
        if self.key:
            fields["AccessKey"] = self.key[0]
            fields["Signature"] = sign(fields, body, self.key[1])
        request = Command(code, self._opaque, flag, "JAVA", ext=fields, body=body).encode()
        if self._held is None:
            self.socket.sendall(request)
        else:
            self._held.append(request)
        return self._opaque

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is sent inside leaves in one write at the end: the broker reads many requests before it answers."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
        self.socket.sendall(b"".join(held))

    def receive(self, opaque: int, seconds: float = 20) -> Command:
        """The answer to a request; requests of the broker are kept in `pushed`."""
        deadline = time.monotonic() + seconds
        while True:
            for command in self._frames:
                if command.is_response and command.opaque == opaque:
                    self._frames.remove(command)
                    return command
            self._read(deadline)

    def next_push(self, code: int, seconds: float = 20) -> Command:
        """The next request of the broker with this code."""
        deadline = time.monotonic() + seconds
        while True:
            for command in self.pushed:
                if command.code == code:
                    self.pushed.remove(command)
                    return command
            self._read(deadline)

    def call(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> Command:
        """Send a request and wait for its answer."""
        return self.receive(self.send(code, ext, body))

    def ok(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> Command:
        """Like `call`, and the answer must be success."""
        answer = self.call(code, ext, body)
        assert answer.code == 0, f"code {answer.code}: {answer.remark}"
        return answer

    def answer(self, request: Command, code: int = 0, body: bytes = b"") -> None:
        """Answer a request of the broker."""
        self.socket.sendall(request.response(code, body=body).encode())

    # What most tests need

    def topic(self, queues: int = 1, message_type: str = "NORMAL", name: str = "") -> str:
        """Create a topic; without a message type when that is empty."""
        name = name or fresh()
        attributes = f"+message.type={message_type}" if message_type else ""
        ext = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "order": "false", "attributes": attributes,
        }  # fmt: skip
        self.ok(17, ext)
        return name

    def group(self, name: str = "", **config: Any) -> str:
        """Create a consumer group."""
        name = name or fresh("GID")
        self.ok(200, body=json.dumps({"groupName": name} | config).encode())
        return name

    def publish(self, topic: str, body: bytes = b"hello", text: str = "", **fields: Any) -> Command:
        """Send one message; `text` is its property string, `fields` replace header fields a to n."""
        return self.receive(self.start_publish(topic, body, text, **fields))

    def start_publish(self, topic: str, body: bytes = b"hello", text: str = "", **fields: Any) -> int:
        """Send one message and return the opaque of its answer."""
        ext = {
            "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
            "i": text or properties(UNIQ_KEY=fresh("ID")), "j": "0", "k": "false", "m": "false",
        } | fields  # fmt: skip
        return self.send(310, ext, body)

    def pull(self, group: str, topic: str, offset: int = 0, /, **fields: Any) -> Command:
        """Pull once; a subscription to everything unless `fields` say otherwise."""
        return self.receive(self.start_pull(group, topic, offset, **fields))

    def start_pull(self, group: str, topic: str, offset: int = 0, /, **fields: Any) -> int:
        """Send a pull and return its opaque."""
        ext = {
            "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
            "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
        } | fields  # fmt: skip
        return self.send(11, ext)

    def messages(self, group: str, topic: str, offset: int = 0, count: int = 1, seconds: float = 20) -> Any:
        """At least `count` messages of a queue from `offset` on, waited for."""

        def enough() -> list[StoredMessage]:
            answer = self.pull(group, topic, offset)
            found = decode_stored(answer.body) if answer.code == 0 else []
            return found if len(found) >= count else []

        return eventually(enough, seconds)

    def heartbeat(self, client_id: str, group: str = "", topic: str = "", tags: str = "*", **more: Any) -> Command:
        """Say what this client is; `producer` names a producer group, `kind` the type of the filter."""
        consumers = [
            {
                "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
                "subscriptionDataSet": [
                    {"topic": topic, "subString": tags, "subVersion": time.time_ns() // 1000000, "tagsSet": [],
                     "codeSet": [], "expressionType": more.get("kind", "TAG"), "classFilterMode": False}
                ],
            }
        ] if group else []  # fmt: skip
        producers = [{"groupName": more["producer"]}] if "producer" in more else []
        body = {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": producers}
        return self.ok(34, body=json.dumps(body).encode())

    def _read(self, deadline: float) -> None:
        self.socket.settimeout(max(0.01, deadline - time.monotonic()))
        data = self.socket.recv(1 << 20)
        assert data, "the broker closed the connection"
        for frame in self._reader.feed(data):
            command = decode(frame)
            (self._frames if command.is_response else self.pushed).append(command)


def system(broker: BrokerProcess) -> Wire:
    """A connection with the system key."""
    return Wire(broker.address)
