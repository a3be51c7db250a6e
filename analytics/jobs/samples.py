"""Appends samples to the lake: a small Parquet file for each batch and day, there at once or not at all."""

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterable
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

from analytics import lake
from analytics.jobs.files import SCHEMA
from analytics.jobs.periods import day_of
from analytics.specs import Sample

KINDS = ("in", "out")


def append_samples(samples: Iterable[Sample]) -> None:
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
    columns = {name: [getattr(sample, name) for sample in batch] for name in SCHEMA.names}
    digest = hashlib.sha256(repr(columns).encode()).hexdigest()[:20]
    with io.BytesIO() as file:
        pq.write_table(pa.table(columns, schema=SCHEMA), file)
        file.seek(0)
        lake.write_file(f"{lake.metrics_location(day)}/raw-{digest}.parquet", file)
