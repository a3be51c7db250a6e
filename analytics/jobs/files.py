"""The files of one day of samples, and which of them count.

    day=2026-01-15/
      raw-<hash>.parquet       a batch of samples as it came
      samples-<hash>.parquet   all merged samples of the day, sorted by kind, topic, group and time
      rollup-<hash>.parquet    their sums per 1, 5 and 10 minutes, sorted the same way
      manifest.json            names the two files that count, and the raw files that they contain

The manifest is replaced in one step, so a reader sees the state before a rollup or after it, never a mixture.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

import pyarrow as pa

from analytics import lake

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("group", pa.string()),
        ("ts_ms", pa.int64()),
        ("count", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Manifest:
    """What counts on a day; `merged` are raw files whose samples are in `samples` already."""

    samples: str | None = None
    rollup: str | None = None
    merged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Day:
    """A day's folder as it was looked at.

    `raw` are the files that the manifest does not contain; `leftover` are those that it does: left by a crash, or
    written again by a sampler's task that was delivered twice.
    """

    folder: Path
    manifest: Manifest
    raw: list[Path]
    leftover: list[Path]


def look(day: date) -> Day:
    """The state of a day; everything is empty for a day without samples."""
    folder = lake.metrics_folder(day)
    manifest = Manifest()
    with suppress(FileNotFoundError):
        manifest = Manifest(**json.loads((folder / "manifest.json").read_text()))
    with suppress(FileNotFoundError):
        names = {name for name in os.listdir(folder) if name.startswith("raw-")}
        new, old = names.difference(manifest.merged), names.intersection(manifest.merged)
        return Day(folder, manifest, sorted(folder / name for name in new), sorted(folder / name for name in old))
    return Day(folder, manifest, [], [])


def replace_manifest(day: Day, manifest: Manifest) -> None:
    """Make another state count, then remove the files that no longer do."""
    draft = day.folder / ".manifest.json"
    draft.write_text(json.dumps(asdict(manifest)))
    draft.replace(day.folder / "manifest.json")
    kept = {manifest.samples, manifest.rollup}
    for name in os.listdir(day.folder):
        is_old = name.startswith(("samples-", "rollup-")) and name not in kept
        if is_old or name in manifest.merged:
            (day.folder / name).unlink(missing_ok=True)
