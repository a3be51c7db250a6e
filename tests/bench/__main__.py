"""`python -m tests.bench [NAME]`: the figures of docs/operate/performance.md, as Markdown tables."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tests.bench import (
    adoption,
    broker,
    broker_lines,
    console,
    fairness,
    fairness_attacks,
    inflow,
    pages,
    pipelines,
    scale,
    smq,
    smq_beside,
    soak,
    sql,
    streams,
    weight,
)


def main() -> None:
    """Print the tables asked for; without a name all of them but the soak, which takes an hour."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    kinds = (
        *("broker", "soak", "sql", "pages", "console", "scale", "fairness", "smq", "smq-beside", "pipelines", "inflow"),
        "adoption",
        "weight",
        "streams",
        "all",
    )
    parser.add_argument("what", nargs="?", choices=kinds, default="all")
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="rounds of broker, queues, pipelines and inflow tasks (default 5)",
    )
    parser.add_argument("--quick", action="store_true", help="one short round of the broker's or the queues' figures")
    parser.add_argument(
        "--only", action="append", choices=tuple(broker_lines.STEPS), default=[], help="these broker figures alone"
    )
    parser.add_argument(
        "--attack", action="append", choices=tuple(fairness_attacks.ATTACKS), default=[], help="these attacks alone"
    )
    parser.add_argument(
        "--part",
        action="append",
        choices=tuple(dict.fromkeys(pipelines.PARTS + inflow.PARTS)),
        default=[],
        help="these figures of pipelines or inflow tasks alone",
    )
    parser.add_argument(
        "--on", action="append", choices=tuple(scale.KINDS), default=[], help="the large cluster on these brokers alone"
    )
    parser.add_argument("--minutes", type=int, default=60, help="minutes of the soak (default 60)")
    parser.add_argument("--share", type=float, default=0.7, help="of the highest rate, for the soak (default 0.7)")
    parser.add_argument("--demo", type=Path, help="demo.json of a running copy; without it one is started")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended as after Ctrl-C
    if arguments.what in ("broker", "all"):
        print("\n" + broker.main(arguments.rounds, arguments.only, quick=arguments.quick), flush=True)
    if arguments.what == "soak":
        print("\n" + soak.main(arguments.minutes, arguments.share), flush=True)
    if arguments.what in ("sql", "all"):
        print("\n" + sql.main(), flush=True)
    if arguments.what in ("pages", "all"):
        print("\n" + pages.main(arguments.demo), flush=True)
    if arguments.what in ("weight", "all"):
        print("\n" + weight.main(arguments.demo), flush=True)
    if arguments.what in ("streams", "all"):
        print("\n" + streams.main(arguments.demo), flush=True)
    if arguments.what in ("console", "all"):
        print("\n" + console.main(), flush=True)
    if arguments.what in ("scale", "all"):
        print("\n" + scale.main(arguments.on), flush=True)
    if arguments.what in ("adoption", "all"):
        print("\n" + adoption.main(arguments.on), flush=True)
    if arguments.what in ("fairness", "all"):
        print("\n" + fairness.main(arguments.attack), flush=True)
    if arguments.what in ("smq", "all"):
        print("\n" + smq.main(arguments.rounds, quick=arguments.quick), flush=True)
    if arguments.what in ("smq-beside", "all"):
        print("\n" + smq_beside.main(quick=arguments.quick), flush=True)
    if arguments.what in ("pipelines", "all"):
        print("\n" + pipelines.main(arguments.rounds, tuple(arguments.part) or pipelines.PARTS), flush=True)
    if arguments.what in ("inflow", "all"):
        print("\n" + inflow.main(arguments.rounds, tuple(arguments.part) or inflow.PARTS), flush=True)


if __name__ == "__main__":
    main()
