"""What a query over a batch of events has made, row by row, as the transform that it is.

A row whose query has a column `event` is that event. Any other row is the event that it was made of with other `data`:
its columns, but for those that are called like an attribute of an event, which are that attribute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analytics.inflow.delivery import text_of
from analytics.inflow.transform import TOPIC_FIELD, Event, Transformed, TransformFailed

#: Columns of a result that are attributes of its event, in small letters.
ATTRIBUTES = ("id", "source", "type", "subject", "time", TOPIC_FIELD)
WHO = "the query"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: JSON of the event itself or of the columns."""

    content: bytes
    is_event: bool
    topic: str | None = None


class Made:
    """A transform whose results are known. Events that are alike have the same results: a query sees one at a time."""

    def __init__(self, rows: Mapping[bytes, Sequence[Row]], failed: Mapping[bytes, str]) -> None:
        """By the text of the event (`text_of`) what was made of it, and why nothing was."""
        self._rows, self._failed = rows, failed

    def apply(self, events: Sequence[Event]) -> Transformed:
        """What a batch becomes. Raises TransformFailed."""
        done = Transformed()
        for place, event in enumerate(events):
            key = text_of(event)
            if reason := self._failed.get(key):
                done.failed[place] = reason
                continue
            try:
                for row in self._rows.get(key, ()):
                    done.add(_content(event, row), place, WHO)
            except TransformFailed as failed:
                if failed.index is None:
                    raise
                done.failed[place] = failed.user_message
        if done.failed:
            kept = [number for number, origin in enumerate(done.origins) if origin not in done.failed]
            done.events = [done.events[number] for number in kept]
            done.origins = [done.origins[number] for number in kept]
        return done

    def close(self) -> None:
        """There is nothing to end."""


def _content(event: Event, row: Row) -> bytes:
    """The event that a row is, as JSON."""
    if row.is_event and row.topic is None:
        return row.content
    try:
        columns = json.loads(row.content)
    except ValueError:
        return row.content  # told by who takes it over
    if row.is_event:
        return text_of(columns | {TOPIC_FIELD: row.topic}) if isinstance(columns, dict) else row.content
    attributes = {name.lower(): value for name, value in columns.items() if name.lower() in ATTRIBUTES}
    data = {name: value for name, value in columns.items() if name.lower() not in ATTRIBUTES}
    made = {name: value for name, value in (event | attributes).items() if name not in attributes or value is not None}
    return text_of(made | {"data": data})
