"""What a compatibility test meets: a broker with permissions on, one tenant's instance, its keys, the Java programs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from brokercore.client import Admin
from tests.compat.programs import Event, Keys, Program, Toolbox

INSTANCE = "MQ_INST_1234567890123456_COMPAT01"
OTHER_INSTANCE = "MQ_INST_6543210987654321_COMPAT02"


@dataclass
class World:
    """One running broker and the cast: the tenant's keys, a key that may only read, a key of another tenant."""

    tools: Toolbox
    admin: Admin
    system: Keys
    tenant: Keys
    read_only: Keys
    stranger: Keys
    embedded: bool
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def physical(self, name: str) -> str:
        """The name on the wire of a topic or group of the tenant's instance."""
        return f"{INSTANCE}%{name}"

    def topic(self, hint: str, *, message_type: str = "NORMAL", queues: int = 4) -> str:
        """Create a topic of the tenant's instance and return its name as its users write it."""
        name = f"{hint}-{next(self._numbers)}"
        self.admin.topics.create(self.physical(name), queues=queues, message_type=message_type)
        return name

    def group(self, hint: str) -> str:
        """Create a group of the tenant's instance and return its name as its users write it."""
        name = f"GID_{hint}_{next(self._numbers)}"
        self.admin.groups.create(self.physical(name))
        if not self.embedded:  # Apache RocketMQ makes it when a consumer comes, who then sees it up to 30 s later
            self.admin.topics.create(f"%RETRY%{self.physical(name)}", queues=1)
        return name

    def deliveries(self, bodies: list[str]) -> list[str]:
        """Sorted bodies. Apache RocketMQ may deliver twice what it asked about: each counts once there."""
        return sorted(bodies if self.embedded else set(bodies))

    def start(self, program: str, topic: str, group: str, keys: Keys | None = None, **options: Any) -> Program:
        """Start a Java program with the tenant's keys, or with `keys`."""
        return self.tools.start(program, keys or self.tenant, topic=topic, group=group, **options)

    def run(self, program: str, topic: str, group: str, keys: Keys | None = None, **options: Any) -> list[Event]:
        """Run a Java program that ends by itself and return its events."""
        return self.tools.run(program, keys or self.tenant, topic=topic, group=group, **options)

    def message_count(self, topic: str) -> int:
        """How many messages the queues of a topic have ever held."""
        stats = self.admin.topics.stats(self.physical(topic))
        return sum(queue.max_offset for queue in stats.values())

    def committed(self, topic: str, group: str) -> int:
        """How many messages of a topic the group has committed."""
        stats = self.admin.groups.stats(self.physical(group), self.physical(topic))
        return sum(queue.consumer_offset for queue in stats.queues.values())


def failures(events: list[Event]) -> list[str]:
    """The error texts among the events."""
    return [e["error"] for e in events if e["event"] == "failed"]


def sent(events: list[Event]) -> list[Event]:
    """The messages that the program reported as sent."""
    return [e for e in events if e["event"] == "sent"]
