"""What the conditions of a statement tell about the messages that it can be about: queues, offsets, store times.

Only what narrows is taken; every condition stays with Spark, which judges each message again. So a condition that is
not understood here costs time and nothing else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets from `first` to `last`, store times from `begin_ms` to `end_ms`, all inclusive; None for any queue."""

    first: int = 0
    last: int = _MAX
    begin_ms: int = 0
    end_ms: int = _MAX
    queues: frozenset[int] | None = None
    brokers: frozenset[str] | None = None

    @property
    def limits_time(self) -> bool:
        """Whether a broker has to be asked for the offsets of times."""
        return self.begin_ms > 0 or self.end_ms < _MAX

    def has(self, broker: str, queue: int) -> bool:
        """Whether messages of this queue are meant."""
        return (self.brokers is None or broker in self.brokers) and (self.queues is None or queue in self.queues)


def bounds_of(filters: "Iterable[Filter]") -> Bounds:
    """The bounds of conditions that hold together (Spark pushes the parts of a conjunction)."""
    bounds = Bounds()
    for condition in filters:
        narrow = _NARROWING.get((type(condition).__name__, _column(condition)))
        if narrow is not None:
            bounds = narrow(bounds, condition)
    return bounds


def _column(condition: Any) -> str:
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    return str(attribute[0]).lower() if len(attribute) == 1 else ""


def _milliseconds(moment: datetime) -> float:
    """Microseconds count: a message stored within the same millisecond must not fall out of the range."""
    return moment.timestamp() * 1000


def _at_most(bounds: Bounds, last: int) -> Bounds:
    return replace(bounds, last=min(bounds.last, last))


def _at_least(bounds: Bounds, first: int) -> Bounds:
    return replace(bounds, first=max(bounds.first, first))


def _until(bounds: Bounds, moment: datetime) -> Bounds:
    return replace(bounds, end_ms=min(bounds.end_ms, max(0, int(_milliseconds(moment)) + 1)))


def _since(bounds: Bounds, moment: datetime) -> Bounds:
    return replace(bounds, begin_ms=max(bounds.begin_ms, int(_milliseconds(moment)) - 1))


def _offsets(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    known = [value for value in values if isinstance(value, int)]
    return replace(bounds, first=max(bounds.first, min(known)), last=min(bounds.last, max(known))) if known else bounds


def _queues(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    wanted = frozenset(value for value in values if isinstance(value, int))
    return replace(bounds, queues=wanted if bounds.queues is None else bounds.queues & wanted)


def _brokers(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    wanted = frozenset(value for value in values if isinstance(value, str))
    return replace(bounds, brokers=wanted if bounds.brokers is None else bounds.brokers & wanted)


def _times(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    known = [value for value in values if isinstance(value, datetime)]
    return _until(_since(bounds, min(known)), max(known)) if known else bounds


_NARROWING: dict[tuple[str, str], Callable[[Bounds, Any], Bounds]] = {
    ("GreaterThan", "offset"): lambda bounds, condition: _at_least(bounds, condition.value + 1),
    ("GreaterThanOrEqual", "offset"): lambda bounds, condition: _at_least(bounds, condition.value),
    ("LessThan", "offset"): lambda bounds, condition: _at_most(bounds, condition.value - 1),
    ("LessThanOrEqual", "offset"): lambda bounds, condition: _at_most(bounds, condition.value),
    ("GreaterThan", "store_time"): lambda bounds, condition: _since(bounds, condition.value),
    ("GreaterThanOrEqual", "store_time"): lambda bounds, condition: _since(bounds, condition.value),
    ("LessThan", "store_time"): lambda bounds, condition: _until(bounds, condition.value),
    ("LessThanOrEqual", "store_time"): lambda bounds, condition: _until(bounds, condition.value),
}
for _name, _narrow in (("offset", _offsets), ("queue", _queues), ("broker", _brokers), ("store_time", _times)):
    _NARROWING["EqualTo", _name] = lambda bounds, condition, narrow=_narrow: narrow(bounds, [condition.value])  # type: ignore[misc]
    _NARROWING["In", _name] = lambda bounds, condition, narrow=_narrow: narrow(bounds, condition.value)  # type: ignore[misc]
