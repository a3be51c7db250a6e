"""Message ids: the unique id a producer makes, and the offset id that names a place on a broker."""

from __future__ import annotations

import ipaddress
import itertools
import os
import struct
import threading
import time
from functools import lru_cache

from brokercore.protocol.errors import MessageFormatError

_PORT_AND_OFFSET = struct.Struct(">iq")
_ANY_IPV4 = bytes(4)


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
        self._month_start_ms = 0
        self._month = (0, 0)

    def next(self) -> str:
        """A new id."""
        now = time.time()
        local = time.localtime(now)
        if self._pid != os.getpid() or self._month != (local.tm_year, local.tm_mon):
            self._start(local.tm_year, local.tm_mon)
        elapsed = (int(now * 1000) - self._month_start_ms) & 0xFFFFFFFF
        return f"{self._prefix}{elapsed:08X}{next(self._counter) & 0xFFFF:04X}"

    def _start(self, year: int, month: int) -> None:
        with self._lock:
            pid = os.getpid()
            if self._pid != pid:
                self._prefix = f"{os.urandom(4).hex()}{pid & 0xFFFF:04x}{os.urandom(4).hex()}".upper()
                self._counter = itertools.count()
            start = time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))
            self._month_start_ms = int(start * 1000)
            self._pid, self._month = pid, (year, month)


_unique_ids = UniqueIds()


def new_unique_id() -> str:
    """A unique message id of this process."""
    return _unique_ids.next()
