"""The queue service beside two servers of SQS: the same client drives all of them, in turn, each started empty.

The client costs the same for each, and little; its own limit stands beside the figures, against a server that answers
everything at once. Every ratio is turned so that above 1 the queue service is ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from tests.bench import figures, smq_crowd, smq_servers
from tests.bench.driver import LineFailedError, note
from tests.bench.smq_load import Load, Phase, ask, load
from tests.bench.smq_servers import Contender, Target
from tests.support import processes
from tests.support.apache import StartError
from tests.support.java import BuildError

CONTENDERS: tuple[Contender, ...] = (smq_servers.gantry, smq_servers.elasticmq, smq_servers.moto)
OURS = "Gantry"
OTHERS: tuple[str, ...] = ("ElasticMQ", "moto")
HEAD = (
    "1 KB messages", OURS, "ElasticMQ", "moto", "ahead of ElasticMQ", "ahead of moto",
    "CPU ms", "ElasticMQ's", "moto's", "the client's limit",
)  # fmt: skip
BODY = "k7" * 512
CONNECTIONS = (1, 16)
BATCHES = (1, 10)
"""A batch of SQS has 10 messages at most."""
OUR_BATCH = 16
SECONDS, QUICK_SECONDS = 2.0, 0.4
WARM_SECONDS = 3.0
"""Of each operation over 16 connections, single and in batches, before anything counts: a JVM compiles meanwhile."""
_OPERATIONS = ("send", "receive", "delete")


class Figure(NamedTuple):
    """Messages a second, and processor ms of the server for 1,000 messages."""

    rate: float
    cpu: float


Figures = dict[str, Figure]


def main(rounds: int, *, quick: bool = False) -> str:
    """Run interleaved rounds, then the crowds, and return both tables."""
    seconds, warm = (QUICK_SECONDS, QUICK_SECONDS) if quick else (SECONDS, WARM_SECONDS)
    found: dict[str, list[Figures]] = {}
    for number in range(1 if quick else rounds):
        # Who comes first changes: none has the warmer machine every time.
        first = number % len(CONTENDERS)
        for contender in (*CONTENDERS[first:], *CONTENDERS[:first]):
            note(f"round {number + 1}: {contender.__name__}")
            _run(contender, found, lambda target: _lines(target, seconds, warm))
    _run(smq_servers.canned, found, lambda target: _lines(target, seconds, 0))
    crowds = {contender.__name__: smq_crowd.figures_of(contender, quick=quick) for contender in CONTENDERS}
    return f"{_table(found)}\n\n{smq_crowd.table(crowds)}"


def _run(contender: Contender, found: dict[str, list[Figures]], lines: Callable[[Target], Figures]) -> None:
    """One server's figures; one that does not start has none."""
    try:
        with contender() as target:
            found.setdefault(target.name, []).append(lines(target))
    except (StartError, BuildError, AssertionError, OSError) as error:
        note(f"  failed: {contender.__name__}: {str(error)[-500:]}")


def _lines(target: Target, seconds: float, warm: float) -> Figures:
    found: Figures = {}
    try:
        if warm:
            with load(target.dialect, target.port, max(CONNECTIONS), BODY) as client:
                for batch in BATCHES:
                    _batch(target, client, f"warm-{batch}", batch, warm)
        for connections in CONNECTIONS:
            with load(target.dialect, target.port, connections, BODY) as client:
                for batch in (*BATCHES, OUR_BATCH) if target.name == OURS else BATCHES:
                    of_batch = _batch(target, client, f"q-{connections}-{batch}", batch, seconds)
                    for operation, figure in of_batch.items():
                        note(f"  {operation} {batch} over {connections}: {figure.rate:,.0f} msg/s")
                        found[_name(operation, connections, batch)] = figure
    except LineFailedError as error:
        note(f"  failed: {error}")
    return found


def _batch(target: Target, client: Load, queue: str, batch: int, seconds: float) -> Figures:
    """By operation: send for so long, receive what was sent, delete what was received. Raises LineFailedError."""
    found: Figures = {}
    ask(target.port, target.dialect.create(queue))
    for operation in _OPERATIONS:
        spent = processes.cpu_seconds(target.pids.values())
        done = client.run(Phase(operation, queue, batch, seconds))
        if not done.messages:
            raise LineFailedError(f"{operation}: nothing was there")
        spent = processes.cpu_seconds(target.pids.values()) - spent
        found[operation] = Figure(done.messages / done.seconds, spent * 1e6 / done.messages)
    return found


def _name(operation: str, connections: int, batch: int) -> str:
    what = f"{operation} batches of {batch}" if batch > 1 else operation
    return f"{what}, {connections} connection{'s' if connections > 1 else ''}; msg/s"


def _table(found: dict[str, list[Figures]]) -> str:
    rows: list[tuple[str, ...]] = []
    ratios: dict[str, list[float]] = {other: [] for other in OTHERS}
    for connections in CONNECTIONS:
        for batch in (*BATCHES, OUR_BATCH):
            for operation in _OPERATIONS:
                name = _name(operation, connections, batch)
                row, row_ratios = _row(name, found)
                rows.append(row)
                for other, ratio in row_ratios.items():
                    ratios[other].append(ratio)
    least = ", ".join(f"{min(some):.2f} × {other}" for other, some in ratios.items() if some)
    return figures.table(HEAD, rows) + (f"\n\nThe least of all lines: {least}." if least else "")


def _row(name: str, found: dict[str, list[Figures]]) -> tuple[tuple[str, ...], dict[str, float]]:
    known = {
        server: Figure(median(one.rate for one in some), median(one.cpu for one in some))
        for server, rounds in found.items()
        if (some := [figures_of_round[name] for figures_of_round in rounds if name in figures_of_round])
    }
    ours = known.get(OURS)
    ratios = {other: ours.rate / known[other].rate for other in OTHERS if ours and other in known}
    return (
        name,
        *(figures.number(known[server].rate) if server in known else "" for server in (OURS, *OTHERS)),
        *(f"{ratios[other]:.2f}" if other in ratios else "" for other in OTHERS),
        *(figures.number(known[server].cpu) if server in known else "" for server in (OURS, *OTHERS)),
        figures.number(known["canned"].rate) if "canned" in known else "",
    ), ratios
