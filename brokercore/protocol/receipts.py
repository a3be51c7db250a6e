"""Receipt handles of POP consumption, and the offset lists of a POP answer.

A handle is `startOffset popTime invisibleTime reviveQueue retry broker queueId offset`, separated by single blanks: the
form that clients take apart (rocketmq-client's ExtraInfoUtil).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from brokercore.protocol.errors import MessageFormatError


class Receipt(NamedTuple):
    """One delivery of one message: what acknowledges it, or makes it invisible for longer. Times are ms."""

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


def start_offsets(first: Mapping[int, int]) -> str:
    """`0 queueId offset` for the first offset of each queue, joined by `;`."""
    return ";".join(f"0 {queue_id} {offset}" for queue_id, offset in first.items())


def message_offsets(offsets: Mapping[int, Sequence[int]]) -> str:
    """`0 queueId offset,offset,…` for each queue, joined by `;`."""
    return ";".join(f"0 {queue_id} {_joined(found)}" for queue_id, found in offsets.items())


def _joined(offsets: Iterable[int]) -> str:
    return ",".join(map(str, offsets))
