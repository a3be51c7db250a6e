"""What each scenario counted: sent, acknowledged, received, lost, duplicated. Shown at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tests.brokercore.crash.records import PATIENCE_SECONDS, Client
from tests.support.broker import eventually

TABLE: list[Figures] = []
"""One row for each scenario of this run."""

HEADINGS = ("scenario", "client", "sent", "acknowledged", "received", "lost", "duplicated")


class Figures(NamedTuple):
    """One row. Received are different messages; duplicated are deliveries beyond the first of each."""

    scenario: str
    client: str
    sent: int
    acknowledged: int
    received: int
    lost: int
    duplicated: int
    remark: str = ""


def judge(
    scenario: str,
    sent: Iterable[str],
    acknowledged: Iterable[str],
    received: Client | Sequence[Client],
    **more: Any,
) -> Figures:
    """Like `judge_bodies`, for what clients of the driver have received."""
    receivers = [received] if isinstance(received, Client) else list(received)

    def bodies() -> list[str]:
        return [body for receiver in receivers for body in receiver.bodies("received")]

    return judge_bodies(scenario, sent, acknowledged, bodies, **more)


def judge_bodies(
    scenario: str,
    sent: Iterable[str],
    acknowledged: Iterable[str],
    received: Callable[[], Iterable[str]],
    *,
    client: str = "Python",
    most_deliveries: int = 3,
    excused: Iterable[str] = (),
    remark: str = "",
) -> Figures:
    """Wait until every acknowledged message was received, add the row, and see that nothing is lost.

    `excused` are messages that the chosen fsync mode may lose. No message may come more than `most_deliveries` times:
    a duplicate needs a break, an answer that was lost, or a commit that was not written yet.
    """
    wanted, excused = set(acknowledged), set(excused)
    with suppress(AssertionError):  # told below, with names
        eventually(lambda: wanted - excused <= set(received()), PATIENCE_SECONDS)
    counted = Counter(received())
    lost = wanted - set(counted)
    row = Figures(
        scenario, client, len(set(sent)), len(wanted), len(counted), len(lost), counted.total() - len(counted), remark
    )
    TABLE.append(row)
    assert lost <= excused, f"{len(lost - excused)} acknowledged messages never came: {sorted(lost - excused)[:10]}"
    often = {body: count for body, count in counted.items() if count > most_deliveries}
    assert not often, f"delivered more than {most_deliveries} times: {dict(list(often.items())[:10])}"
    return row


def as_markdown(rows: Iterable[Figures]) -> str:
    """The table for docs/operate/durability.md."""
    lines = [f"| {' | '.join((*HEADINGS, 'remark'))} |", "| --- | --- |" + " ---: |" * 5 + " --- |"]
    for row in rows:
        figures = (f"{number:,}" for number in row[2:7])
        lines.append(f"| {row.scenario} | {row.client} | {' | '.join(figures)} | {row.remark} |")
    return "\n".join(lines) + "\n"


def as_text(rows: Sequence[Figures]) -> list[str]:
    """The table for the terminal."""
    table = [HEADINGS, *((row.scenario, row.client, *map(str, row[2:7])) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
