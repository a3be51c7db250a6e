"""What a run has counted, the table of it, and which of it is a fault."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median

from tests.bench.figures import table
from tests.chaos.harms import DISK, KILL, Harm
from tests.chaos.inflow_figures import Report as Changes


@dataclass
class Report:
    """The counts. `lost`, `stuck`, `missing` and what `faults` says must be empty."""

    seed: int
    seconds: float = 0.0
    harms: Counter[str] = field(default_factory=Counter)
    recovery: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    left_out: str = ""
    faults: list[str] = field(default_factory=list)

    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    received_again: int = 0
    read_again: int = 0
    stored_again: int = 0
    lost: set[str] = field(default_factory=set)
    """Acknowledged, and not received or not where the acknowledgement said."""

    tasks: int = 0
    statements_refused: int = 0
    stuck: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    notices: int = 0
    missing: set[str] = field(default_factory=set)
    pages: Counter[str] = field(default_factory=Counter)

    changes: Changes | None = None
    """Of a database, into a topic."""

    queue_acknowledged: int = 0
    queue_received: int = 0
    queue_lost: set[str] = field(default_factory=set)

    def harmed(self, harm: Harm, took: dict[str, float]) -> None:
        """A harm is over, and all is well again."""
        self.harms[{KILL: "kills", DISK: "full disks"}.get(harm.kind, "stops")] += 1
        for name, seconds in took.items():
            self.recovery[name].append(seconds)

    def verdict(self) -> list[str]:
        """A sentence for each fault; none when all was as promised."""
        found = list(self.faults)
        if not (self.acknowledged and self.tasks and self.pages["answered"] and self.queue_acknowledged):
            found.append("Nothing was acknowledged, submitted or answered: the load did not run.")
        for what, names in (
            ("acknowledged messages are lost", self.lost),
            ("acknowledged messages of the queue service are lost", self.queue_lost),
            ("tasks are stuck", self.stuck),
            ("notices are missing", self.missing),
        ):
            if names:
                found.append(f"{len(names)} {what}: {', '.join(sorted(names)[:10])}")
        if self.changes is not None:
            found += self.changes.verdict()
        if broken := self.pages["broken"]:
            found.append(f"{broken} pages or calls of the API were answered with an error that says nothing (5xx).")
        return found

    def __str__(self) -> str:
        harms = ", ".join(f"{count} {kind}" for kind, count in self.harms.items())
        counts = {
            "messages sent": self.sent,
            "acknowledged": self.acknowledged,
            "received": self.received,
            "re-read at the place that was acknowledged": self.read_again,
            "**lost**": len(self.lost),
            "doubled: stored twice, as the answer to a send was lost": self.stored_again,
            "doubled: received twice, as an offset was not committed yet": self.received_again,
            "acknowledged by the queue service": self.queue_acknowledged,
            "received from it, doubled ones too": self.queue_received,
            "**lost**, of the queue service": len(self.queue_lost),
            "SQL tasks submitted": self.tasks,
            "submissions refused meanwhile": self.statements_refused,
            "tasks ended": self.tasks - len(self.stuck),
            "of these as a failure": len(self.failed),
            "**stuck**": len(self.stuck),
            "notices due": self.tasks - len(self.stuck),
            "notices received, doubled ones too": self.notices,
            "**notices missing**": len(self.missing),
            **(self.changes.counts() if self.changes is not None else {}),
            "pages and API calls answered": self.pages["answered"],
            "refused, in a sentence or without an answer": self.pages["refused"],
            "**answered with a bare 5xx**": self.pages["broken"],
        }
        recovery = [
            (name, str(len(values)), *(f"{value:.1f}" for value in (min(values), median(values), max(values))))
            for name, values in sorted(self.recovery.items())
        ]
        return "\n\n".join(
            [
                f"{harms or 'no harm'} in {self.seconds / 60:.1f} minutes, seed {self.seed}."
                + (f" Left out: {self.left_out}." if self.left_out else ""),
                table(("what", "count"), [(what, f"{count:,}") for what, count in counts.items()]),
                table(("seconds from the kill until it is well", "kills", "min", "median", "max"), recovery),
            ]
        )
