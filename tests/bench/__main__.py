"""`python -m tests.bench [broker|sql|pages|console]`: the figures of docs/performance.md, as Markdown tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.bench import broker, console, pages, sql


def main() -> None:
    """Print the tables asked for; without a name all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("broker", "sql", "pages", "console", "all"), default="all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the broker figures (default 3)")
    parser.add_argument("--demo", type=Path, help="demo.json of a running copy; without it one is started")
    arguments = parser.parse_args()
    if arguments.what in ("broker", "all"):
        print("\n" + broker.main(arguments.rounds), flush=True)
    if arguments.what in ("sql", "all"):
        print("\n" + sql.main(), flush=True)
    if arguments.what in ("pages", "all"):
        print("\n" + pages.main(arguments.demo), flush=True)
    if arguments.what in ("console", "all"):
        print("\n" + console.main(), flush=True)


if __name__ == "__main__":
    main()
