"""Which topic an acknowledgement is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokercore.protocol.bodies.reading import text


def acknowledged_topic(ext: Mapping[str, str]) -> str:
    """The physical topic that an acknowledgement names.

    rocketmq-client takes the namespace off a popped message's topic and acknowledges without it, but not off the group:
    then the topic is of the group's instance.
    """
    topic, (instance, separator, _) = ext.get("topic") or "", (ext.get("consumerGroup") or "").partition("%")
    return f"{instance}%{topic}" if separator and topic and "%" not in topic else topic


def named_in(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Group and physical topic of one entry of a batch of acknowledgements."""
    group = text(entry, "c")
    return group, acknowledged_topic({"consumerGroup": group, "topic": text(entry, "t")})
