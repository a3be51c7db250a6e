"""What kills have cost the changes of two databases on their way into topics: the judge, and the table of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from tests.bench.figures import table

BEFORE = "before the first"


class Change(NamedTuple):
    """One committed change of a row."""

    #: Which row of which database.
    row: str
    #: How many changes the row has had, with this one.
    number: int
    #: The transaction that made it, which is one try: where a commit was lost its number is made again by another.
    writing: str


class Arrival(NamedTuple):
    """A change that came out of a topic, in the order of its queue."""

    change: Change
    #: Broker and number of the queue.
    queue: str
    #: When the broker stored it, epoch seconds.
    at: float


@dataclass
class Killed:
    """One kill."""

    name: str
    #: Epoch seconds.
    at: float
    #: Seconds until a change that was made after it came out of every topic; None where the next kill came before.
    flowed: float | None = None


@dataclass
class Report:
    """The counts of one run. `judge` fills what is said of the changes."""

    seed: int
    seconds: float = 0.0
    flush: str = ""
    kills: list[Killed] = field(default_factory=list)
    #: Transactions that were tried.
    tried: int = 0
    #: Changes whose commit was answered, and when, epoch seconds.
    acknowledged: dict[Change, float] = field(default_factory=dict)
    #: Changes of the transactions that the databases themselves have, whether or not their commit was answered.
    committed: set[Change] = field(default_factory=set)
    arrivals: list[Arrival] = field(default_factory=list)
    dead: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    faults: list[str] = field(default_factory=list)

    def verdict(self) -> list[str]:
        """A sentence for each fault; none when all was as promised."""
        found = list(self.faults)
        if not self.acknowledged:
            found.append("Nothing was acknowledged: the load did not run.")
        arrived = {arrival.change for arrival in self.arrivals}
        for what, changes in (
            ("acknowledged changes are not in their database any more", self.acknowledged.keys() - self.committed),
            ("committed changes have not arrived", self.committed - arrived),
            ("changes have arrived that were not committed", arrived - self.committed),
        ):
            if changes:
                found.append(f"{len(changes)} {what}: {_some(changes)}")
        if wrong := [self.arrivals[place].change for place in self.out_of_order]:
            found.append(f"{len(wrong)} changes are out of the order of their row: {_some(wrong)}")
        if rows := split(self.arrivals):
            found.append(f"{len(rows)} rows are in more than one queue: {', '.join(sorted(rows)[:10])}")
        if self.dead:
            found.append(f"{self.dead} events are in the dead-letter topic.")
        return found

    @property
    def out_of_order(self) -> list[int]:
        """The places of arrivals that break the order of their row."""
        by_row: defaultdict[str, list[int]] = defaultdict(list)
        for place, arrival in enumerate(self.arrivals):
            by_row[arrival.change.row].append(place)
        return [
            places[wrong]
            for places in by_row.values()
            for wrong in disorder([self.arrivals[place].change.number for place in places])
        ]

    @property
    def repeated(self) -> list[Arrival]:
        """Arrivals of changes that had arrived before."""
        seen: set[Change] = set()
        found = []
        for arrival in self.arrivals:
            if arrival.change in seen:
                found.append(arrival)
            seen.add(arrival.change)
        return found

    def counts(self) -> dict[str, int]:
        """In a few lines."""
        distinct = {arrival.change for arrival in self.arrivals}
        return {
            "changes of a database acknowledged as committed": len(self.acknowledged),
            "arrived in their topic": len(distinct),
            "doubled: arrived again": len(self.repeated),
            "**lost** or **out of order**": len(self.committed - distinct) + len(self.out_of_order),
        }

    def _after(self, at: float) -> str:
        """After which kill a moment was."""
        place = bisect_right([kill.at for kill in self.kills], at)
        return self.kills[place - 1].name if place else BEFORE

    def _rows(self) -> list[tuple[str, ...]]:
        arrived = {arrival.change for arrival in self.arrivals}
        lost = self.committed - arrived
        counts = (
            Counter(kill.name for kill in self.kills),
            Counter(map(self._after, self.acknowledged.values())),
            Counter(self._after(self.acknowledged.get(change, 0.0)) for change in lost),
            Counter(self._after(arrival.at) for arrival in self.repeated),
            Counter(self._after(self.arrivals[place].at) for place in self.out_of_order),
        )
        took: defaultdict[str, list[float]] = defaultdict(list)
        for kill in self.kills:
            if kill.flowed is not None:
                took[kill.name].append(kill.flowed)
        names = [*sorted(counts[0]), *([BEFORE] if any(count[BEFORE] for count in counts) else [])]
        rows = [(name, *(f"{count[name]:,}" for count in counts), *_spread(took[name])) for name in names]
        every = [seconds for values in took.values() for seconds in values]
        return [*rows, ("all", *(f"{count.total():,}" for count in counts), *_spread(every))]

    def __str__(self) -> str:
        heads = (
            "`kill -9` of", "kills", "acknowledged until the next", "lost", "duplicated", "out of order",
            "flows again, p50 s", "max s",
        )  # fmt: skip
        counters = ", ".join(f"{name} {count:,}" for name, count in sorted(self.counters.items()))
        distinct = len({arrival.change for arrival in self.arrivals})
        unanswered = len(self.committed - self.acknowledged.keys())
        return "\n\n".join(
            [
                f"{len(self.kills)} kills in {self.seconds / 60:.1f} minutes, seed {self.seed}, appendfsync"
                f" {self.flush}: {self.tried:,} transactions tried, {len(self.acknowledged):,} changes acknowledged as"
                f" committed, {unanswered:,} committed without an answer, {distinct:,} arrived, {len(self.repeated):,}"
                f" of them again, {self.dead} dead letters; {self.restarts} restarts.",
                table(heads, self._rows()),
                f"The tasks' counters: {counters}.",
            ]
        )


def disorder(numbers: Sequence[int]) -> list[int]:
    """The places in the arrivals of one row, by the numbers of its changes, that break its order.

    From 1 on each is the one behind the one before it, or goes back: a stretch that is repeated begins there, and is
    then in order itself, without a hole, up to what is new.
    """
    found = []
    before = 0
    for place, number in enumerate(numbers):
        if number > before + 1:
            found.append(place)
        before = number
    return found


def split(arrivals: Iterable[Arrival]) -> set[str]:
    """Rows whose changes are in more than one queue."""
    queues: dict[str, str] = {}
    return {one.change.row for one in arrivals if queues.setdefault(one.change.row, one.queue) != one.queue}


def _spread(values: Sequence[float]) -> tuple[str, str]:
    return (f"{median(values):.1f}", f"{max(values):.1f}") if values else ("", "")


def _some(changes: Iterable[Change]) -> str:
    return ", ".join(f"{change.row} {change.number} of {change.writing}" for change in sorted(changes)[:10])
