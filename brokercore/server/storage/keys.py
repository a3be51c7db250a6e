"""Names of all Redis keys of one broker but for those of the table of rights (policy/table.py).

See docs/operate/storage.md.
"""

from __future__ import annotations

BROKERS = "gantry:brokers"
BROKER_BEATS = "gantry:brokers:beats"
KEY_VALUES = "gantry:kv"


class Keys:
    """The key space of the broker called `broker_name`; several brokers can share one Redis."""

    def __init__(self, broker_name: str) -> None:
        self._prefix = prefix = f"gantry:{broker_name}:"
        self.topics = prefix + "topics"
        self.groups = prefix + "groups"
        self.queues = prefix + "queues"
        self.last_queue = prefix + "queues:last"
        self.offsets = prefix + "offsets"
        self.resets = prefix + "resets"
        self.pop_next = prefix + "pop:next"
        self.pop_flights = prefix + "pop:flights"
        self.pop_modes = prefix + "pop:modes"
        self.forbidden = prefix + "forbidden"
        self.traces = prefix + "traces"
        self.deleted = prefix + "deleted"
        self.index_hours = prefix + "index"
        self.timers = prefix + "timers"
        self.half = prefix + "half"
        self.half_checks = prefix + "half:checks"
        self.half_senders = prefix + "half:senders"
        self.writer = prefix + "writer"
        self.layout = prefix + "layout"
        self.old_key_values = prefix + "kv"
        self.counters = prefix + "counters"

    def half_of(self, account: str) -> str:
        """The half messages that wait of an account; of those that none sent, with the system key, for ""."""
        return f"{self.half}:of:{account}" if account else self.half

    def stream(self, number: int) -> str:
        """The stream of the queue with this number."""
        return f"{self._prefix}q:{number}"

    def index(self, part: str, topic: str) -> str:
        """The key index of a topic for (a part of) one hour."""
        return f"{self._prefix}index:{part}:{topic}"
