"""Stretches of an event log: what the source of an inflow task hands to its sink in place of the events between.

Both are processes of their own on the same files. Events that go from the one to the other are packed and unpacked four
times on their way through Spark, which costs more than to read them; a stretch is one row, and the sink reads it. Where
Spark itself looks at the events, as for a transform by a query, they go as rows (`events_source`).

A row of a stretch is told from an event, which is JSON, by its first byte:

    0x00, number of events (8 bytes), JSON of the stretch
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analytics.inflow.event_reader import Ahead, Reader, Trimmed
from analytics.inflow.segments import Entry, LogDamaged
from analytics.pipelines.connector_errors import ConnectorFailed, ConnectorMisset

if TYPE_CHECKING:
    from pyspark.sql import Column

#: What is read at a time.
_AT_ONCE, _AT_ONCE_BYTES = 1000, 4 << 20
_MARK = b"\0"
_COUNT = struct.Struct(">Q")
_EVENTS = "if(startswith({0}, X'00'), cast(conv(hex(substr({0}, 2, 8)), 16, 10) as bigint), 1)"


class Stretch(NamedTuple):
    """The events behind `after` up to `until` of a log, a folder of this machine."""

    log: str
    after: int
    until: int
    #: Whether what was removed unread is left out; else it is a failure.
    skips: bool = False

    def to_row(self) -> bytes:
        """As it goes through Spark."""
        return _MARK + _COUNT.pack(self.until - self.after) + json.dumps(self).encode()

    def entries(self) -> Iterator[list[Entry]]:
        """All of them, so many at a time, or one that has more bytes. Raises ConnectorFailed, ConnectorMisset."""
        after = self.after
        with Reader(Path(self.log)) as reader:
            while after < self.until:
                try:
                    entries = reader.read(after, min(_AT_ONCE, self.until - after), _AT_ONCE_BYTES)
                except Trimmed as trimmed:
                    if not self.skips:
                        raise failure_of(trimmed) from trimmed
                    after = trimmed.first - 1
                    continue
                except (Ahead, LogDamaged, OSError) as error:
                    raise failure_of(error) from error
                if not entries:
                    raise failure_of(Ahead(after))
                after = entries[-1].sequence
                yield entries


def events_of(row: bytes) -> Iterator[bytes]:
    """The events that a row stands for: those of a stretch, or itself. Raises ConnectorFailed, ConnectorMisset."""
    if not row.startswith(_MARK):
        yield row
        return
    for entries in Stretch(*json.loads(row[len(_MARK) + _COUNT.size :])).entries():
        yield from (entry.event for entry in entries)


def number_of(column: str) -> Column:
    """How many events the rows of a column stand for, as Spark counts them."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.expr(f"sum({_EVENTS.format(column)})")


def failure_of(error: Exception) -> ConnectorFailed | ConnectorMisset:
    """What a pipeline ends with when its log cannot be read."""
    if isinstance(error, Trimmed):
        return ConnectorMisset(
            f"The task has not read all that it was to read: {error.user_message} Start it anew, from the event"
            f" {error.first} or a later one, and let the log keep its events for longer."
        )
    if isinstance(error, Ahead):
        return ConnectorMisset(f"{error.user_message} Start the task anew.")
    if isinstance(error, LogDamaged):
        return ConnectorFailed(error.user_message)
    return ConnectorFailed(f"The event log, or the state of the pipeline, cannot be used: {error}.")
