"""What a message is found by."""

from __future__ import annotations

from collections.abc import Mapping

from brokercore.protocol import properties as names

MOST_KEYS = 64
"""Keys of a message that it is found by; each takes some 80 bytes of the store, however short it is."""


def message_keys(properties: Mapping[str, str]) -> list[str]:
    """What QUERY_MESSAGE finds a message by: its unique id and its keys, at most MOST_KEYS of them."""
    unique_id, keys = properties.get(names.UNIQUE_KEY), properties.get(names.KEYS)
    found = [unique_id] if unique_id else []
    if keys:
        found += keys.split(None, MOST_KEYS)[:MOST_KEYS]
    return found
