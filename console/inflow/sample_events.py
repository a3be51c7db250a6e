"""Sample events as pages and requests take and show them: how many, how large, as JSON."""

from __future__ import annotations

import json

from analytics.inflow.transform import Event

RECENT, RECENT_BYTES = 10, 1 << 20
"""So many of the last events of a source are shown, and bytes of them together."""
LONGEST_SAMPLE = 256 * 1024
"""Of a sample that is typed or sent, characters."""
_LONGEST_SHOWN = 16 * 1024


def shown(event: Event) -> str:
    """An event as pages show it."""
    return json.dumps(event, indent=2, ensure_ascii=False)[:_LONGEST_SHOWN]


def event_of(text: bytes) -> Event | None:
    """The event that a text is; None for what is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
