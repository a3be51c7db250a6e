"""When a schedule is due: a cron expression of five fields, in a time zone, and the event that it sends.

Clocks that change are treated as Debian's cron treats them (cronsim): what is due at a fixed time of day comes once a
day, at the first moment behind a gap, and the first time of two in a repeated hour; what has a `*` in its minute or
hour follows the time that really passes.

    {"specversion": "1.0", "id": "<feed>:1768435200", "source": "schedule/<task>", "type": "schedule:Due",
     "time": "2026-01-15T00:00:00Z", "datacontenttype": "application/json", "data": {what the schedule was told}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from analytics.errors import AnalyticsError

#: Due times of so long ago are all sent when nobody was there to send them; of those before only the newest, and only
#: where there is none since.
CATCH_UP = timedelta(hours=1)
LONGEST_EVENT = 64 * 1024
"""Characters of the JSON of a schedule's event."""
_LONGEST_CRON, _FIELDS = 200, 5


class ScheduleError(AnalyticsError):
    """A schedule is wrong; `part` is `cron`, `timeZone` or `event`."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(reason)
        self.part = part


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression and the zone of its times. All moments have a zone; those that are returned are UTC."""

    cron: str
    zone: ZoneInfo

    @classmethod
    def read(cls, cron: str, zone: str = "UTC") -> Schedule:
        """Raises ScheduleError for an expression that is none, or is never due, and a zone that there is not."""
        if zone not in _zones():
            raise ScheduleError("timeZone", "it is the IANA name of a time zone, such as Asia/Shanghai or UTC")
        fields = cron.split()
        if len(cron) > _LONGEST_CRON or len(fields) != _FIELDS:
            raise ScheduleError("cron", "it has five fields: minute, hour, day of month, month, day of week")
        made = cls(" ".join(fields), ZoneInfo(zone))
        try:
            if not made.following(datetime.now(UTC), 1):
                raise ScheduleError("cron", "it is never due")
        except CronSimError as error:
            raise ScheduleError("cron", f"it is no cron expression: {str(error)[:1].lower()}{str(error)[1:]}") from None
        return made

    def after(self, moment: datetime) -> Iterator[datetime]:
        """All due times behind a moment, in order."""
        last = moment
        for found in CronSim(self.cron, moment.astimezone(self.zone)):
            due = found.astimezone(UTC)
            # In an hour that comes twice the library may look back to the first of the two.
            if due > last:
                last = due
                yield due

    def following(self, moment: datetime, count: int) -> list[datetime]:
        """The next due times behind a moment."""
        found: list[datetime] = []
        for due in self.after(moment):
            found.append(due)
            if len(found) == count:
                break
        return found

    def due(self, last: datetime, now: datetime) -> list[datetime]:
        """What is to be sent at `now` where `last` was sent last: see CATCH_UP."""
        span = CATCH_UP
        while True:
            begin = max(last, now - span)
            found = list(self._until(begin, now))
            if found or begin == last:
                return found if span == CATCH_UP else found[-1:]
            span *= 2

    def _until(self, begin: datetime, end: datetime) -> Iterator[datetime]:
        for due in self.after(begin):
            if due > end:
                return
            yield due


def read_event(event: Any) -> dict[str, Any]:
    """What a schedule sends. Raises ScheduleError."""
    if not isinstance(event, Mapping):
        raise ScheduleError("event", "it is a JSON object")
    try:
        size = len(json.dumps(event, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        raise ScheduleError("event", "it is a JSON object") from None
    if size > LONGEST_EVENT:
        raise ScheduleError("event", f"it has at most {LONGEST_EVENT >> 10} KiB")
    return dict(event)


def event_of(due: datetime, event: Mapping[str, Any], *, feed: str, task: str) -> dict[str, Any]:
    """The event of one due time: the same whoever makes it, however often."""
    return {
        "specversion": "1.0",
        "id": f"{feed}:{int(due.timestamp())}",
        "source": f"schedule/{task}",
        "type": "schedule:Due",
        "time": position_of(due),
        "datacontenttype": "application/json",
        "data": dict(event),
    }


def position_of(due: datetime) -> str:
    """A due time as the log has it."""
    return f"{due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def time_of(position: str) -> datetime:
    """What `position_of` made a text of. Raises ValueError."""
    return datetime.fromisoformat(position)


@lru_cache
def _zones() -> frozenset[str]:
    # What this machine calls its own zone is another one elsewhere.
    return frozenset(available_timezones() - {"localtime"})
