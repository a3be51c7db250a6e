"""Topics that a broker keeps for a group, and how names on the wire are shown."""

from __future__ import annotations

from console.instances.models import Instance
from console.topics.models import Group

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
PARKING_TOPICS = frozenset({"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"})
"""Where a broker keeps delayed messages until they are due; REAL_TOPIC then names the topic."""


def retry_topic(group: Group) -> str:
    """The physical topic that only `group` consumes: failed messages come back through it."""
    return RETRY_PREFIX + group.physical_name


def dead_letter_topic(group: Group) -> str:
    """The physical topic of the group's dead letters."""
    return DEAD_LETTER_PREFIX + group.physical_name


def shown_name(instance: Instance, physical: str) -> str:
    """A topic or group as its tenant knows it: without the namespace; `%RETRY%` and `%DLQ%` stay."""
    namespace = f"{instance.instance_id}%"
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX, ""):
        if physical.startswith(prefix + namespace):
            return prefix + physical[len(prefix + namespace) :]
    return physical
