"""What kills of a SQL job have cost, the table of it, and which of it is a fault."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median

from tests.bench.figures import table


@dataclass
class Killed:
    """One kill, and what was sent until the next one."""

    name: str
    #: Epoch seconds.
    at: float
    #: The highest number that had been tried.
    sent: int
    #: Seconds until a message that was sent after it came out of the topic; None where the next kill came before.
    flowed: float | None = None


@dataclass
class Report:
    """The counts; numbers stand for messages."""

    seed: int
    seconds: float = 0.0
    kills: list[Killed] = field(default_factory=list)
    tried: int = 0
    acknowledged: set[int] = field(default_factory=set)
    #: By the job's own count of each number, kept in its state.
    counted: dict[int, int] = field(default_factory=dict)
    #: Epoch seconds of each time that a number was written to the topic.
    written: dict[int, list[float]] = field(default_factory=dict)
    left: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    faults: list[str] = field(default_factory=list)

    def verdict(self) -> list[str]:
        """A sentence for each fault; none when all was as promised."""
        found = list(self.faults)
        if not self.acknowledged:
            found.append("Nothing was acknowledged: the load did not run.")
        for what, numbers in (
            ("acknowledged messages were not counted by the job", self.acknowledged - self.counted.keys()),
            ("acknowledged messages are not in the topic", self.acknowledged - self.written.keys()),
            ("messages were counted more than once", {n for n, times in self.counted.items() if times > 1}),
            ("messages were counted that nobody sent", {n for n in self.counted if not 0 < n <= self.tried}),
        ):
            if numbers:
                found.append(f"{len(numbers)} {what}: {', '.join(map(str, sorted(numbers)[:10]))}")
        if self.left:
            found.append(f"{self.left} messages are left in the queue.")
        return found

    def _after(self, number: int) -> str:
        """After which kill a message was sent."""
        return next((kill.name for kill in reversed(self.kills) if kill.sent < number), "before the first")

    def _at(self, when: float) -> str:
        return next((kill.name for kill in reversed(self.kills) if kill.at <= when), "before the first")

    def _rows(self) -> list[tuple[str, ...]]:
        acknowledged = Counter(map(self._after, self.acknowledged))
        lost = Counter(self._after(n) for n in self.acknowledged if n not in self.counted or n not in self.written)
        doubled = Counter(self._after(n) for n, times in self.counted.items() if times > 1)
        again = Counter(self._at(when) for times in self.written.values() for when in sorted(times)[1:])
        took: defaultdict[str, list[float]] = defaultdict(list)
        kills = Counter(kill.name for kill in self.kills)
        for kill in self.kills:
            if kill.flowed is not None:
                took[kill.name].append(kill.flowed)
        names = [*sorted(kills), *(["before the first"] if acknowledged["before the first"] else [])]
        rows = [
            (
                name,
                *(f"{count[name]:,}" for count in (kills, acknowledged, lost, doubled, again)),
                *((f"{median(took[name]):.1f}", f"{max(took[name]):.1f}") if took[name] else ("", "")),
            )
            for name in names
        ]
        every = [seconds for values in took.values() for seconds in values]
        sums = (f"{count.total():,}" for count in (kills, acknowledged, lost, doubled, again))
        spread = (f"{median(every):.1f}", f"{max(every):.1f}") if every else ("", "")
        return [*rows, ("all", *sums, *spread)]

    def __str__(self) -> str:
        heads = (
            "`kill -9` of", "kills", "acknowledged until the next", "lost", "doubled in the source",
            "doubled in the topic", "flows again, p50 s", "max s",
        )  # fmt: skip
        counters = ", ".join(f"{name} {count:,}" for name, count in sorted(self.counters.items()))
        return "\n\n".join(
            [
                f"{len(self.kills)} kills in {self.seconds / 60:.1f} minutes, seed {self.seed}: {self.tried:,} messages"
                f" tried, {len(self.acknowledged):,} acknowledged, {len(self.counted):,} counted by the job,"
                f" {len(self.written):,} in the topic, {self.left} left in the queue; {self.restarts} restarts.",
                table(heads, self._rows()),
                f"The source's counters: {counters}.",
            ]
        )
