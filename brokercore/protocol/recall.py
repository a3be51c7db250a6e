"""Recall handles: what a producer shows to take a scheduled message back before its time (RECALL_MESSAGE).

A handle is `v1 topic broker deliverMs uniqueId`, separated by single blanks, in URL-safe Base64: clients pass it on
unread, a proxy takes broker and topic out of it (rocketmq-common's RecallMessageHandle).
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from brokercore.protocol.errors import MessageFormatError

_VERSION = "v1"


class RecallHandle(NamedTuple):
    """One scheduled message; `deliver_ms` is its time as the broker keeps it (epoch ms)."""

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
