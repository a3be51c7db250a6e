"""The binary log of a server as a stream of packets, over a connection of its own.

It never connects again by itself: where it went on would be a guess. Whoever reads opens a new one at a position that
is known.
"""

from __future__ import annotations

import secrets
import struct
import time
from uuid import uuid4

import pymysql

from analytics.inflow.changes import CaptureFailed
from analytics.inflow.mysql_position import Position
from analytics.inflow.mysql_server import Address, connect, failure, translated

_COM_BINLOG_DUMP, _COM_BINLOG_DUMP_GTID = 0x12, 0x1E
_THROUGH_GTID = 4
_START_OF_FILE = 4
_HEARTBEAT_SECONDS = 5
#: An idle server sends a heartbeat; one that sends nothing for so long is gone, whatever TCP thinks.
SILENCE_SECONDS = 30
#: How long the server holds on to a reader that takes nothing, since its consumer is slow.
_PATIENCE_SECONDS = 3600
_RECEIVE_BYTES = 1 << 18
_LONGEST = 0xFFFFFF
"""Bytes of a packet that goes on in the next."""


def new_server_id() -> int:
    """A number that no other reader has: a server drops the older of two with the same."""
    return secrets.randbelow(2**31 - 2) + 2**31


class LogStream:
    """Packets from `position` on. Raises CaptureFailed."""

    def __init__(self, address: Address, position: Position, *, is_mariadb: bool) -> None:
        self._address = address
        self._buffer = bytearray()
        self._at = 0
        self._silent = 0.0
        self._connection = connect(address)
        with translated(address):
            try:
                self._prepare(position, is_mariadb=is_mariadb)
                self._command(_dump(position, is_mariadb=is_mariadb))
            except BaseException:
                self.close()
                raise
        # The driver has read all that was sent before; from here on its socket is read directly.
        self._socket = self._connection._sock

    def close(self) -> None:
        """End the connection."""
        # Not `close()`, which would send a farewell that a server which only dumps does not read.
        self._connection._force_close()

    def packet(self, wait_s: float) -> bytes | None:
        """The next event's bytes; None when none has come within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        whole = self._part(deadline)
        if whole is None:
            return None
        while len(whole) >= _LONGEST and len(whole) % _LONGEST == 0:
            rest = self._part(time.monotonic() + SILENCE_SECONDS)
            if rest is None:
                raise self._away("it stopped in the middle of an event")
            whole += rest
            if len(rest) < _LONGEST:
                break
        if whole[0] == 0:
            return bytes(memoryview(whole)[1:])
        if whole[0] == 0xFF:
            number, text = int.from_bytes(whole[1:3], "little"), whole[3:].decode("utf-8", "replace")
            raise failure(pymysql.OperationalError(number, text[6:] if text.startswith("#") else text), self._address)
        raise self._away("it ended the stream")

    def _prepare(self, position: Position, *, is_mariadb: bool) -> None:
        nanoseconds = _HEARTBEAT_SECONDS * 10**9
        names = ("master", "source")  # MySQL calls it by the second since 8.0.26
        settings = [f"@{name}_binlog_checksum = @@global.binlog_checksum" for name in names]
        settings += [f"@{name}_heartbeat_period = {nanoseconds}" for name in names]
        settings += [f"net_write_timeout = {_PATIENCE_SECONDS}"]
        if is_mariadb:
            # 4: this reader knows GTID events, which are else replaced by others of wrong length.
            settings += ["@mariadb_slave_capability = 4"]
            if position.gtids:
                settings += [f"@slave_connect_state = '{position.gtids}'", "@slave_gtid_strict_mode = 1"]
        else:
            settings += [f"@{name}_uuid = '{uuid4()}'" for name in ("slave", "replica")]
        with self._connection.cursor() as cursor:
            cursor.execute(f"SET {', '.join(settings)}")

    def _command(self, payload: bytes) -> None:
        if len(payload) >= _LONGEST:
            raise CaptureFailed("The position has too many GTIDs to be sent.", "LOG_UNREADABLE")
        self._connection._write_bytes(len(payload).to_bytes(3, "little") + b"\0" + payload)

    def _part(self, deadline: float) -> bytearray | None:
        if not self._fill(4, deadline):
            return None
        length = int.from_bytes(self._buffer[self._at : self._at + 3], "little")
        # A packet that has begun comes whole; only one that does not is an error.
        if not self._fill(4 + length, max(deadline, time.monotonic() + SILENCE_SECONDS)):
            raise self._away("it stopped in the middle of an event")
        start = self._at + 4
        self._at = start + length
        return self._buffer[start : self._at]

    def _fill(self, count: int, deadline: float) -> bool:
        """Whether `count` bytes are there before the deadline."""
        while len(self._buffer) - self._at < count:
            if self._at:
                del self._buffer[: self._at]
                self._at = 0
            began = time.monotonic()
            try:
                self._socket.settimeout(max(0.0005, deadline - began))
                received = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                self._silent += time.monotonic() - began
                if self._silent > SILENCE_SECONDS:
                    raise self._away(f"it sent nothing for {SILENCE_SECONDS} seconds") from None
                return False
            except OSError as error:
                raise self._away(str(error)) from error
            if not received:
                raise self._away("it closed the connection")
            self._silent = 0.0
            self._buffer += received
        return True

    def _away(self, why: str) -> CaptureFailed:
        return CaptureFailed(f"{self._address} does not send its binary log any more: {why}.", "UNREACHABLE")


def _dump(position: Position, *, is_mariadb: bool) -> bytes:
    number = new_server_id()
    if position.gtids and is_mariadb:  # the position is in @slave_connect_state
        return struct.pack("<BIHI", _COM_BINLOG_DUMP, _START_OF_FILE, 0, number)
    if position.gtids:
        done = position.gtids.packed()
        head = struct.pack("<BHIIQ", _COM_BINLOG_DUMP_GTID, _THROUGH_GTID, number, 0, _START_OF_FILE)
        return head + struct.pack("<I", len(done)) + done
    return struct.pack("<BIHI", _COM_BINLOG_DUMP, position.offset, 0, number) + position.file.encode()
