"""Topics that a broker keeps for a group, and how names on the wire are shown."""

from __future__ import annotations

from console.instances.models import Instance
from console.topics.models import Group

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
PARKING_TOPICS = frozenset({"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"})
"""Where a broker keeps delayed messages until they are due; REAL_TOPIC then names the topic."""
_VERSION_4_0_0 = 213


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


def release(version: int) -> str:
    """The release behind a version ordinal (MQVersion), two a patch level since 4.0.0: 479 is 5.3.3."""
    since_4 = version - _VERSION_4_0_0
    if since_4 < -1:
        return f"version {version}"
    patches = (since_4 + 1) // 2
    snapshot = "-SNAPSHOT" if since_4 % 2 else ""
    return f"{4 + patches // 100}.{patches // 10 % 10}.{patches % 10}{snapshot}"
