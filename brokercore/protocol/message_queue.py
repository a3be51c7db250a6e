"""A queue of a topic on one broker: the unit of ordering, offsets and load sharing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from brokercore.protocol.errors import LenientJsonError


class MessageQueue(NamedTuple):
    """Sorts as Java's MessageQueue does: by topic, broker, number. Every client of a group must sort alike."""

    topic: str
    broker_name: str
    queue_id: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, as it also stands as a key in object-keyed maps."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MessageQueue:
        """Read the JSON object; keys that other clients add are ignored. Raises LenientJsonError."""
        queue_id = data.get("queueId", 0)
        try:
            return cls(str(data.get("topic", "")), str(data.get("brokerName", "")), int(queue_id))
        except (TypeError, ValueError, OverflowError):
            raise LenientJsonError(f"queueId is not a whole number: {str(queue_id)[:40]!r}") from None
