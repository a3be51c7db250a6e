"""The plan of a statement as its result: one column, a line of the plan in each row."""

import io
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics import lake
from analytics.specs import Column, QuerySpec, TableSpec
from analytics.sql import csv_text
from analytics.sql.backend import Backend
from analytics.sql.result import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The result file of EXPLAIN.
RESULT_COLUMN = Column("Plan", "string")
#: Values of options shorter than this are delimiters and switches, and would be found everywhere.
_SHORTEST_SECRET = 6
_HIDDEN = "(hidden)"


def write(backend: Backend, frame: "DataFrame", spec: QuerySpec, tag: str) -> Written:
    """Leave the plan in the result file; the statement is not run. Raises LakeError, and what Spark raises."""
    lines = _shown(backend.explained(frame, spec.explain or "simple"), spec).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    table = pa.table({RESULT_COLUMN.name: pa.array(lines, pa.string())})
    content = io.BytesIO(b"".join([csv_text.header([RESULT_COLUMN]), *map(bytes, csv_text.rows(table))]))
    return Written(len(lines), tag, [RESULT_COLUMN], lake.write_file(spec.result_file, content))


def _shown(plan: str, spec: QuerySpec) -> str:
    """The plan without addresses of the storage and without values of options, which may be secrets."""
    for value in sorted({value for table in _tables(spec) for _, value in table.options}, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            plan = plan.replace(value, _HIDDEN)
    return lake.as_locations(plan).replace("spark_catalog.", "")


def _tables(spec: QuerySpec) -> list[TableSpec]:
    listed = [table for tables in spec.tables.values() for table in tables]
    return [*listed, spec.target.table] if spec.target else listed
