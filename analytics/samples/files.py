"""Samples of message counts as they are kept: a folder a UTC day, and which of its files count.

    day=2026-01-15/
      raw-<hash>.parquet       a batch of samples as it came, there at once or not at all
      samples-<hash>.parquet   all merged samples of the day, sorted by kind, topic, group and time
      rollup-<hash>.parquet    their sums per 1, 5 and 10 minutes, sorted the same way
      manifest.json            names the two files that count, and the raw files that they contain

The manifest is replaced in one step, so a reader sees the state before a rollup or after it, never a mixture.

All times are UTC, in ms since 1970. A sample belongs to the period in which it ends; one that ends exactly with a
period belongs to it, not to the next. Importing this imports no Arrow: a web process has it and rarely needs it.
"""

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING

from analytics import lake
from analytics.errors import LakeError
from analytics.specs import Sample

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("in", "out")
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
#: Lengths of the periods that are kept, minutes.
PERIODS = (1, 5, 10)
#: A sample that covers more than this says how many messages came, but not when: it makes no curve, s.
LONGEST_SAMPLE_S = 90.0
#: A period is shown when samples cover at least this part of it; otherwise it is a gap.
LEAST_COVERED = 0.5


@cache
def schema() -> "pa.Schema":
    """The columns of a file of samples."""
    import pyarrow as pa

    return pa.schema(
        [
            ("kind", pa.string()),
            ("topic", pa.string()),
            ("group", pa.string()),
            ("ts_ms", pa.int64()),
            ("count", pa.int64()),
            ("seconds", pa.float64()),
        ]
    )


def start_of_period(ts_ms: int, minutes: int) -> int:
    """Start of the period to which a sample that ends at `ts_ms` belongs."""
    length = minutes * MINUTE_MS
    return (ts_ms - 1) // length * length


def day_of(ts_ms: int) -> date:
    """The UTC day to which a sample that ends at `ts_ms` belongs."""
    return datetime.fromtimestamp((ts_ms - 1) // 1000, UTC).date()


def append(samples: Iterable[Sample]) -> None:
    """Write the samples, each to the UTC day in which it ends.

    The same batch written twice is there once: its file is named by its content. Raises ValueError for an unknown kind.
    """
    days: dict[date, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.kind not in KINDS:
            raise ValueError(f"kind {sample.kind!r} of a sample; possible are {', '.join(KINDS)}")
        days[day_of(sample.ts_ms)].append(sample)
    for day, batch in days.items():
        _write(day, batch)


def _write(day: date, batch: list[Sample]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: [getattr(sample, name) for sample in batch] for name in schema().names}
    digest = hashlib.sha256(repr(columns).encode()).hexdigest()[:20]
    with io.BytesIO() as file:
        pq.write_table(pa.table(columns, schema=schema()), file)
        file.seek(0)
        lake.write_file(f"{lake.metrics_location(day)}/raw-{digest}.parquet", file)


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
