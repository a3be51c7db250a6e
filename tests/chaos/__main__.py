"""`python -m tests.chaos`: kills, stops and full disks by turns for as long as one likes; `make chaos MINUTES=30`."""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections import Counter
from datetime import UTC, datetime

from tests.chaos import campaign, harms
from tests.chaos.targets import JOBS_JVM


def main() -> int:
    """Print the table; the status is 1 when something was lost, stuck or missing, or did not come back."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long harm is done (default 30)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same harms again")
    parser.add_argument("--rate", type=int, default=200, help="messages a second (default 200)")
    parser.add_argument("--short", action="store_true", help="each kind of harm once, as in make test")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended as after Ctrl-C
    chance = random.Random(arguments.seed)
    report = campaign.run(
        lambda targets: harms.short() if arguments.short else harms.endless([*targets.names, JOBS_JVM], chance),
        seed=arguments.seed,
        rate=arguments.rate,
        minutes=arguments.minutes,
        say=lambda text: print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True),
    )
    print(f"\n{report}\n", flush=True)
    for message, count in Counter(report.failed.values()).most_common(5):
        print(f"{count} tasks ended so: {message}", flush=True)
    faults = report.verdict()
    for fault in faults:
        print(fault, flush=True)
    if faults:
        print(f"Logs and records are in {campaign.KEPT}.", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
