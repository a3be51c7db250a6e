"""A stored message as pages and the management API show it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from django.utils.translation import gettext as _

from brokercore.client import Admin, MessageQueue, StoredMessage
from brokercore.names import PARKING_TOPICS
from console.instances.models import Instance
from console.topics.names import shown_name
from console.web.text import CONTROLS, visible

Mode = Literal["text", "json", "hex"]
MODES: tuple[Mode, ...] = ("text", "json", "hex")

SHOWN_BYTES = 64 * 1024
"""Body bytes shown as text; more is a download."""
SHOWN_HEX_BYTES = 8 * 1024
JSON_BYTES = 1024 * 1024
"""Larger bodies are not parsed to see whether they are JSON."""

# Invisible characters that change how their neighbours are read (right-to-left overrides and the like).
_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')

_SHARDING_KEY = "__SHARDINGKEY"
_DELIVER_TIMES = ("__STARTDELIVERTIME", "TIMER_DELIVER_MS")
_REAL_TOPIC = "REAL_TOPIC"
_RETRY_TOPIC = "RETRY_TOPIC"

LARGEST_BODY = 8 << 20
"""Bytes that one body may unpack to; a client compresses what had 4 MiB at most."""

MOST_UNPACKED = 64 << 20
"""Bytes that all bodies of one page may unpack to: each may be a bomb."""


@dataclass(frozen=True)
class BodyView:
    """One way to show a body. `shown` of `size` bytes are in `content`."""

    mode: Mode
    content: str
    size: int
    shown: int
    modes: tuple[Mode, ...]

    @property
    def cut(self) -> bool:
        """True when only the beginning is shown."""
        return self.shown < self.size


def view(body: bytes, mode: str = "") -> BodyView:
    """Show `body` in `mode`, or in the one that suits it: JSON, else text, else hex.

    A mode that does not fit the bytes (text of a picture) falls back to the one that does.
    """
    text = _text(body)
    indented = _indented(text) if text is not None and len(body) <= JSON_BYTES else None
    modes = tuple(m for m in MODES if m == "hex" or (m == "text" and text is not None) or (m == "json" and indented))
    chosen: Mode = next((m for m in modes if m == mode), "json" if indented else modes[0])
    if chosen == "hex":
        return BodyView("hex", hex_dump(body[:SHOWN_HEX_BYTES]), len(body), min(len(body), SHOWN_HEX_BYTES), modes)
    if chosen == "json" and indented is not None:
        whole = len(indented) <= 2 * SHOWN_BYTES
        return BodyView(
            "json", visible(indented[: 2 * SHOWN_BYTES]), len(body), len(body) if whole else SHOWN_BYTES, modes
        )
    start = body[:SHOWN_BYTES].decode("utf-8", "ignore")
    return BodyView("text", visible(start), len(body), min(len(body), SHOWN_BYTES), modes)


def preview(body: bytes, length: int = 120) -> str:
    """The beginning of a body on one line, for lists."""
    text = _text(body[: length * 4], cut=True)
    if text is None:
        return body[: length // 3].hex(" ")
    line = " ".join(visible(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def hex_dump(data: bytes) -> str:
    """Lines of 16 bytes: offset, hex digits, ASCII."""
    rows = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        readable = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        rows.append(f"{start:08x}  {digits:<48}  {readable}")
    return "\n".join(rows)


def _text(body: bytes, *, cut: bool = False) -> str | None:
    """The body as UTF-8 text, or None when it is binary. A single NUL is still text, many controls are not."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(body) - 3:
            return None
        text = body[: error.start].decode("utf-8")
    controls = sum(ord(c) in CONTROLS for c in text[:SHOWN_BYTES])
    return text if controls * 10 <= min(len(text), SHOWN_BYTES) else None


