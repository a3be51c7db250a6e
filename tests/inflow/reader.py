"""A reader as the product's: each piece is written to a file and synced before it is confirmed.

`python -m tests.inflow.reader SOURCE FILE`, where SOURCE is a PostgresSource in JSON. It goes on where the file ends.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from analytics.inflow.postgres import PostgresSource, open_capture


def main(source: PostgresSource, file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    file.write_bytes(b"".join(whole))  # a line that a kill cut off was not confirmed
    position = json.loads(whole[-1])["position"] if whole else None
    with open_capture(source, ["public.*"], position, snapshot=True) as capture, file.open("ab") as kept:
        while True:
            changes = capture.changes(1)
            for change in changes:
                row = change.event["data"]["after"]
                told = {"position": change.position, "id": change.event["id"], "row": row["id"], "n": row["n"]}
                kept.write(json.dumps(told).encode() + b"\n")
            kept.flush()
            os.fsync(kept.fileno())
            if changes:
                capture.confirm(changes[-1].position)


if __name__ == "__main__":
    main(PostgresSource(**json.loads(sys.argv[1])), Path(sys.argv[2]))
