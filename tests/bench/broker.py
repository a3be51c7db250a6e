"""The embedded broker beside Apache RocketMQ: the same Java client drives both, in turn, each from an empty store.

The client takes most of a small machine itself, so the ratio of rates understates the difference: the CPU time of both
for the same work stands beside them. Every ratio is turned so that above 1 the embedded broker is ahead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from brokercore.client.errors import ClientError
from tests.bench import broker_lines, contenders, figures
from tests.bench.broker_lines import Course, Figure, Figures
from tests.bench.contenders import Contender
from tests.bench.driver import Driver, LineFailedError, class_path, note
from tests.support.apache import StartError

QUICK_SHARE = 0.1
HEAD = ("permissions on", "embedded broker", "Apache RocketMQ 5.3.3", "ahead by", "CPU ms", "theirs")

Rounds = list[Figures]


def main(rounds: int, only: Sequence[str] = (), *, quick: bool = False) -> str:
    """Run interleaved rounds and return the table; `only` names steps, `quick` is one short round of all."""
    java_path = class_path()
    steps = {flush: [name for name in _steps(flush) if not only or name in only] for flush in (False, True)}
    results: dict[bool, tuple[Rounds, Rounds]] = {flush: ([], []) for flush, names in steps.items() if names}
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder:
        for number in range(1 if quick else rounds):
            for synchronous, (ours, theirs) in results.items():
                pair: list[tuple[Contender, Rounds]] = [(contenders.embedded, ours), (contenders.apache, theirs)]
                # Who comes first changes: neither has the warmer machine every time.
                for contender, found in pair if number % 2 == 0 else reversed(pair):
                    note(f"round {number + 1}, {_flush(synchronous)}: {contender.__name__}")
                    share = QUICK_SHARE if quick else 1.0
                    found.append(
                        _run(contender, Path(folder) / "apache", java_path, synchronous, steps[synchronous], share)
                    )
    return _report(results)


def _steps(synchronous: bool) -> Iterable[str]:
    return broker_lines.SYNCHRONOUS_STEPS if synchronous else broker_lines.STEPS


def _flush(synchronous: bool) -> str:
    return "synchronous flush" if synchronous else "asynchronous flush"


def _run(  # noqa: PLR0917 (what one run is made of)
    contender: Contender, home: Path, java_path: str, synchronous: bool, steps: Sequence[str], share: float
) -> Figures:
    """All steps on one broker. A step that fails has no figures; a broker that does not start has none at all."""
    found: Figures = {}
    try:
        with contender(home, synchronous) as target:
            driver = Driver(java_path, target.namesrv, contenders.TENANT)
            try:
                for name in steps:
                    if not driver.alive:
                        driver.close()
                        driver = Driver(java_path, target.namesrv, contenders.TENANT)
                    found |= _step(name, Course(target, driver, synchronous, share))
            finally:
                driver.close()
    except (LineFailedError, StartError, ClientError, AssertionError, OSError) as error:
        note(f"  failed: {contender.__name__}: {str(error)[-500:]}")
    return found


def _step(name: str, course: Course) -> Figures:
    found: Figures = {}
    warm = (broker_lines.warm_up,) if name in {"send", "batch"} else ()
    for step in (*warm, *broker_lines.STEPS[name]):
        try:
            figures_of_step = step(course)
        except LineFailedError as error:
            note(f"  failed: {name}: {error}")
            continue
        for line, figure in figures_of_step.items():
            note(f"  {line}: {figures.number(figure.value)}")
        found |= figures_of_step
    return found


def _report(results: dict[bool, tuple[Rounds, Rounds]]) -> str:
    rows: list[tuple[str, ...]] = []
    ratios: list[float] = []
    failed: list[str] = []
    for synchronous, (ours, theirs) in results.items():
        names = list(dict.fromkeys(name for found in (*ours, *theirs) for name in found))
        rows.append((f"**{_flush(synchronous)}**", *[""] * (len(HEAD) - 1)))
        for name in names:
            mine, other = _of(name, ours), _of(name, theirs)
            lacking = len(ours) + len(theirs) - len(mine) - len(other)
            if lacking:
                failed.append(f"{name} ({_flush(synchronous)}): {lacking} of {len(ours) + len(theirs)} runs")
            row, ratio = _row(name, mine, other)
            rows.append(row)
            if ratio is not None and not name.startswith("("):
                ratios.append(ratio)
    parts = [figures.table(HEAD, rows)]
    if ratios:
        below = sum(ratio < 1 for ratio in ratios)
        parts.append(
            f"{len(ratios)} lines (those in brackets not counted), median {median(ratios):.2f}; below 1.0: {below}."
        )
    if failed:
        parts.append("Failed: " + "; ".join(failed) + ".")
    return "\n\n".join(parts)


def _of(name: str, rounds: Rounds) -> list[Figure]:
    return [found[name] for found in rounds if name in found]


def _row(name: str, ours: list[Figure], theirs: list[Figure]) -> tuple[tuple[str, ...], float | None]:
    if not ours or not theirs:
        return (name, _value(ours), _value(theirs), "", _cpu(ours), _cpu(theirs)), None
    mine, other = (median(figure.value for figure in found) for found in (ours, theirs))
    ratio = (mine / other if ours[0].high_is_better else other / mine) if mine and other else None
    shown = "" if ratio is None else f"{ratio:.2f}"
    return (name, _value(ours), _value(theirs), shown, _cpu(ours), _cpu(theirs)), ratio


def _value(found: list[Figure]) -> str:
    return figures.number(median(figure.value for figure in found)) if found else "failed"


def _cpu(found: list[Figure]) -> str:
    known = [figure.cpu for figure in found if figure.cpu is not None]
    return figures.number(median(known)) if known else ""
