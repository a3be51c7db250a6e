"""A worker of its own: runs one pipeline until it is killed. Its folder and number are told by the test.

`python -m tests.pipelines.worker <location> <number>` reads the plan, as JSON, and the secrets from its input. A
further line is `end`, which ends the engine, or a number: for how many seconds a cluster may have no executor.
"""

from __future__ import annotations

import json
import sys
import threading

from analytics import engine
from analytics.pipelines import executors, runner
from analytics.pipelines.plan import Plan


def main() -> None:
    """Run until the pipeline's end."""
    location, number = sys.argv[1:3]
    plan, secrets = Plan.from_json(sys.stdin.readline()), json.loads(sys.stdin.readline())
    pipeline = runner.start(runner.Start("crash", "alice", plan, location, int(number), secrets=secrets))
    print("started", flush=True)
    threading.Thread(target=obey, daemon=True).start()
    while not pipeline.wait(0.2):
        pass
    print(f"ended: {pipeline.failure}", flush=True)


def obey() -> None:
    """Do what further lines say."""
    for line in iter(sys.stdin.readline, ""):
        if line == "end\n":
            engine.stop()
        else:
            executors.PATIENCE_S = float(line)


if __name__ == "__main__":
    main()
