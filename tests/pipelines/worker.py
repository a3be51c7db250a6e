"""A worker of its own: runs one pipeline until it is killed. Its folder and number are told by the test.

`python -m tests.pipelines.worker <location> <number>` reads the plan, as JSON, and the secrets from its input; at a
further line it ends the engine.
"""

from __future__ import annotations

import json
import sys
import threading

from analytics import engine
from analytics.pipelines import runner
from analytics.pipelines.plan import Plan


def main() -> None:
    """Run until the pipeline's end."""
    location, number = sys.argv[1:3]
    plan, secrets = Plan.from_json(sys.stdin.readline()), json.loads(sys.stdin.readline())
    pipeline = runner.start(runner.Start("crash", "alice", plan, location, int(number), secrets=secrets))
    print("started", flush=True)
    threading.Thread(target=lambda: engine.stop() if sys.stdin.readline() else None, daemon=True).start()
    while not pipeline.wait(0.2):
        pass
    print(f"ended: {pipeline.failure}", flush=True)


if __name__ == "__main__":
    main()
