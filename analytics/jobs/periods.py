"""The rules of time that the rollup and the reader of curves share. All times are UTC, in ms since 1970.

A sample belongs to the period in which it ends; one that ends exactly with a period belongs to it, not to the next.
"""

from datetime import UTC, date, datetime

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
#: Lengths of the periods that are kept, minutes.
PERIODS = (1, 5, 10)
#: A sample that covers more than this says how many messages came, but not when: it makes no curve, s.
LONGEST_SAMPLE_S = 90.0
#: A period is shown when samples cover at least this part of it; otherwise it is a gap.
LEAST_COVERED = 0.5


def start_of_period(ts_ms: int, minutes: int) -> int:
    """Start of the period to which a sample that ends at `ts_ms` belongs."""
    length = minutes * MINUTE_MS
    return (ts_ms - 1) // length * length


def day_of(ts_ms: int) -> date:
    """The UTC day to which a sample that ends at `ts_ms` belongs."""
    return datetime.fromtimestamp((ts_ms - 1) // 1000, UTC).date()
