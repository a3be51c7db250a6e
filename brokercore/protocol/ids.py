"""Identifiers on the wire: of messages, receipts of popped ones, handles to take scheduled ones back."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import itertools
import os
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from brokercore.protocol.errors import MessageFormatError

_PORT_AND_OFFSET = struct.Struct(">iq")
_ANY_IPV4 = bytes(4)

_VERSION = "v1"


@lru_cache(maxsize=4096)
def pack_address(host: str) -> bytes:
    """IP bytes of a host: 4, or 16 for IPv6. Anything that is no IP address becomes 0.0.0.0."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _ANY_IPV4


@lru_cache(maxsize=4096)
def pack_host(host: str, port: int) -> bytes:
    """The 8 bytes of a bornHost or storeHost. IPv6 becomes 0.0.0.0, since ons-client misreads IPv6 hosts."""
    address = pack_address(host)
    return (address if len(address) == 4 else _ANY_IPV4) + port.to_bytes(4, "big")


@lru_cache(maxsize=4096)
def unpack_host(data: bytes) -> tuple[str, int]:
    """Host and port of 8 (IPv4) or 20 (IPv6) bytes."""
    return str(ipaddress.ip_address(data[:-4])), int.from_bytes(data[-4:], "big")


def offset_message_id(host: str, port: int, physical_offset: int) -> str:
    """The id of the message at `physical_offset` of the broker at host:port (32 or, for IPv6, 56 hex digits)."""
    return (pack_address(host) + _PORT_AND_OFFSET.pack(port, physical_offset)).hex().upper()


def parse_offset_message_id(message_id: str) -> tuple[str, int, int]:
    """Host, port and physical offset in an offset id. Raises MessageFormatError."""
    if len(message_id) not in {32, 56}:
        raise MessageFormatError(f"an offset message id has 32 or 56 hex digits, not {len(message_id)}")
    try:
        data = bytes.fromhex(message_id)
    except ValueError:
        raise MessageFormatError("an offset message id consists of hex digits") from None
    if len(data) * 2 != len(message_id):
        raise MessageFormatError("an offset message id consists of hex digits")
    port, physical_offset = _PORT_AND_OFFSET.unpack(data[-12:])
    if not 0 < port < 65536 or physical_offset < 0:
        raise MessageFormatError(f"{message_id} holds no port and offset")
    return str(ipaddress.ip_address(data[:-12])), port, physical_offset


@lru_cache(maxsize=16384)
def java_string_hash(text: str) -> int:
    """Java's String.hashCode: the tag code of filters, and the queue choice by sharding key."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


class UniqueIds:
    """Makes unique ids: 32 upper-case hex digits in the layout of Java's MessageClientIDSetter.

    4 random bytes in place of the address, 2 of the pid, 4 random in place of the class loader, 4 with the
    milliseconds since the first of the month (local time; tools read the time back), 2 counting up.
    Safe in threads and after a fork.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = -1
        self._prefix = ""
        self._counter = itertools.count()
        #: Of the month that it is, in local time, epoch s.
        self._month = (0.0, 0.0)

    def next(self) -> str:
        """A new id."""
        return f"{self._now()}{next(self._counter) & 0xFFFF:04X}"

    def some(self, count: int) -> list[str]:
        """So many new ids."""
        now, counter = self._now(), self._counter
        return [f"{now}{next(counter) & 0xFFFF:04X}" for _ in range(count)]

    def _now(self) -> str:
        now = time.time()
        begin, end = self._month
        if self._pid != os.getpid() or not begin <= now < end:
            begin = self._start(now)
        return f"{self._prefix}{int((now - begin) * 1000) & 0xFFFFFFFF:08X}"

    def _start(self, now: float) -> float:
        """Begin a month, or a process; returns when the month began."""
        local = time.localtime(now)
        begin, end = (
            time.mktime((local.tm_year, month, 1, 0, 0, 0, 0, 0, -1)) for month in (local.tm_mon, local.tm_mon + 1)
        )
        with self._lock:
            pid = os.getpid()
            if self._pid != pid:
                self._prefix = f"{os.urandom(4).hex()}{pid & 0xFFFF:04x}{os.urandom(4).hex()}".upper()
                self._counter = itertools.count()
            self._pid, self._month = pid, (begin, end)
        return begin


_unique_ids = UniqueIds()


def new_unique_id() -> str:
    """A unique message id of this process."""
    return _unique_ids.next()


def new_unique_ids(count: int) -> list[str]:
    """So many unique message ids of this process."""
    return _unique_ids.some(count)


class Receipt(NamedTuple):
    """The receipt handle of a popped message: what acknowledges it, or makes it invisible for longer. Times are ms.

    As text it is `startOffset popTime invisibleTime reviveQueue retry broker queueId offset`, separated by single
    blanks: the form that clients take apart (Java's ExtraInfoUtil).
    """

    start_offset: int
    popped_ms: int
    invisible_ms: int
    broker_name: str
    queue_id: int
    offset: int

    def __str__(self) -> str:
        before = f"{self.start_offset} {self.popped_ms} {self.invisible_ms} 0 0"
        return f"{before} {self.broker_name} {self.queue_id} {self.offset}"

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """Read a handle. Raises MessageFormatError."""
        parts = text.split(" ")
        try:
            start, popped, invisible, _revive, _retry, broker, queue_id, offset = parts
            return cls(int(start), int(popped), int(invisible), broker, int(queue_id), int(offset))
        except ValueError:
            raise MessageFormatError(f"the receipt handle {text[:100]!r} is not one of this broker") from None


# The offset lists of a POP answer, which ExtraInfoUtil reads as well.


def start_offsets(first: Mapping[int, int]) -> str:
    """`0 queueId offset` for the first offset of each queue, joined by `;`."""
    return ";".join(f"0 {queue_id} {offset}" for queue_id, offset in first.items())


def message_offsets(offsets: Mapping[int, Sequence[int]]) -> str:
    """`0 queueId offset,offset,…` for each queue, joined by `;`."""
    return ";".join(f"0 {queue_id} {_joined(found)}" for queue_id, found in offsets.items())


def _joined(offsets: Iterable[int]) -> str:
    return ",".join(map(str, offsets))


class RecallHandle(NamedTuple):
    """What a producer shows to take a scheduled message back before its time (RECALL_MESSAGE).

    `deliver_ms` is that time as the broker keeps it (epoch ms). As text it is `v1 topic broker deliverMs uniqueId`,
    separated by single blanks, in URL-safe Base64 (rocketmq-common's RecallMessageHandle): clients pass it on unread, a
    proxy takes broker and topic out of it.
    """

    topic: str
    broker_name: str
    deliver_ms: int
    unique_id: str

    def __str__(self) -> str:
        words = " ".join((_VERSION, self.topic, self.broker_name, str(self.deliver_ms), self.unique_id))
        return base64.urlsafe_b64encode(words.encode()).decode()

    @classmethod
    def parse(cls, text: str) -> RecallHandle:
        """Read a handle, with or without its padding. Raises MessageFormatError."""
        try:
            words = base64.b64decode((text + "=" * (-len(text) % 4)).encode(), b"-_", validate=True).decode()
            version, topic, broker_name, deliver_ms, unique_id = words.split(" ")
            if version != _VERSION or not deliver_ms.isascii() or not deliver_ms.isdecimal() or len(deliver_ms) > 18:
                raise ValueError(version)
        except (ValueError, binascii.Error):  # UnicodeDecodeError is a ValueError
            raise MessageFormatError(f"the recall handle {text[:100]!r} is not one of a broker") from None
        return cls(topic, broker_name, int(deliver_ms), unique_id)
