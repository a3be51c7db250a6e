"""The files of one day of samples, and which of them count.

    day=2026-01-15/
      raw-<hash>.parquet       a batch of samples as it came
      samples-<hash>.parquet   all merged samples of the day, sorted by kind, topic, group and time
      rollup-<hash>.parquet    their sums per 1, 5 and 10 minutes, sorted the same way
      manifest.json            names the two files that count, and the raw files that they contain

The manifest is replaced in one step, so a reader sees the state before a rollup or after it, never a mixture.
"""

import io
import json
from dataclasses import asdict, dataclass, field
from datetime import date

import pyarrow as pa

from analytics import lake
from analytics.errors import LakeError

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

    #: Its location, with a slash at the end.
    folder: str
    manifest: Manifest
    raw: list[lake.LakeFile]
    leftover: list[lake.LakeFile]


def look(day: date) -> Day:
    """The state of a day; everything is empty for a day without samples. Raises LakeError."""
    folder = f"{lake.metrics_location(day)}/"
    manifest = _manifest(folder)
    raw = [file for file in lake.files(folder) if name_of(file).startswith("raw-")]
    merged = set(manifest.merged)
    return Day(
        folder,
        manifest,
        [file for file in raw if name_of(file) not in merged],
        [file for file in raw if name_of(file) in merged],
    )


def name_of(file: lake.LakeFile) -> str:
    """The last part of its location."""
    return file.location.rpartition("/")[2]


def _manifest(folder: str) -> Manifest:
    try:
        with lake.open_file(f"{folder}manifest.json") as file:
            return Manifest(**json.load(file))
    except LakeError as error:
        if error.is_missing:
            return Manifest()
        raise


def replace_manifest(day: Day, manifest: Manifest) -> None:
    """Make another state count, then remove the files that no longer do."""
    lake.write_file(f"{day.folder}manifest.json", io.BytesIO(json.dumps(asdict(manifest)).encode()))
    kept = {manifest.samples, manifest.rollup}
    for file in lake.files(day.folder):
        name = name_of(file)
        is_old = name.startswith(("samples-", "rollup-")) and name not in kept
        if is_old or name in manifest.merged:
            lake.remove(file.location)