def _indented(text: str) -> str | None:
    """JSON objects and arrays with line breaks and indents; None for anything else.

    Only white space changes: parsing and printing again would round long numbers and drop repeated keys.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = 0
    previous = ""
    for part in _JSON_TOKEN.findall(text):
        if part in ("}", "]"):
            depth -= 1
            parts.append("" if previous in ("{", "[") else "\n" + "  " * depth)
        elif previous in ("{", "[", ","):
            parts.append("\n" + "  " * depth)
        parts.append(": " if part == ":" else part)
        depth += part in ("{", "[")
        previous = part
    return "".join(parts)


@dataclass(frozen=True)
class Position:
    """The exact place of a message: `broker-a:3:17` is offset 17 of queue 3 on broker-a."""

    broker_name: str
    queue_id: int
    offset: int

    def __str__(self) -> str:
        return f"{self.broker_name}:{self.queue_id}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """The position that `text` names; None when it names none."""
        broker_name, _, rest = text.rpartition(":")[0].rpartition(":")
        offset = text.rpartition(":")[2]
        if not (broker_name and rest.isdecimal() and offset.isdecimal()) or len(text) > 200:
            return None
        return cls(broker_name, int(rest), int(offset))


@dataclass(frozen=True)
class MessageRecord:
    """Everything known of one stored message. Times are epoch milliseconds, `topic` is without namespace."""

    message_id: str
    offset_message_id: str
    topic: str
    physical_topic: str
    position: Position
    tag: str
    keys: tuple[str, ...]
    sharding_key: str
    born_at_ms: int
    stored_at_ms: int
    deliver_at_ms: int | None
    born_host: str
    store_host: str
    stored_size: int
    body_crc: int
    reconsume_times: int
    properties: dict[str, str]
    body: bytes = field(repr=False)
    body_problem: str = ""
    waits: bool = False

    @property
    def original_topic(self) -> str:
        """The topic it was published to: for a retried or dead letter that is not where it lies now."""
        return self.properties.get(_RETRY_TOPIC) or self.properties.get(_REAL_TOPIC) or self.physical_topic


class Recorder:
    """Turns messages of one instance into records; knows which broker has which address."""

    def __init__(self, admin: Admin, instance: Instance) -> None:
        self._admin = admin
        self._instance = instance
        self._brokers: dict[str, str] | None = None
        self._room = MOST_UNPACKED

    def record(self, message: StoredMessage, queue: MessageQueue | None = None) -> MessageRecord:
        """The record of `message`, which came from `queue` or from a look-up by id or key."""
        body, problem = _unpacked(message, min(LARGEST_BODY, self._room))
        self._room = max(0, self._room - len(body))
        parked = message.topic in PARKING_TOPICS
        topic = message.properties.get(_REAL_TOPIC, message.topic) if parked else message.topic
        return MessageRecord(
            message_id=message.unique_id or message.offset_message_id,
            offset_message_id=message.offset_message_id,
            topic=shown_name(self._instance, topic),
            physical_topic=topic,
            position=Position(
                queue.broker_name if queue else self._broker_at(message.store_host),
                message.queue_id,
                message.queue_offset,
            ),
            tag=message.tags,
            keys=tuple(message.keys.split()),
            sharding_key=message.properties.get(_SHARDING_KEY, ""),
            born_at_ms=message.born_timestamp,
            stored_at_ms=message.store_timestamp,
            deliver_at_ms=_deliver_at(message),
            born_host=_address(message.born_host),
            store_host=_address(message.store_host),
            stored_size=message.total_size,
            body_crc=message.body_crc,
            reconsume_times=message.reconsume_times,
            properties=message.properties,
            body=body,
            body_problem=problem,
            waits=parked,
        )

    def records(self, found: Iterable[StoredMessage]) -> list[MessageRecord]:
        """Records of messages found by id or key."""
        return [self.record(message) for message in found]

    def _broker_at(self, address: tuple[str, int]) -> str:
        if self._brokers is None:
            self._brokers = {shown: name for name, shown in self._admin.brokers.cluster().brokers.items()}
        return self._brokers.get(_address(address), "")


def belongs_to(message: StoredMessage, physical_topic: str) -> bool:
    """True when the message is one of this topic, be it delivered or still waiting for its time."""
    if message.topic in PARKING_TOPICS:
        return message.properties.get(_REAL_TOPIC) == physical_topic
    return message.topic == physical_topic


def _unpacked(message: StoredMessage, limit: int) -> tuple[bytes, str]:
    try:
        return message.decoded_body(limit), ""
    except ValueError as error:
        return message.body, _("The body is compressed and cannot be unpacked: %(error)s. It is shown as stored.") % {
            "error": error
        }


def _deliver_at(message: StoredMessage) -> int | None:
    """The wanted delivery time, when the producer set one."""
    for name in _DELIVER_TIMES:
        value = message.properties.get(name, "")
        if value.isdecimal() and 0 < int(value) < 1 << 53:
            return int(value)
    return None


def _address(host: tuple[str, int]) -> str:
    return f"{host[0]}:{host[1]}"
