"""Rows that the console gives for one statement, kept as a file of the lake for as long as the statement runs."""

import contextlib
import itertools
import tempfile
import uuid
from collections.abc import Iterator
from contextvars import ContextVar

import pyarrow as pa
import pyarrow.parquet as pq

from analytics import lake
from analytics.errors import QueryFailed
from analytics.specs import TableSpec

#: A bucket of our own: no tenant's tables can lie in it.
FOLDER = "oss://gantry-snapshots"
_CHUNK_ROWS = 5_000
_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_kept: ContextVar[list[str]] = ContextVar("snapshots")


@contextlib.contextmanager
def removed_afterwards() -> Iterator[None]:
    """Remove the snapshots that the block writes when it ends."""
    token = _kept.set([])
    try:
        yield
    finally:
        for location in _kept.get():
            with contextlib.suppress(Exception):  # the lake's own error would hide the statement's
                lake.remove(location)
        _kept.reset(token)


def write(table: TableSpec) -> str:
    """Write the rows of a table; returns the folder. A few thousand are in memory at a time."""
    if table.rows is None:
        raise QueryFailed(f"The table {table.name} has no rows to be read.")
    schema = pa.schema([(column.name, _TYPES[column.type]) for column in table.columns])
    location = f"{FOLDER}/{uuid.uuid4().hex}/"
    _kept.get().append(location)
    rows = iter(table.rows())
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema) as writer:
            while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
                columns = [
                    pa.array(values, kind) for values, kind in zip(zip(*chunk, strict=True), schema.types, strict=True)
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        file.seek(0)
        lake.write_file(f"{location}rows.parquet", file)
    return location
