"""10,000 names of a cluster adopted in one go, also by workers of which one is killed half way, and forgotten again."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench import figures, scale

_LINES = {
    "asked": "the list of what no account has, from the brokers: s",
    "preview": "the preview: s",
    "request": "the request that adopts: s",
    "adopt": "until all are adopted: s",
    "again": "the same names once more: s",
    "forget": "until all are forgotten: s",
    "before_kill": "adopted when the worker is killed",
    "resumed": "from the kill until another worker goes on, with the lease: s",
    "rest": "from when another worker goes on until all are adopted: s",
}


def main(only: Sequence[str] = ()) -> str:
    """Measure on these brokers, on all without a name; return the table."""
    results = scale.measured("tests.bench.adoption_run", only)
    rows = [[text, *(figures.number(one[key]) for one in results.values())] for key, text in _LINES.items()]
    return figures.table(["6,000 topics and 4,000 groups", *results], rows)
